package diagnosis_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/operations/doctor/diagnosis"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/finding"
)

// usedUpQuota is a ResourceQuota with 5 of 5 used of each resource.
func usedUpQuota(name string, resources ...corev1.ResourceName) corev1.ResourceQuota {
	list := corev1.ResourceList{}
	for _, r := range resources {
		list[r] = resource.MustParse("5")
	}
	return corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.ResourceQuotaStatus{Hard: list, Used: list}}
}

// To raise a quota, users must know all resources that are used up, but none that runners don't use.
func TestAllOfAFullQuotaIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		quotas []corev1.ResourceQuota
		want   string // empty for no finding
	}{
		"pods behind what is no runner's": {[]corev1.ResourceQuota{usedUpQuota("team", "configmaps", "pods")}, "ResourceQuota team: 5 of 5 pods are used"},
		"two resources": {[]corev1.ResourceQuota{usedUpQuota("team", "limits.cpu", "pods", "services")},
			"ResourceQuota team: 5 of 5 limits.cpu, 5 of 5 pods are used"},
		"two quotas": {[]corev1.ResourceQuota{usedUpQuota("gpu", "requests.nvidia.com/gpu"),
			usedUpQuota("team", "secrets")},
			"ResourceQuota gpu: 5 of 5 requests.nvidia.com/gpu are used; ResourceQuota team: 5 of 5 secrets are used"},
		"nothing of a runner's": {[]corev1.ResourceQuota{usedUpQuota("team", "configmaps", "count/deployments.apps",
			"requests.storage",
			"persistentvolumeclaims", "gold.storageclass.storage.k8s.io/requests.storage")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			findings := diagnosis.Diagnose(healthy(func(s *snapshot.Snapshot) { s.Sets[0].Quotas = test.quotas }))
			if test.want == "" && len(findings) == 0 {
				return
			}
			if len(findings) != 1 || findings[0].Reason != "QuotaUsedUp" || findings[0].Message != test.want {
				t.Errorf("found %+v, want QuotaUsedUp: %s", findings, test.want)
			}
		})
	}
}

func TestStorageCountsWhereRunnersClaimIt(t *testing.T) {
	for _, r := range []corev1.ResourceName{
		"persistentvolumeclaims", "count/persistentvolumeclaims", "requests.storage",
		"gold.storageclass.storage.k8s.io/requests.storage",
	} {
		findings := diagnosis.Diagnose(healthy(func(s *snapshot.Snapshot) {
			s.Sets[0].Quotas = []corev1.ResourceQuota{usedUpQuota("team", r)}
			s.Sets[0].Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "work",
				VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
		}))
		if len(findings) != 1 || findings[0].Reason != "QuotaUsedUp" {
			t.Errorf("%s: found %+v, want QuotaUsedUp", r, findings)
		}
	}
}

func TestResourcesOfRunners(t *testing.T) {
	var missed []corev1.ResourceName
	for _, r := range []corev1.ResourceName{
		"pods", "count/pods", "secrets", "count/secrets", "cpu", "requests.cpu", "limits.cpu", "memory", "requests.memory",
		"limits.memory",
		"ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage", "requests.nvidia.com/gpu",
	} {
		findings := diagnosis.Diagnose(healthy(func(s *snapshot.Snapshot) {
			s.Sets[0].Quotas = []corev1.ResourceQuota{usedUpQuota("team", r)}
		}))
		if len(findings) != 1 || findings[0].Reason != "QuotaUsedUp" {
			missed = append(missed, r)
		}
	}
	if len(missed) > 0 {
		t.Errorf("not reported: %v", missed)
	}
}

// One finding tells all causes, each with an example and what helps; runners that failed without a job are another
// matter.
func TestLostJobsAreToldByCause(t *testing.T) {
	lost := func(name string, cause v1alpha1.LostCause) v1alpha1.EphemeralRunner {
		r := v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Name: name}}
		r.Status = v1alpha1.EphemeralRunnerStatus{Phase: v1alpha1.EphemeralRunnerPhaseFailed, Reason: string(cause),
			LostCause: cause, Message: "what happened to " + name}
		return r
	}
	waiting := lost("four", v1alpha1.LostCauseNodeLost)
	waiting.Status.Rerun = &v1alpha1.RerunStatus{State: v1alpha1.RerunWanted, Message: "it goes on"}
	findings := diagnosis.Diagnose(healthy(func(s *snapshot.Snapshot) {
		s.Sets[0].Status.LostJobs = 9
		s.Sets[0].Runners = append(s.Sets[0].Runners, lost("one", v1alpha1.LostCauseEvicted),
			lost("two", v1alpha1.LostCauseEvicted), lost("three", v1alpha1.LostCauseOOMKilled), waiting)
	}))
	if len(findings) != 1 || findings[0].Reason != "JobLost" || findings[0].Severity != finding.Warning {
		t.Fatalf("found %+v, want the lost jobs only", findings)
	}
	said := findings[0].Message + " | " + findings[0].Fix
	for _, part := range []string{"rerun Wanted: 1, for example of runner four: it goes on", "4 jobs were lost",
		"9 since", "2 Evicted, for example of runner one: what happened to one", "1 OOMKilled", "raise the memory limit",
		"drains", "run them again"} {
		if !strings.Contains(said, part) {
			t.Errorf("%q lacks %q", said, part)
		}
	}
}

