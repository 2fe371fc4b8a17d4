package ephemeralrunner_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner"
)

// departing knows that all nodes are about to go away, and that the scheduler doesn't know it of some.
type departing struct {
	why     string
	avoided []string
}

func (d departing) Departure(string) string { return d.why }
func (d departing) Avoided() []string       { return d.avoided }

func onNodes(nodes departing) func(*ephemeralrunner.Options) {
	return func(o *ephemeralrunner.Options) { o.Nodes = nodes }
}

func withGrace(r *v1alpha1.EphemeralRunner) {
	r.Spec.JobGracePeriod = &metav1.Duration{Duration: 110 * time.Second}
	r.Spec.PodSpec.NodeName = "node"
}

// A handler of spot interruptions deletes the pod, whose job goes on and ends in time: it is no lost job. One that is
// canceled at the end of the time is lost, and to what its node says: such jobs are run again by default.
func TestJobsWhosePodIsDeletedOnANodeThatGoes(t *testing.T) {
	for title, test := range map[string]struct {
		after    time.Duration
		result   string
		why      string
		want     v1alpha1.LostCause
		exitCode int32
	}{
		"ends in time":              {60 * time.Second, "succeeded", "is cordoned", "", 0},
		"fails in time":             {60 * time.Second, "failed", "is cordoned", "", 0},
		"canceled in the end":       {115 * time.Second, "canceled", "is cordoned", v1alpha1.LostCauseEvicted, 0},
		"killed in the end":         {120 * time.Second, "", "has the taint aws-node-termination-handler", v1alpha1.LostCauseEvicted, 137},
		"canceled, and nobody knew": {115 * time.Second, "canceled", "", v1alpha1.LostCausePodDeleted, 0},
	} {
		t.Run(title, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.configure(onNodes(departing{why: test.why}))
				f.started().setStatus(hasReportedJob)
				f.settle()
				if grace := f.pod().Spec.TerminationGracePeriodSeconds; grace == nil || *grace != 120 {
					t.Fatalf("the pod's grace period is %v", grace)
				}
				f.dies(120 * time.Second)
				f.watch(test.after)
				if status := f.runner().Status; status.Done() || f.pod() == nil {
					t.Fatalf("status %+v, pod %t: the job goes on", status, f.pod() != nil)
				}
				f.setPod(exits(test.exitCode))
				if test.result != "" {
					f.setStatus(func(r *v1alpha1.EphemeralRunner) {
						r.Status.JobResult, r.Status.FinishedAt = test.result, new(metav1.Now())
					})
				}
				f.watch(time.Minute)
				got := v1alpha1.LostCause("")
				if runner := f.runner(); runner != nil {
					got = runner.Status.LostCause
				}
				if got != test.want {
					t.Errorf("lost to %q, want %q", got, test.want)
				}
			}, newRunner(withGrace))
		})
	}
}

// A node that only a condition announces gets no new pod; each alternative of the user's own affinity says so.
func TestNewPodsAvoidNodesThatOnlyAConditionAnnounces(t *testing.T) {
	own := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: "pool", Operator: corev1.NodeSelectorOpIn, Values: []string{"spot"}}}}
	for title, test := range map[string]struct {
		terms []corev1.NodeSelectorTerm
		want  int // terms with both exceptions
	}{
		"no affinity":        {nil, 1},
		"two alternatives":   {[]corev1.NodeSelectorTerm{own, own}, 2},
		"one matches nobody": {[]corev1.NodeSelectorTerm{own, {}}, 1},
	} {
		t.Run(title, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.configure(onNodes(departing{avoided: []string{"a", "b"}}))
				f.settle()
				got := 0
				for _, term := range f.pod().Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.
					NodeSelectorTerms {
					if len(term.MatchFields) == 2 && term.MatchFields[1].Values[0] == "b" {
						got++
					}
				}
				if got != test.want {
					t.Errorf("%d terms have the exceptions, want %d", got, test.want)
				}
			}, newRunner(func(r *v1alpha1.EphemeralRunner) {
				if test.terms != nil {
					r.Spec.PodSpec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
						RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: test.terms}}}
				}
			}))
		})
	}
}
