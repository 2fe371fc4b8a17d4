package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/fakegithub/state"
	rootkube "github.com/harrier-ci/harrier/internal/kube"
)

// snapshotInterval is the shortest that there may be.
const snapshotInterval = time.Minute

// ofCopies prepares a set whose runners' volumes are copies of the newest snapshot, with classes of its own.
func ofCopies(t *testing.T, name string, binding storagev1.VolumeBindingMode, maxRunners int) *scaleSet {
	t.Helper()
	disk(t, name, binding)
	snapshotClass(t, name, nil)
	github := serve(t, fakegithub.Options{Rules: fakegithub.Rules{RunnerLostAfter: 5 * time.Second}})
	s := prepare(t, github, name, 0, maxRunners)
	s.cache(name, site.Values{"mode": "Snapshot", "snapshotInterval": snapshotInterval.String(), "keepSnapshots": 2, "snapshotClassName": name,
		"commitAfter": site.Values{"events": []string{"push"}}})
	return s
}

// On a real CSI stack, two waves of jobs: all of the second find what one of the first has left. A pull request's job
// finds it, too, and what it writes nobody finds; the same with a runner that was killed. Uninstallation leaves nothing.
func TestCopiesMakeEveryJobWarm(t *testing.T) {
	t.Parallel()
	s := ofCopies(t, "copies", storagev1.VolumeBindingWaitForFirstConsumer, 2)
	s.install()
	s.awaitSuccess(s.queue(2, time.Second))
	s.awaitNoRunners()
	first := s.awaitNewest("none")
	s.awaitNoClaims()

	second := s.queue(2, longJob)
	for _, job := range s.awaitJobs(second, state.Running) {
		warm(t, "a job of the second wave", usesOf(t, s.folderOf(job.Runner)))
	}
	s.endJobs()
	s.awaitSuccess(second)
	s.awaitNoRunners()

	stranger := s.run("pull_request", func(uses []use) { warm(t, "a pull request's job", uses) })
	s.caused = []state.AnomalyKind{state.RunnerLostBusy, state.RunnerStoppedBusy}
	lost := s.queue(1, longJob)
	killed := s.awaitJobs(lost, state.Running)[0].Runner
	folder := s.folderOf(killed)
	kill(t, s.podNamed(killed))
	s.awaitJobs(lost, state.Completed)
	s.awaitDue()
	trusted := s.run("push", func(uses []use) { warm(t, "the job after a killed runner", uses) })
	s.awaitNewest(first)
	s.run("push", func(uses []use) {
		if !usedBy(uses, trusted) || usedBy(uses, stranger) || usedBy(uses, killed) {
			t.Errorf("want what runner %s wrote, and not %s, of a pull request, nor %s, which was killed: %v", trusted,
				stranger, killed, uses)
		}
	})
	s.await(t.Context(), "the killed runner's volume to be gone", func() (string, error) {
		if _, err := os.Stat(folder); !os.IsNotExist(err) {
			return folder, err
		}
		return "", nil
	})
	s.uninstall(t.Context())
	s.awaitNothingStored()
}

// A snapshot doesn't get ready: jobs start from the one before. Deleted by hand, it is followed by one that the driver
// refuses, and the set says so with the driver's words.
func TestASnapshotThatDoesNotGetReady(t *testing.T) {
	t.Parallel()
	s := ofCopies(t, "unready", storagev1.VolumeBindingImmediate, 1)
	s.install()
	s.run("push", func([]use) {})
	first := s.awaitNewest("none")

	snapshotClass(t, s.name, map[string]any{"neverReady": "true"})
	s.awaitDue()
	later := s.run("push", func(uses []use) { warm(t, "the second job", uses) })
	var pending *unstructured.Unstructured
	s.await(t.Context(), "a snapshot that isn't ready", func() (string, error) {
		for _, each := range s.volumeSnapshots() {
			ready, written, _ := unstructured.NestedBool(each.Object, "status", "readyToUse")
			if each.GetName() != first && written && !ready {
				pending = &each
				return "", nil
			}
		}
		return fmt.Sprintf("there are %d snapshots", len(s.volumeSnapshots())), nil
	})
	s.run("push", func(uses []use) {
		warm(t, "the job beside a snapshot that isn't ready", uses)
		if usedBy(uses, later) {
			t.Errorf("it starts from that: %v", uses)
		}
	})
	if newest := s.awaitNewest("none"); newest != first {
		t.Errorf("runners start from %s, want %s", newest, first)
	}

	snapshotClass(t, s.name, map[string]any{"error": "the array is full"})
	if err := kube.Delete(t.Context(), pending); err != nil {
		t.Fatal(err)
	}
	s.run("push", func(uses []use) { warm(t, "the job before a snapshot that fails", uses) })
	s.await(t.Context(), "the driver's words", func() (string, error) {
		set, err := s.object(t.Context())
		if err != nil {
			return "", err
		}
		c := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionSnapshotsReady)
		if c != nil && c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonSnapshotFailed &&
			strings.Contains(c.Message, "the array is full") {
			return "", nil
		}
		return fmt.Sprintf("%+v", c), nil
	})
	s.run("push", func(uses []use) { warm(t, "the job after it", uses) })
	s.uninstall(t.Context())
	s.awaitNothingStored()
}