// Runners that are kept because their jobs were lost don't hide that others are missing, when GitHub counts these jobs
// no more.
func TestKeptRunnersAreNotWhatIsWanted(t *testing.T) {
	now := time.Now()
	for ago, want := range map[time.Duration]bool{
		time.Minute: false, 15*time.Minute - time.Second: false, 15 * time.Minute: true,
	} {
		findings := diagnosis.Diagnose(healthy(func(s *snapshot.Snapshot) {
			r := v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
			r.Status = v1alpha1.EphemeralRunnerStatus{Phase: v1alpha1.EphemeralRunnerPhaseFailed,
				LostCause: v1alpha1.LostCauseEvicted}
			report.SetConditions(&r.Status.Conditions, 1, now.Add(-ago), report.Unready("Evicted", "evicted", true)...)
			set := &s.Sets[0]
			set.Runners, set.Now = append(set.Runners, r), now
			set.Status.CurrentRunners, set.Status.FailedEphemeralRunners = set.Status.CurrentRunners+1, 1
			set.Status.DesiredRunners = set.Status.CurrentRunners
		}))
		found := slices.ContainsFunc(findings, func(f finding.Finding) bool { return f.Reason == "RunnersMissing" })
		if found != want {
			t.Errorf("lost %s ago: found %+v, RunnersMissing: want %t", ago, findings, want)
		}
	}
}

// Whatever of a set is kept by finalizers that nobody here serves, the doctor names it and the command, also if no
// manager runs.
func TestKeptObjectsAreFound(t *testing.T) {
	now := time.Now()
	kept := func(ago time.Duration, finalizers ...string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "runners", Name: "kept",
			DeletionTimestamp: new(metav1.NewTime(now.Add(-ago))),
			Finalizers:        finalizers}
	}
	const foreign = "example.com/backup"
	for name, test := range map[string]struct {
		change  func(s *snapshot.Set)
		message string // "" if nothing is found
	}{
		"set":        {func(s *snapshot.Set) { s.ObjectMeta = kept(time.Minute, foreign) }, "kubectl patch autoscalingrunnerset kept --namespace runners"},
		"runner set": {func(s *snapshot.Set) { s.RunnerSets[0].ObjectMeta = kept(time.Minute, foreign) }, "kubectl patch ephemeralrunnerset kept"},
		"runner": {func(s *snapshot.Set) {
			s.Runners = []v1alpha1.EphemeralRunner{{ObjectMeta: kept(time.Minute, foreign)},
				{ObjectMeta: kept(time.Minute, foreign)}}
		}, "2 objects can't be deleted; the first: EphemeralRunner runners/kept"},
		"ended pod": {func(s *snapshot.Set) {
			s.Pods = []corev1.Pod{{ObjectMeta: kept(time.Minute, foreign),
				Status: corev1.PodStatus{Phase: corev1.PodFailed}}}
		}, "kubectl patch pod kept"},
		"listener": {func(s *snapshot.Set) {
			s.Listener = &v1alpha1.AutoscalingListener{ObjectMeta: kept(time.Minute, foreign)}
		}, "kubectl patch autoscalinglistener kept"},
		"garbage collector": {func(s *snapshot.Set) { s.ObjectMeta = kept(time.Minute, "foregroundDeletion") }, "garbage collector's"},
		"a Secret, as the set says": {func(s *snapshot.Set) {
			s.Status.Conditions = append(s.Status.Conditions,
				metav1.Condition{Type: v1alpha1.ConditionDeletionBlocked, Status: metav1.ConditionTrue,
					Reason: v1alpha1.ReasonForeignFinalizers, Message: "Secret x"})
		}, "Secret x"},
		"just now": {func(s *snapshot.Set) { s.ObjectMeta = kept(time.Second, foreign) }, ""},
		"a job runs": {func(s *snapshot.Set) {
			s.Runners = []v1alpha1.EphemeralRunner{
				{ObjectMeta: kept(time.Hour, foreign, v1alpha1.FinalizerEphemeralRunner)}}
		}, ""},
		"ARC's runner set": {func(s *snapshot.Set) {
			s.RunnerSets[0].ObjectMeta = kept(time.Hour, "ephemeralrunner.actions.github.com/finalizer")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			found := ""
			for _, f := range diagnosis.Diagnose(healthy(func(s *snapshot.Snapshot) {
				s.Sets[0].Now = now
				test.change(&s.Sets[0])
			})) {
				if f.Reason == v1alpha1.ReasonForeignFinalizers {
					found = f.Message
				}
			}
			if (found == "") != (test.message == "") || !strings.Contains(found, test.message) {
				t.Errorf("found %q, want %q", found, test.message)
			}
		})
	}
}

