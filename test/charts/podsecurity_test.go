package charts

import (
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/testkube"
)

// An API server that enforces the Pod Security Standard "restricted" takes the pods of the controller, of the uninstall
// check and of listeners.
func TestPodsAreRestricted(t *testing.T) {
	t.Parallel()
	cluster := testkube.Shared(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "restricted", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "default"}}
	for _, object := range []client.Object{namespace, account} {
		if err := client.IgnoreAlreadyExists(cluster.Client().Create(t.Context(), object)); err != nil {
			t.Fatal(err)
		}
	}
	for name, spec := range productPods(t) {
		spec.ServiceAccountName = account.Name
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "pod"}, Spec: spec}
		if err := cluster.Client().Create(t.Context(), pod, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The namespace does refuse other pods.
	dind := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "pod"},
		Spec:       runnerPod(t, mode("dind")),
	}
	dind.Spec.ServiceAccountName = account.Name
	if err := cluster.Client().Create(t.Context(), dind, client.DryRunAll); err == nil {
		t.Error("a privileged pod was let in")
	}
}

// OpenShift's restricted-v2 assigns each namespace its users and refuses pods that name another one; the image's user
// satisfies runAsNonRoot elsewhere.
func TestPodsNameNoUser(t *testing.T) {
	t.Parallel()
	for name, spec := range productPods(t) {
		check(t, name+" has a user or group",
			spec.SecurityContext.RunAsUser != nil || spec.SecurityContext.RunAsGroup != nil, false)
		for _, container := range spec.Containers {
			context := container.SecurityContext
			check(t, "its container has", context.RunAsUser != nil || context.RunAsGroup != nil, false)
		}
	}
}

// productPods returns the pods of the controller, of the uninstall check and of listeners, by a name for messages.
func productPods(t *testing.T) map[string]corev1.PodSpec {
	t.Helper()
	rendered := render(t, controller, "history: {enabled: true}")
	pods := map[string]corev1.PodSpec{
		"controller":      one[appsv1.Deployment](t, rendered, "deployment.yaml").Spec.Template.Spec,
		"ledger":          historyOf(t, rendered).Spec.Template.Spec,
		"uninstall check": decode[batchv1.Job](t, rendered["uninstall_check.yaml"][3]).Spec.Template.Spec,
	}
	// The golden pods of the controller: it makes these.
	for _, name := range []string{"plain", "proxy"} {
		content, err := os.ReadFile(filepath.Join(root, "internal", "controller", "autoscalinglistener", "listenerpod",
			"testdata", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		pods["listener "+name] = decode[corev1.Pod](t, string(content)).Spec
	}
	return pods
}
