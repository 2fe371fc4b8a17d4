package fakenode_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/internal/testkube/fakenode"
)

// asProgram makes the test binary act as the program that listener-like pods run.
const asProgram = "FAKENODE_TEST_AS_PROGRAM"

// patience bounds the wait for a state on a busy machine, on which programs start and a hundred pods run.
const patience = "2m"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(program())
	}
	os.Exit(testkube.Main(m, testkube.Options{CRDs: []string{}}))
}

// program serves its configuration file and its identity until SIGTERM. While the file says "sick", its liveness fails.
// If there is a variable CRASH, it exits with 3 immediately.
func program() int {
	if os.Getenv("CRASH") != "" {
		return 3
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/config", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(configuration()) })
	mux.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		if string(configuration()) == "sick" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("/whoami", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, whoAmI(r.Context()))
	})
	server := &http.Server{Addr: os.Getenv("LISTENER_HEALTH_ADDR"), Handler: mux}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		return 1
	}
	return 0
}

func configuration() []byte {
	content, err := os.ReadFile(os.Getenv("LISTENER_CONFIG_PATH"))
	if err != nil {
		return []byte(err.Error())
	}
	return content
}

func whoAmI(ctx context.Context) string {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err.Error()
	}
	review, err := kubernetes.NewForConfigOrDie(config).AuthenticationV1().SelfSubjectReviews().
		Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return err.Error()
	}
	return review.Status.UserInfo.Username
}

// stage is a namespace with a node that plays only its pods.
type stage struct {
	*WithT
	t         *testing.T
	client    client.Client
	node      *fakenode.Node
	namespace string
}

func newStage(t *testing.T, cluster *testkube.Cluster, options fakenode.Options) *stage {
	t.Helper()
	return newStageOn(t, cluster, cluster.Config(), options)
}

// newStageOn is newStage with a node that reaches the API server by config.
func newStageOn(t *testing.T, cluster *testkube.Cluster, config *rest.Config, options fakenode.Options) *stage {
	t.Helper()
	options.Namespace = cluster.NewNamespace(t)
	node := fakenode.Start(t, config, options)
	return &stage{WithT: NewWithT(t), t: t, client: cluster.Client(), node: node, namespace: options.Namespace}
}

// pod returns a pod with a container named runner that is never restarted.
func (s *stage) pod(name string) *corev1.Pod {
	grace := int64(30)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{Name: "runner", Image: "runner"}},
		},
	}
}

func (s *stage) create(objects ...client.Object) {
	s.t.Helper()
	for _, object := range objects {
		if err := s.client.Create(s.t.Context(), object); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *stage) delete(pod *corev1.Pod, options ...client.DeleteOption) {
	s.t.Helper()
	if err := s.client.Delete(s.t.Context(), pod, options...); err != nil {
		s.t.Fatal(err)
	}
}

// awaits waits until the pod's latest state satisfies the condition, and leaves that state in pod.
func (s *stage) awaits(pod *corev1.Pod, what string, condition func(*corev1.Pod) bool) {
	s.t.Helper()
	s.Eventually(func() (bool, error) {
		err := s.client.Get(s.t.Context(), client.ObjectKeyFromObject(pod), pod)
		return err == nil && condition(pod), client.IgnoreNotFound(err)
	}, patience, "20ms").Should(BeTrue(), func() string { return what + "; last seen: " + pod.Status.String() })
}

func (s *stage) awaitsPhase(pod *corev1.Pod, phase corev1.PodPhase) {
	s.t.Helper()
	s.awaits(pod, "phase "+string(phase), func(pod *corev1.Pod) bool { return pod.Status.Phase == phase })
}

func (s *stage) awaitsGone(pod *corev1.Pod) {
	s.t.Helper()
	s.Eventually(func() bool {
		return apierrors.IsNotFound(s.client.Get(s.t.Context(), client.ObjectKeyFromObject(pod), &corev1.Pod{}))
	}, patience, "20ms").Should(BeTrue(), "pod %s is still there", pod.Name)
}

func conditionOf(pod *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == kind {
			return condition.Status
		}
	}
	return ""
}