// Objects of a moment ago are the manager's to remove.
func TestOwnerlessObjects(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*snapshot.Set)
		want   string
	}{
		"all have owners":     {func(*snapshot.Set) {}, ""},
		"a runner":            {func(s *snapshot.Set) { s.Runners[0].OwnerReferences = nil }, "1 object has"},
		"a pod":               {func(s *snapshot.Set) { s.Pods[0].OwnerReferences = nil }, "the first: Pod one"},
		"a runner of another": {func(s *snapshot.Set) { s.Runners[0].OwnerReferences[0].UID = "former" }, "EphemeralRunner one"},
		"a runner set":        {func(s *snapshot.Set) { s.RunnerSets[0].OwnerReferences = nil }, "EphemeralRunnerSet set"},
		"a new one": {func(s *snapshot.Set) {
			s.Pods[0].OwnerReferences, s.Pods[0].CreationTimestamp = nil, metav1.NewTime(s.Now)
		}, ""},
		"a pod that is no runner": {func(s *snapshot.Set) { s.Pods[0].OwnerReferences, s.Pods[0].Labels = nil, nil }, ""},
		"runner sets are unread":  {func(s *snapshot.Set) { s.RunnerSets = nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := &snapshot.Set{Now: time.Now()}
			s.UID, s.Name = "origin", "set"
			meta := func(name string, owner client.Object) metav1.ObjectMeta {
				return metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name),
					CreationTimestamp: metav1.NewTime(s.Now.Add(-time.Hour)),
					OwnerReferences:   kube.OwnedBy(owner), Labels: map[string]string{v1alpha1.LabelRunner: "True"}}
			}
			s.RunnerSets = []v1alpha1.EphemeralRunnerSet{{ObjectMeta: meta("set", &s.AutoscalingRunnerSet)}}
			s.Runners = []v1alpha1.EphemeralRunner{{ObjectMeta: meta("one", &s.RunnerSets[0])}}
			s.Runners[0].UID = "uid-of-the-runner"
			s.Pods = []corev1.Pod{{ObjectMeta: meta("one", &s.Runners[0])}}
			test.change(s)
			var said string
			for _, f := range diagnosis.Diagnose(&snapshot.Snapshot{Sets: []snapshot.Set{*s}}) {
				if f.Reason == v1alpha1.ReasonOwnerless {
					said = f.Message
				}
			}
			if (test.want == "" && said != "") || !strings.Contains(said, test.want) {
				t.Errorf("it says %q, want %q", said, test.want)
			}
		})
	}
}

// A pod whose runner has ended is in no count; what keeps it is told by name.
func TestSidecarsThatOutliveTheirRunner(t *testing.T) {
	now := time.Now()
	pod := func(name string, ended time.Duration) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{
			Phase: corev1.PodRunning,
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: v1alpha1.RunnerContainerName, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					FinishedAt: metav1.NewTime(now.Add(-ended))}}},
				{Name: "shipper", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			},
			InitContainerStatuses: []corev1.ContainerStatus{
				{Name: "dind", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
		}}
	}
	for title, test := range map[string]struct {
		pods []corev1.Pod
		want string // part of the message, empty for no finding
	}{
		"just ended":    {[]corev1.Pod{pod("one", time.Second)}, ""},
		"half a minute": {[]corev1.Pod{pod("one", 30*time.Second)}, "1 pod is kept by other containers although its runner has ended, for example one, where 2 containers run (dind, shipper) 30s after the runner's end"},
		"two":           {[]corev1.Pod{pod("new", time.Second), pod("one", time.Minute), pod("two", time.Hour)}, "2 pods are kept"},
	} {
		t.Run(title, func(t *testing.T) {
			findings := diagnosis.Diagnose(healthy(func(s *snapshot.Snapshot) {
				s.Sets[0].Now, s.Sets[0].Pods = now, test.pods
			}))
			found := slices.IndexFunc(findings, func(f finding.Finding) bool { return f.Reason == "SidecarsRunning" })
			switch {
			case test.want == "" && found >= 0, test.want != "" && found < 0:
				t.Errorf("found %+v, want a finding: %t", findings, test.want != "")
			case found >= 0 && !strings.Contains(findings[found].Message, test.want):
				t.Errorf("found %q, want %q", findings[found].Message, test.want)
			}
		})
	}
}
