package e2e

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// startsMeasured is how many runners are measured of each kind, one after the other.
const startsMeasured = 4

// How long a runner takes from its creation until its container runs: without claims, and with a copy of a snapshot
// that is made at once, or when its pod has a node. docs/cache-snapshots.md has the figures.
func TestWhatACopyCosts(t *testing.T) {
	t.Parallel()
	without := install(t, "cost-none", 0, 1)
	starts := without.recordStarts()
	for range startsMeasured {
		without.awaitSuccess(without.queue(1, 0))
		without.awaitNoRunners()
	}
	base := starts.median(t)
	t.Logf("without claims: %s (of %d)", base, startsMeasured)
	for name, binding := range map[string]storagev1.VolumeBindingMode{
		"cost-now": storagev1.VolumeBindingImmediate, "cost-late": storagev1.VolumeBindingWaitForFirstConsumer,
	} {
		s := ofCopies(t, name, binding, 1)
		s.install()
		s.run("push", func([]use) {})
		s.awaitNewest("none")
		starts, driver := s.recordStarts(), []time.Duration{}
		for range startsMeasured {
			s.runOn("pull_request", func(folder string, uses []use) {
				warm(t, "a measured job", uses)
				driver = append(driver, tookToMake(t, folder))
			})
		}
		slices.Sort(driver)
		t.Logf("with a copy, %s: %s, of which the driver took %s (of %d)", binding, starts.median(t),
			driver[len(driver)/2], startsMeasured)
	}
}

// tookToMake returns how long the driver needed for a volume.
func tookToMake(t *testing.T, folder string) time.Duration {
	t.Helper()
	content, err := os.ReadFile(folder + ".json")
	var volume struct{ Took int64 }
	if err == nil {
		err = json.Unmarshal(content, &volume)
	}
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(volume.Took) * time.Millisecond
}

// starts remembers, by this machine's clock, when runners were seen to be created, and their containers to run.
type starts struct {
	mutex         sync.Mutex
	created, runs map[string]time.Time
}

// recordStarts watches the set's runners and their pods until the test ends.
func (s *scaleSet) recordStarts() *starts {
	s.t.Helper()
	r := &starts{created: map[string]time.Time{}, runs: map[string]time.Time{}}
	for _, list := range []client.ObjectList{&v1alpha1.EphemeralRunnerList{}, &corev1.PodList{}} {
		ctx, stop := context.WithCancel(context.Background())
		events, err := kube.Watch(ctx, list, client.InNamespace(s.namespace), client.HasLabels{v1alpha1.LabelScaleSetName})
		if err != nil {
			stop()
			s.t.Fatal(err)
		}
		var ended sync.WaitGroup
		ended.Go(func() {
			for event := range events.ResultChan() {
				r.note(event)
			}
		})
		s.t.Cleanup(func() {
			events.Stop()
			stop()
			ended.Wait()
		})
	}
	return r
}

func (r *starts) note(event watch.Event) {
	now := time.Now()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	switch object := event.Object.(type) {
	case *v1alpha1.EphemeralRunner:
		if _, seen := r.created[object.Name]; !seen {
			r.created[object.Name] = now
		}
	case *corev1.Pod:
		started := slices.ContainsFunc(object.Status.ContainerStatuses,
			func(s corev1.ContainerStatus) bool { return s.State.Running != nil || s.State.Terminated != nil })
		if _, seen := r.runs[object.Name]; !seen && started {
			r.runs[object.Name] = now
		}
	}
}

// median returns the median of all runners.
func (r *starts) median(t *testing.T) time.Duration {
	t.Helper()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var took []time.Duration
	for name, created := range r.created {
		if runs, started := r.runs[name]; started {
			took = append(took, runs.Sub(created))
		}
	}
	if len(took) < startsMeasured {
		t.Fatalf("%d starts were seen, want %d", len(took), startsMeasured)
	}
	slices.Sort(took)
	return took[len(took)/2].Round(time.Millisecond)
}
