package manager

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// These tests are inside of the package: what a cache leaves out of an object is seen in no request.

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
