package kube_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

func TestScaleSetLabels(t *testing.T) {
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "set"}}
	want := map[string]string{
		v1alpha1.LabelPartOf: v1alpha1.PartOfScaleSet, v1alpha1.LabelComponent: "role",
		v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: "n",
	}
	if diff := cmp.Diff(want, kube.ScaleSetLabels(set, "role")); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestSortListeners(t *testing.T) {
	set := named("ns", "set", "", "https://github.com/my-org")
	served, early, late := []string{v1alpha1.FinalizerAutoscalingListener}, metav1.Unix(1, 0), metav1.Unix(2, 0)
	listener := func(name string, finalizers []string, created metav1.Time) v1alpha1.AutoscalingListener {
		return v1alpha1.AutoscalingListener{ObjectMeta: metav1.ObjectMeta{
			Name:              name,
			Finalizers:        finalizers,
			CreationTimestamp: created,
		}}
	}
	want := []v1alpha1.AutoscalingListener{
		listener(kube.ListenerNames(set)[0], served, early),
		listener(kube.ListenerNames(set)[1], served, early),
		listener(kube.ARCListenerName(set), served, early),
		listener("of-another-address", served, late),
		listener("of-an-earlier-address", served, early),
		listener(kube.ListenerNames(set)[0], nil, late),
		listener("of-somebody-else", nil, late),
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	kube.SortListeners(set, got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestHasServer(t *testing.T) {
	listener := &v1alpha1.ListenerStatus{}
	for _, test := range []struct {
		what, session string
		listener      *v1alpha1.ListenerStatus
		replicas      int
		want          bool
	}{
		{"nobody", "", nil, 0, false},
		{"a former listener, or that of another cluster", "", listener, 3, false},
		{"ours", "1", listener, 3, true},
		{"ours, with nothing to say yet", "1", nil, 0, true},
		{"ours, with the CRDs of an earlier release", "1", nil, 3, false},
	} {
		set := &v1alpha1.EphemeralRunnerSet{}
		set.Annotations = map[string]string{v1alpha1.AnnotationListenerSession: test.session}
		set.Status.Listener, set.Spec.Replicas = test.listener, test.replicas
		if got := kube.HasServer(set); got != test.want {
			t.Errorf("%s: %t, want %t", test.what, got, test.want)
		}
	}
}
