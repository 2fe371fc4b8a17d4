package revisions_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/harrier-ci/harrier/internal/kube/revisions"
)

// made returns a pod as Kubernetes makes it for a Deployment.
func made(deployment, hash string, change ...func(*corev1.Pod)) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "arc-systems", Name: deployment + "-" + hash + "-abcde", Labels: map[string]string{"pod-template-hash": hash},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: deployment + "-" + hash, Controller: new(true),
		}},
	}}
	pod.Status.Phase = corev1.PodRunning
	for _, apply := range change {
		apply(&pod)
	}
	return pod
}

func deleted(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)} }

func phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.Phase = phase }
}

func TestOtherRevisions(t *testing.T) {
	own, ok := revisions.Of(new(made("arc", "5d8f")))
	if want := (revisions.Revision{Namespace: "arc-systems", Deployment: "arc", Hash: "5d8f"}); !ok || own != want {
		t.Fatalf("the pod's revision is %+v, %t", own, ok)
	}
	for name, test := range map[string]struct {
		pod   corev1.Pod
		other bool
	}{
		"another template's":         {made("arc", "7b9c"), true},
		"one that is being deleted":  {made("arc", "7b9c", deleted), true},
		"one that waits for a node":  {made("arc", "7b9c", phase(corev1.PodPending)), true},
		"one that is unknown":        {made("arc", "7b9c", phase(corev1.PodUnknown)), true},
		"one that has ended":         {made("arc", "7b9c", phase(corev1.PodSucceeded)), false},
		"one that has failed":        {made("arc", "7b9c", phase(corev1.PodFailed), deleted), false},
		"a replica":                  {made("arc", "5d8f", deleted), false},
		"another Deployment's":       {made("arc-history", "7b9c"), false},
		"the same in another place":  {made("arc", "7b9c", func(p *corev1.Pod) { p.Namespace = "else" }), false},
		"one with a label by hand":   {made("arc", "7b9c", func(p *corev1.Pod) { p.OwnerReferences = nil }), false},
		"one of a kind called so":    {made("arc", "7b9c", func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "a/v1" }), false},
		"one whose label isn't true": {made("arc", "7b9c", func(p *corev1.Pod) { p.Labels["pod-template-hash"] = "x" }), false},
	} {
		if got := len(own.Others([]corev1.Pod{test.pod})) == 1; got != test.other {
			t.Errorf("%s counts: %t", name, got)
		}
	}
}

func TestPodsThatActWithoutALease(t *testing.T) {
	ours := func(pod *corev1.Pod) {
		pod.Spec.Containers = []corev1.Container{{Args: []string{"--program=harrier", "--log-level=info"}}}
	}
	pods := []corev1.Pod{
		made("arc", "1"), made("arc", "2", deleted), made("arc", "3", phase(corev1.PodPending)), made("arc", "4", ours),
	}
	var names []string
	for _, pod := range revisions.Acting(pods) {
		names = append(names, pod.Labels["pod-template-hash"])
	}
	if !slices.Equal(names, []string{"1", "2"}) {
		t.Errorf("%v act", names)
	}
}

func TestRunnersOfARCAreNotSelected(t *testing.T) {
	for _, test := range []struct {
		labels labels.Set
		want   bool
	}{
		{labels.Set{"pod-template-hash": "a"}, true},
		{labels.Set{"pod-template-hash": "a", "actions.github.com/scale-set-name": "set"}, false},
		{labels.Set{"app": "a"}, false},
	} {
		if revisions.Selector().Matches(test.labels) != test.want {
			t.Errorf("%v is selected: %t", test.labels, !test.want)
		}
	}
}

func TestTextsNameAFewPodsAndTheNextStep(t *testing.T) {
	own := revisions.Revision{Namespace: "arc-systems", Deployment: "arc", Hash: "new"}
	ending := made("arc", "1", deleted, func(pod *corev1.Pod) { pod.Spec.NodeName = "node-1" })
	for name, test := range map[string]struct {
		pods          []corev1.Pod
		named, advice string
	}{
		"one that is being deleted": {
			[]corev1.Pod{ending}, "arc-1-abcde (is being deleted, and had time until 1970-01-01T00:00:00Z, node node-1)",
			"kubectl -n arc-systems delete pod NAME --force",
		},
		"many": {
			[]corev1.Pod{made("arc", "1"), made("arc", "2"), made("arc", "3"), made("arc", "4"), ending},
			"arc-1-abcde, arc-2-abcde, arc-3-abcde, 2 more", "kubectl -n arc-systems rollout resume deployment/arc",
		},
	} {
		if got := revisions.Describe(test.pods); got != test.named {
			t.Errorf("%s: %s", name, got)
		}
		if got := own.Advice(test.pods); !strings.Contains(got, test.advice) {
			t.Errorf("%s: advice %s", name, got)
		}
	}
}
