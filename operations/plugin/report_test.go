package plugin_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/testkube"
)

// ledgerName is the name of the StatefulSet in the documentation.
const ledgerName = "harrier-gha-rs-controller-history"

// remember starts a ledger that knows a job of the run, with its StatefulSet and pod in a namespace, on a node whose
// kubelet forwards ports. Its address is one of loopback, as in the pod.
func remember(t *testing.T, cluster *testkube.Cluster, namespace string) (address string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the ledger is told who asks")
		}
		if host, _, _ := net.SplitHostPort(r.Host); host != "localhost" && host != "127.0.0.1" {
			t.Errorf("the ledger is asked as %s", r.Host)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(map[string]string{
			"/api/v1/usage": `[{"repository":"acme/app","jobs":2,"succeeded":1,"lost":1,"runHours":1.5,"cost":3}]`, "/api/v1/gaps": "[]", "/api/v1/sizes": "[]",
			"/api/v1/trends": `[{"repository":"acme/app","branch":"main","every":"all","jobs":2}]`, "/api/v1/changes": "[]",
			"/api/v1/jobs": `{"jobs":[{"runnerUID":"u","namespace":"` + namespace + `","set":"linux","runner":"gone","repository":"acme/app","name":"test","runID":1234567890,"result":"failed"}]}`,
		}[r.URL.Path]))
	}))
	t.Cleanup(s.Close)
	ports := kubelet(t, map[string]string{
		"/portForward/" + namespace + "/" + ledgerName + "-0 8090": s.Listener.Addr().String()})
	meta := metav1.ObjectMeta{Namespace: namespace, Name: ledgerName, Labels: map[string]string{
		"app.kubernetes.io/component": "history", "app.kubernetes.io/part-of": "harrier"}}
	pods := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: meta.Labels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "history", Image: "mine"}}}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ledgerName + "-0"}, Spec: pods.Spec}
	pod.Spec.NodeName = node.Name
	for _, object := range []client.Object{node, pod, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: meta.Labels}, Template: pods}}} {
		if err := cluster.Client().Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = ports
	if err := cluster.Client().Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	return s.URL
}

// kubelet forwards connections to addresses, by path and port of what is asked, and returns its port.
func kubelet(t *testing.T, addresses map[string]string) int32 {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
			t.Error(err)
			return
		}
		streams := make(chan httpstream.Stream, 2)
		connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r,
			func(stream httpstream.Stream, _ <-chan struct{}) error {
				streams <- stream
				return nil
			})
		defer connection.Close()
		words, data := <-streams, <-streams // the one for words comes first
		defer words.Close()
		defer data.Close()
		to := addresses[r.URL.Path+" "+data.Headers().Get(corev1.PortHeader)]
		if to == "" {
			_, _ = words.Write([]byte("nobody listens there"))
			return
		}
		forwarded, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", to)
		if err != nil {
			t.Error(err)
			return
		}
		defer forwarded.Close()
		go func() { _, _ = io.Copy(forwarded, data) }()
		go func() { _, _ = io.Copy(data, forwarded) }()
		<-connection.CloseChan()
	}))
	t.Cleanup(s.Close)
	port, err := strconv.ParseInt(s.URL[strings.LastIndex(s.URL, ":")+1:], 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return int32(port)
}

// The documented Role is enough to ask the ledger by a forwarded port; without it, what is missing is said, and an
// address needs no cluster.
func TestUsersAskTheLedger(t *testing.T) {
	cluster := testkube.Shared(t)
	namespace := cluster.NewNamespace(t)
	install(t, cluster.Client(), namespace)
	address, roles := remember(t, cluster, namespace), documented(t)
	viewer := user(t, cluster, namespace, "viewer", append(podReader, roles["harrier-view"]...))
	reporter := user(t, cluster, namespace, "reporter",
		append(append(podReader, roles["harrier-view"]...), roles["harrier-history"]...))
	lister := user(t, cluster, namespace, "lister",
		append(podReader, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/log"},
			Verbs: []string{"list"}},
			rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"statefulsets"}, Verbs: []string{"list"}}))
	for name, test := range map[string]struct {
		who  string
		line string
		code int
		says []string
	}{
		"report":                       {reporter, "report --history-namespace NS", 0, []string{"from the ledger at pod NS/" + ledgerName, "acme/app       2       0     1    1.5", "3.00"}},
		"report as CSV":                {reporter, "report --history-namespace NS -o csv", 0, []string{"repository,jobs,", "acme/app,2,1,0,0,1,1.5,"}},
		"report as JSON":               {reporter, "report --by workflow --history-namespace NS -o json", 0, []string{`"runHours": 1.5`, `"by": "workflow"`}},
		"right-sizing":                 {reporter, "report --right-sizing --history-namespace NS", 0, []string{"No jobs."}},
		"trends":                       {reporter, "report --trends --by branch --history-namespace NS", 0, []string{"REPOSITORY", "BRANCH", "RAN P50"}},
		"changes":                      {reporter, "report --changes --history-namespace NS", 0, []string{"Nothing got worse"}},
		"branch of usage":              {reporter, "report --branch main --history-namespace NS", 2, []string{"--branch and --event are for --trends"}},
		"report everywhere":            {reporter, "report", 2, []string{"name the controller's namespace with --history-namespace"}},
		"report without the Role":      {viewer, "report --history-namespace NS", 2, []string{"the Role harrier-history in docs/kubectl-harrier.md"}},
		"report by the pod's name":     {reporter, "report --history-namespace NS --history-pod " + ledgerName + "-0", 0, []string{"acme/app"}},
		"report of another pod":        {reporter, "report --history-namespace NS --history-pod other-0", 2, []string{"pods/portforward", "the Role harrier-history"}},
		"report without half of it":    {lister, "report --history-namespace NS", 2, []string{"forward a port to pod NS/" + ledgerName + "-0", "pods/portforward", "the Role harrier-history"}},
		"report by address":            {viewer, "report --history-url " + address, 0, []string{"from the ledger at " + address, "acme/app"}},
		"report by address, no config": {"none", "report --history-url " + address, 0, []string{"acme/app"}},
		"why of a run":                 {reporter, "why " + runURL + " -n NS --history-namespace NS", 0, []string{`Job "build" of acme/app, run 1234567890: running`, `Job "test" of acme/app, run 1234567890: ended`, "from the ledger at pod NS/"}},
		"why of a runner that is gone": {reporter, "why gone -n NS --history-namespace NS", 0, []string{`Job "test"`}},
		"why without the Role":         {viewer, "why " + runURL + " -n NS", 0, []string{`Job "build"`, "The ledger of jobs could not be asked", "--history-namespace"}},
		"why by address":               {viewer, "why gone -n NS --history-url " + address, 0, []string{`Job "test"`}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t.Context(), test.who,
				strings.Fields(strings.ReplaceAll(test.line, "NS", namespace))...)
			for _, part := range test.says {
				if part = strings.ReplaceAll(part, "NS", namespace); code != test.code ||
					!strings.Contains(stdout+stderr, part) {
					t.Errorf("ends with %d, want %d and %q:\n%s%s", code, test.code, part, stdout, stderr)
				}
			}
		})
	}
}
