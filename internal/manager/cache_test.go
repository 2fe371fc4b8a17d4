package manager

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

func TestCacheNamespaces(t *testing.T) {
	for name, test := range map[string]struct {
		watch string
		want  []string
	}{
		"all":               {},
		"one and the own":   {watch: "runners", want: []string{"harrier", "runners"}},
		"the own namespace": {watch: "harrier", want: []string{"harrier"}},
	} {
		t.Run(name, func(t *testing.T) {
			options := Options{Namespace: "harrier", WatchNamespace: test.watch}.cacheOptions()
			got := slices.Sorted(maps.Keys(options.DefaultNamespaces))
			if difference := cmp.Diff(test.want, got); difference != "" {
				t.Errorf("namespaces (-want +got):\n%s", difference)
			}
		})
	}
}

func TestCacheSelectsWhatIsOurs(t *testing.T) {
	options := Options{Namespace: "harrier"}.cacheOptions()
	for object, selection := range options.ByObject {
		if _, listener := object.(*v1alpha1.AutoscalingListener); listener {
			continue
		}
		if !selection.Label.Matches(labels.Set{
			v1alpha1.LabelScaleSetName:        "set",
			v1alpha1.LabelVolumeClaimTemplate: "cache",
		}) || selection.Label.Matches(labels.Set{"app": "x"}) {
			t.Errorf("%T is selected by %s", object, selection.Label)
		}
	}
	if got := len(options.ByObject); got != 6 {
		t.Errorf(
			"%d kinds are selected, want pods, claims, service accounts, roles and role bindings by label, and "+
				"listeners",
			got,
		)
	}
}

// What a listener names is written with the manager's rights, so those in other namespaces, which tenants may write,
// are not read.
func TestCacheHasListenersOfTheManagersNamespaceOnly(t *testing.T) {
	got := Options{Namespace: "harrier"}.listeners()
	if _, own := got.Namespaces["harrier"]; !own || len(got.Namespaces) != 1 {
		t.Errorf("listeners of the namespaces %v are cached", got.Namespaces)
	}
}

// The manager's own RoleBinding has no scale set's label, and is cached in the watched namespace only.
func TestCacheOfTheManagersOwnRoleBinding(t *testing.T) {
	options := Options{Namespace: "harrier", WatchNamespace: "runners"}.bindingCacheOptions()
	if got := slices.Collect(maps.Keys(options.DefaultNamespaces)); !slices.Equal(got, []string{"runners"}) {
		t.Errorf("namespaces %v, want the watched one", got)
	}
	want := labels.Set{v1alpha1.LabelComponent: "single-namespace-deletion", "app.kubernetes.io/namespace": "harrier"}
	for object, selection := range options.ByObject {
		if _, binding := object.(*rbacv1.RoleBinding); !binding || len(options.ByObject) > 1 ||
			!selection.Label.Matches(want) {
			t.Errorf("%T is selected by %s", object, selection.Label)
		}
	}
}

func TestCacheStripsManagedFields(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name:          "p",
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}},
	}}
	kept, err := Options{}.cacheOptions().DefaultTransform(pod)
	if err != nil {
		t.Fatal(err)
	}
	if got := kept.(*corev1.Pod); got.Name != "p" || got.ManagedFields != nil {
		t.Errorf("kept %+v", got.ObjectMeta)
	}
}

func TestCacheKeepsWhoHasAppliedSomethingToAPod(t *testing.T) {
	fields := metav1.NewFieldsV1("{}")
	kept, err := stripPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
		{Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: fields},
		{Manager: "argocd", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: fields},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	want := []metav1.ManagedFieldsEntry{{Manager: "argocd", Operation: metav1.ManagedFieldsOperationApply}}
	if difference := cmp.Diff(want, kept.(*corev1.Pod).ManagedFields); difference != "" {
		t.Errorf("managed fields (-want +got):\n%s", difference)
	}
}

// A runner's pod keeps only what its controller reads. A listener's keeps all, because it is compared as a whole.
func TestCacheKeepsOfARunnersPodWhatIsRead(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	rules := []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestart}}
	cache := corev1.Volume{Name: "cache", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "set-cache-bcdfg"},
	}}
	spec := corev1.PodSpec{
		NodeName: "node", ServiceAccountName: "account", Volumes: []corev1.Volume{{Name: "work"}, cache},
		SchedulingGates: []corev1.PodSchedulingGate{{Name: "queue"}},
		InitContainers: []corev1.Container{
			{
				Name:               "dind",
				Image:              "docker",
				RestartPolicy:      &always,
				RestartPolicyRules: rules,
				Args:               []string{"dockerd"},
			},
		},
		Containers: []corev1.Container{
			{Name: "runner", Image: "runner", Env: []corev1.EnvVar{{Name: "A", Value: "b"}}},
		},
	}
	stripped := corev1.PodSpec{
		NodeName:        "node",
		Volumes:         []corev1.Volume{cache},
		SchedulingGates: []corev1.PodSchedulingGate{{Name: "queue"}},
		InitContainers: []corev1.Container{
			{Name: "dind", Image: "docker", RestartPolicy: &always, RestartPolicyRules: rules},
		},
		Containers: []corev1.Container{{Name: "runner", Image: "runner"}},
	}
	for name, test := range map[string]struct {
		labels map[string]string
		want   corev1.PodSpec
	}{
		"runner":   {map[string]string{v1alpha1.LabelRunner: "True"}, stripped},
		"listener": {map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentListener}, spec},
	} {
		t.Run(name, func(t *testing.T) {
			kept, err := stripPod(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Labels: test.labels},
				Spec:       *spec.DeepCopy(),
			})
			if err != nil {
				t.Fatal(err)
			}
			if difference := cmp.Diff(test.want, kept.(*corev1.Pod).Spec); difference != "" {
				t.Errorf("spec (-want +got):\n%s", difference)
			}
		})
	}
}
