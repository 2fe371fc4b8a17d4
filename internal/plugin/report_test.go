package plugin_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/testkube"
)

// ledgerService is the name of the Service in the documentation.
const ledgerService = "harrier-gha-rs-controller-history"

// remember starts a ledger that knows a job of the run, with its Service in a namespace. It is at an address that the
// API server's proxy goes to: that of a pod, which loopback is not.
func remember(t *testing.T, cluster *testkube.Cluster, namespace string) (address string) {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	host := ""
	for _, each := range addresses {
		if is, ok := each.(*net.IPNet); ok && is.IP.To4() != nil && is.IP.IsGlobalUnicast() && host == "" {
			host = is.IP.String()
		}
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: listener,
		Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "" {
				t.Error("the ledger is told who asks")
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(map[string]string{
				"/api/v1/usage": `[{"repository":"acme/app","jobs":2,"succeeded":1,"lost":1,"runHours":1.5,"cost":3}]`, "/api/v1/gaps": "[]", "/api/v1/sizes": "[]",
				"/api/v1/jobs": `{"jobs":[{"runnerUID":"u","namespace":"` + namespace + `","set":"linux","runner":"gone","repository":"acme/app","name":"test","runID":1234567890,"result":"failed"}]}`,
			}[r.URL.Path]))
		})}}
	s.Start()
	t.Cleanup(s.Close)
	port, _ := strconv.Atoi(s.URL[strings.LastIndex(s.URL, ":")+1:])
	about := metav1.ObjectMeta{Namespace: namespace, Name: ledgerService,
		Labels: map[string]string{"app.kubernetes.io/component": "history", "app.kubernetes.io/part-of": "harrier"}}
	service := &corev1.Service{ObjectMeta: about,
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ledger"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "history", Image: "mine"}}}}
	endpoints := &corev1.Endpoints{ObjectMeta: about, Subsets: []corev1.EndpointSubset{{ //nolint:staticcheck // the API server's proxy still goes by it
		Addresses: []corev1.EndpointAddress{{IP: host,
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: pod.Name}}},
		Ports: []corev1.EndpointPort{{Name: "http", Port: int32(port)}}}}}
	for _, object := range []client.Object{service, pod, endpoints} {
		if err := cluster.Client().Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	pod.Status.PodIPs = []corev1.PodIP{{IP: host}}
	if err := cluster.Client().Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	return s.URL
}

// The documented Role is enough to ask the ledger through the API server; without it, what is missing is said, and an
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
		append(podReader, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services"},
			Verbs: []string{"list"}}))
	for name, test := range map[string]struct {
		who  string
		line string
		code int
		says []string
	}{
		"report":                       {reporter, "report --history-namespace NS", 0, []string{"from the ledger at Service NS/" + ledgerService, "acme/app       2       0     1    1.5", "3.00"}},
		"report as CSV":                {reporter, "report --history-namespace NS -o csv", 0, []string{"repository,jobs,", "acme/app,2,1,0,0,1,1.5,"}},
		"report as JSON":               {reporter, "report --by workflow --history-namespace NS -o json", 0, []string{`"runHours": 1.5`, `"by": "workflow"`}},
		"right-sizing":                 {reporter, "report --right-sizing --history-namespace NS", 0, []string{"No jobs."}},
		"report everywhere":            {reporter, "report", 2, []string{"name the controller's namespace with --history-namespace"}},
		"report without the Role":      {viewer, "report --history-namespace NS", 2, []string{"the Role harrier-history in docs/kubectl-harrier.md"}},
		"report without half of it":    {lister, "report --history-namespace NS", 2, []string{"through the API server", "the Role harrier-history", "kubectl port-forward -n NS service/" + ledgerService + " 8090:80"}},
		"report by address":            {viewer, "report --history-url " + address, 0, []string{"from the ledger at " + address, "acme/app"}},
		"report by address, no config": {"none", "report --history-url " + address, 0, []string{"acme/app"}},
		"why of a run":                 {reporter, "why " + runURL + " -n NS --history-namespace NS", 0, []string{`Job "build" of acme/app, run 1234567890: running`, `Job "test" of acme/app, run 1234567890: ended`, "from the ledger at Service NS/"}},
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