// With Retain the snapshots stay, and nothing else; the next set of this name starts from them.
func TestRetainedSnapshotsServeTheNextSet(t *testing.T) {
	t.Parallel()
	s := ofCopies(t, "retained", storagev1.VolumeBindingWaitForFirstConsumer, 1)
	s.values["persistentVolumeClaimRetentionPolicy"] = site.Values{"whenDeleted": "Retain"}
	s.install()
	s.run("push", func([]use) {})
	kept := s.awaitNewest("none")
	s.uninstall(t.Context())
	s.awaitNothingStored(kept)
	if missing, err := s.diagnosed("VolumeSnapshotsLeft", kept); missing != "" || err != nil {
		t.Errorf("%s %v", missing, err)
	}

	s.install()
	s.run("push", func(uses []use) { warm(t, "the first job of the next set", uses) })
	delete(s.values, "persistentVolumeClaimRetentionPolicy")
	s.apply()
	s.await(t.Context(), "the set to own its snapshots", func() (string, error) {
		for _, each := range s.volumeSnapshots() {
			if len(each.GetOwnerReferences()) == 0 {
				return each.GetName() + " has no owner", nil
			}
		}
		return "", nil
	})
	s.uninstall(t.Context())
	s.awaitNothingStored()
}

// On the same stack, claims that are passed on: the second wave finds what the first has left. A claim that a person's
// pod mounts is not leased. One that is fuller than maxUsedPercent goes with its runner.
func TestClaimsOfADriverArePassedOn(t *testing.T) {
	t.Parallel()
	disk(t, "passed-on", storagev1.VolumeBindingWaitForFirstConsumer)
	s := prepare(t, serve(t, fakegithub.Options{}), "passed-on", 0, 2)
	s.giveShell()
	s.values["feedback"] = site.Values{"jobLog": true}
	s.cache("passed-on", site.Values{"max": 2})
	s.install()
	s.awaitSuccess(s.queue(2, time.Second))
	s.awaitNoRunners()
	s.awaitClaims(2)

	second := s.queue(2, longJob)
	for _, job := range s.awaitJobs(second, state.Running) {
		warm(t, "a job of the second wave", usesOf(t, s.folderOf(job.Runner)))
	}
	s.endJobs()
	s.awaitSuccess(second)
	s.awaitNoRunners()

	before := s.awaitClaims(2)
	s.lookInto(before[0].Name)
	for range 2 {
		s.runOn("push", func(folder string, _ []use) {
			if folder != s.folderOfClaim(before[1].Name) {
				t.Errorf("a runner got %s, want the claim that nobody looks into", folder)
			}
		})
	}
	s.values["volumeClaimPool"] = site.Values{"max": 2, "maxUsedPercent": 1} // the machine's disk is fuller
	s.apply()
	s.lookAway()
	full := s.run("push", func(uses []use) { warm(t, "the job on a full volume", uses) })
	after := s.awaitClaims(1)
	if after[0].Name != before[0].Name && after[0].Name != before[1].Name {
		t.Errorf("claims %s and %s are now %s", before[0].Name, before[1].Name, after[0].Name)
	}
	if uses := usesOf(t, s.folderOfClaim(after[0].Name)); usedBy(uses, full) {
		t.Errorf("the volume that stays was the last job's: %v", uses)
	}
	s.uninstall(t.Context())
	s.awaitNothingStored()
}

// A template named work is the work directory of jobs in mode kubernetes: job pods mount it, and the next runner's find
// what was left there.
func TestWorkClaimOfContainerJobs(t *testing.T) {
	t.Parallel()
	disk(t, "work-claim", storagev1.VolumeBindingWaitForFirstConsumer)
	s := inMode(t, "work-claim", "kubernetes", 0, 1)
	delete(s.values["containerMode"].(site.Values), "kubernetesModeWorkVolumeClaim")
	s.values["volumeClaimTemplates"] = claimTemplates("work", "work-claim")
	s.makeNamespace()
	pods := recordPodsOf(t, s.namespace, client.HasLabels{v1alpha1.LabelScaleSetName})
	s.install()
	s.awaitSuccess(s.queue(1, time.Second))
	s.awaitNoRunners()
	claim := s.awaitClaims(1)[0]
	folder := s.folderOfClaim(claim.Name)
	left := filepath.Join(folder, "_tool", "left")
	if err := os.WriteFile(left, nil, 0o600); err != nil { // the job's runner has made the directory
		t.Fatal(err)
	}

	second := s.queue(1, longJob)
	runner := s.awaitJobs(second, state.Running)[0].Runner
	if got := s.folderOf(runner); got != folder {
		t.Errorf("the second runner has %s, want %s", got, folder)
	}
	s.endJobs()
	s.awaitSuccess(second)
	s.awaitNoRunners()
	seen := 0
	for _, pod := range pods.all() {
		if !rootkube.IsJobPod(&pod) {
			continue
		}
		if seen++; claimOf(&pod) != claim.Name {
			t.Errorf("job pod %s doesn't mount the claim: %+v", pod.Name, pod.Spec.Volumes)
		}
	}
	if seen < 4 {
		t.Errorf("%d job pods were seen, want one of each job and of each step", seen)
	}
	if _, err := os.Stat(left); err != nil {
		t.Error(err)
	}
	s.uninstall(t.Context())
	s.awaitNothingStored()
}
