package fakenode_test

import (
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/internal/testkube/fakenode"
)

const healthPort = 8081

// newListenerStage returns a stage and a listener-like pod for it, which runs this test binary.
func newListenerStage(t *testing.T) (*stage, *corev1.Pod) {
	t.Helper()
	listener := fakenode.Listener(os.Args[0])
	listener.Environment = map[string]string{asProgram: "yes"}
	s := newStage(t, testkube.Shared(t), fakenode.Options{
		Runners:     map[string]fakenode.Runner{"listener": listener},
		ProbePeriod: 50 * time.Millisecond, RestartBackOff: 100 * time.Millisecond,
	})
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("health")}},
			TimeoutSeconds: 30, // a program that waits for CPU time is not dead
		}
	}
	pod := s.pod("listener")
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	pod.Spec.Volumes = []corev1.Volume{{Name: "config",
		VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "config"}}}}
	pod.Spec.Containers = []corev1.Container{{
		Name: "listener", Image: "listener",
		Env:          []corev1.EnvVar{{Name: "LISTENER_CONFIG_PATH", Value: "/etc/listener/config.json"}},
		Ports:        []corev1.ContainerPort{{Name: "health", ContainerPort: healthPort}},
		VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/listener"}},
		StartupProbe: probe("/healthz"), LivenessProbe: probe("/healthz"), ReadinessProbe: probe("/readyz"),
	}}
	pod.Spec.Containers[0].StartupProbe.FailureThreshold = 30
	return s, pod
}

func configSecret(namespace, content string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "config"},
		Data: map[string][]byte{"config.json": []byte(content)}}
}

func (s *stage) awaitsReady(pod *corev1.Pod, restarts int32) {
	s.t.Helper()
	s.awaits(pod, "ready after restarts", func(pod *corev1.Pod) bool {
		return conditionOf(pod, corev1.PodReady) == corev1.ConditionTrue &&
			pod.Status.ContainerStatuses[0].RestartCount == restarts
	})
}

// fetch returns the answer of the program in the pod, or the error.
func (s *stage) fetch(pod *corev1.Pod, path string) string {
	address, err := s.node.Address(client.ObjectKeyFromObject(pod), healthPort)
	if err != nil {
		return err.Error()
	}
	response, err := http.Get("http://" + address + path)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

func TestListenerPodRunsARealProgram(t *testing.T) {
	s, pod := newListenerStage(t)
	s.create(configSecret(s.namespace, "one"), pod)
	s.awaitsReady(pod, 0)
	if got := s.fetch(pod, "/config"); got != "one" {
		t.Errorf("the mounted configuration is %q, want %q", got, "one")
	}
	if got, want := s.fetch(pod, "/whoami"), testkube.ServiceAccountUser(s.namespace, "default"); got != want {
		t.Errorf("the program is %q to the API server, want %q", got, want)
	}
	if err := s.client.Update(t.Context(), configSecret(s.namespace, "two")); err != nil {
		t.Fatal(err)
	}
	s.Eventually(s.fetch, patience).WithArguments(pod, "/config").Should(Equal("two"))
	s.delete(pod)
	s.awaitsGone(pod)
}

// A token that a pod asks for by a volume of its own stands where the container mounts it, beside what a client needs
// with it.
func TestTokenOfAProjectedVolume(t *testing.T) {
	const path = "/var/run/secrets/kubernetes.io/serviceaccount"
	for file, want := range map[string]func(s *stage) (is func(content string) bool){
		"token":     func(s *stage) func(string) bool { return s.isTokenOf("default") },
		"ca.crt":    func(s *stage) func(string) bool { return is(string(testkube.Shared(t).Config().CAData)) },
		"namespace": func(s *stage) func(string) bool { return is(s.namespace) },
	} {
		s, pod := newListenerStage(t)
		sources := []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}},
			}}},
		}
		pod.Spec.AutomountServiceAccountToken = new(false)
		pod.Spec.Volumes = append(pod.Spec.Volumes,
			corev1.Volume{Name: "token", VolumeSource: corev1.VolumeSource{
				Projected: &corev1.ProjectedVolumeSource{Sources: sources}}})
		container := &pod.Spec.Containers[0]
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "token", MountPath: path})
		container.Env[0].Value = path + "/" + file
		s.create(configSecret(s.namespace, "one"), pod)
		s.awaitsReady(pod, 0)
		if content := s.fetch(pod, "/config"); !want(s)(content) {
			t.Errorf("%s has %d bytes of something else", file, len(content))
		}
	}
}

func is(want string) func(string) bool { return func(content string) bool { return content == want } }

// isTokenOf returns a function that reports whether the API server takes a token for one of the account.
func (s *stage) isTokenOf(account string) func(string) bool {
	return func(token string) bool {
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
		if err := s.client.Create(s.t.Context(), review); err != nil {
			s.t.Fatal(err)
		}
		return review.Status.User.Username == testkube.ServiceAccountUser(s.namespace, account)
	}
}

func TestAKilledListenerIsStartedAgain(t *testing.T) {
	s, pod := newListenerStage(t)
	s.create(configSecret(s.namespace, "one"), pod)
	s.awaitsReady(pod, 0)
	key := types.NamespacedName{Namespace: s.namespace, Name: pod.Name}
	if err := s.node.Kill(key, "listener"); err != nil {
		t.Fatal(err)
	}
	s.awaitsReady(pod, 1)
	if last := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.ExitCode != 137 {
		t.Errorf("the last termination is %v, want exit code 137", last)
	}
	if err := s.node.OOMKill(key, "listener"); err != nil {
		t.Fatal(err)
	}
	s.awaitsReady(pod, 2)
	if last := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil ||
		last.Reason != "OOMKilled" {
		t.Errorf("the last termination is %v, want OOMKilled", last)
	}
}

func TestAFailingLivenessProbeRestartsTheContainer(t *testing.T) {
	s, pod := newListenerStage(t)
	s.create(configSecret(s.namespace, "one"), pod)
	s.awaitsReady(pod, 0)
	if err := s.client.Update(t.Context(), configSecret(s.namespace, "sick")); err != nil {
		t.Fatal(err)
	}
	s.awaits(pod, "a restart", func(pod *corev1.Pod) bool { return pod.Status.ContainerStatuses[0].RestartCount == 1 })
	if err := s.client.Update(t.Context(), configSecret(s.namespace, "well")); err != nil {
		t.Fatal(err)
	}
	s.awaits(pod, "ready again", func(pod *corev1.Pod) bool {
		return conditionOf(pod,
			corev1.PodReady) == corev1.ConditionTrue
	})
}

func TestAProgramThatKeepsCrashingBacksOff(t *testing.T) {
	s, pod := newListenerStage(t)
	pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: "CRASH", Value: "yes"})
	s.create(configSecret(s.namespace, "one"), pod)
	s.awaits(pod, "CrashLoopBackOff", waitingFor("CrashLoopBackOff"))
	status := pod.Status.ContainerStatuses[0]
	if last := status.LastTerminationState.Terminated; last == nil || last.ExitCode != 3 || status.RestartCount < 1 {
		t.Errorf("got %v, want a restart after exit code 3", status)
	}
}
