package history_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/limits"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/operations/history"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/prices"
)

func TestMain(m *testing.M) { os.Exit(testkube.Main(m, testkube.Options{})) }

var answering = regexp.MustCompile(`"((?:[a-z]+-)?address)"="([^"]+)"`)

// local has addresses of loopback, where a test asks.
func local(t *testing.T) history.Options {
	t.Helper()
	return history.Options{Address: "127.0.0.1:0", MetricsAddress: "127.0.0.1:0",
		File: filepath.Join(t.TempDir(), "history.db"), Retention: time.Hour * 24}
}

// start runs the program until the test ends or stop is called, and returns the address of its API.
func start(t *testing.T, options history.Options) (address string, stop func()) {
	t.Helper()
	return startWith(t, options, func(string, string) {})
}

// startWith does the same, and tells each address before that of the API.
func startWith(t *testing.T, options history.Options, tell func(flag, address string)) (address string, stop func()) {
	t.Helper()
	addresses, ended := make(chan string, 1), make(chan error, 1)
	log := funcr.New(func(_, line string) {
		found := answering.FindStringSubmatch(line)
		if found == nil {
			return
		}
		if tell(found[1], found[2]); found[1] == "address" {
			addresses <- found[2]
		}
	}, funcr.Options{})
	config := testkube.Shared(t).Config() // here, because it may skip the test
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- history.Run(ctx, config, options, log) }()
	var stopped bool
	stop = func() {
		if cancel(); !stopped {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		stopped = true
	}
	t.Cleanup(stop)
	select {
	case address = <-addresses:
	case err := <-ended:
		t.Fatal(err)
	}
	return "http://" + address, stop
}

// get returns what is at an address.
func get(t *testing.T, address string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// ask returns the jobs that the API has.
func ask(t *testing.T, address string) (page ledger.Page) {
	t.Helper()
	body := get(t, address+"/api/v1/jobs")
	if err := json.Unmarshal(body, &page); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return page
}

// TestARestartLosesNothingThatStillExists follows a runner of a real API server through a job, a restart, and its end
// while nobody looks.
func TestARestartLosesNothingThatStillExists(t *testing.T) {
	cluster, err := client.New(testkube.Shared(t).Config(), client.Options{Scheme: kinds.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	options := local(t)
	options.NodeTypes = true
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1",
		Labels: map[string]string{corev1.LabelInstanceTypeStable: "large", "example.com/pool": "big", "example.com/other": "x"}}}
	options.Prices = prices.Rules{{NodeLabels: map[string]prices.Values{"example.com/pool": {"small"}}, CPUHour: 1}}
	g.Expect(cluster.Create(t.Context(), node)).To(gomega.Succeed())
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: "default"}}
	g.Expect(client.IgnoreAlreadyExists(cluster.Create(t.Context(), account))).To(gomega.Succeed())
	runner := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Name: "linux-1", Namespace: "default"}}
	g.Expect(cluster.Create(t.Context(), runner)).To(gomega.Succeed())
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "linux-1", Namespace: "default", Labels: map[string]string{v1alpha1.LabelRunner: "True"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(runner,
			v1alpha1.GroupVersion.WithKind("EphemeralRunner"))},
	}}
	pod.Spec.NodeName = "node-1"
	pod.Spec.Containers = []corev1.Container{{Name: "runner", Image: "runner:1"}}
	g.Expect(cluster.Create(t.Context(), pod)).To(gomega.Succeed())

	address, stop := start(t, options)
	before := runner.DeepCopy()
	runner.Status.JobID, runner.Status.JobRepositoryName = "job", "acme/app"
	runner.Status.Phases = &v1alpha1.RunnerPhases{Started: new(metav1.Now())}
	g.Expect(cluster.Status().Patch(t.Context(), runner, client.MergeFrom(before))).To(gomega.Succeed())
	g.Eventually(func() []ledger.Job { return ask(t, address).Jobs }).Should(gomega.HaveLen(1))
	if job := ask(t, address).Jobs[0]; job.RunnerUID != string(runner.UID) || job.Node != "node-1" ||
		job.NodeType != "large" || job.NodeLabels != "node.kubernetes.io/instance-type=large,example.com/pool=big" ||
		job.Cluster == "" || job.Repository != "acme/app" {
		t.Errorf("the job is %+v", job)
	}
	jobPod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "linux-1-workflow", Namespace: "default",
		Labels: map[string]string{v1alpha1.LabelRunnerPod: "linux-1"}}}
	jobPod.Spec.Containers = []corev1.Container{{Name: "job", Image: "job:1", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}}}
	g.Expect(cluster.Create(t.Context(), jobPod)).To(gomega.Succeed())
	g.Eventually(func() *int64 { return ask(t, address).Jobs[0].CPURequestMillis }).Should(gomega.HaveValue(gomega.BeEquivalentTo(2000)))
	stop()

	g.Expect(cluster.Delete(t.Context(), runner)).To(gomega.Succeed())
	address, _ = start(t, options)
	g.Eventually(func() string { return ask(t, address).Jobs[0].Result }).Should(gomega.Equal(ledger.ResultUnknown))
	if jobs := ask(t, address).Jobs; len(jobs) != 1 || jobs[0].Node != "node-1" {
		t.Errorf("the jobs are %+v", jobs)
	}
}

// TestThePageShowsWhatWaits: what no row of the ledger has comes from the cluster's objects.
func TestThePageShowsWhatWaits(t *testing.T) {
	cluster, err := client.New(testkube.Shared(t).Config(), client.Options{Scheme: kinds.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	ofSet := map[string]string{v1alpha1.LabelScaleSetName: "gpu", v1alpha1.LabelScaleSetNamespace: "default"}
	meta := metav1.ObjectMeta{Name: "gpu-1", Namespace: "default", Labels: ofSet}
	runner := &v1alpha1.EphemeralRunner{ObjectMeta: meta}
	g.Expect(cluster.Create(t.Context(), runner)).To(gomega.Succeed())
	runner.Status.Reason = "QuotaExceeded"
	g.Expect(cluster.Status().Update(t.Context(), runner)).To(gomega.Succeed())
	runnerSet := &v1alpha1.EphemeralRunnerSet{ObjectMeta: meta}
	g.Expect(cluster.Create(t.Context(), runnerSet)).To(gomega.Succeed())
	runnerSet.Status.Listener = &v1alpha1.ListenerStatus{Waiting: []v1alpha1.WaitingJob{
		{Repository: "acme/app", RunID: 7, Name: "train", AssignedAt: metav1.Now()},
	}}
	g.Expect(cluster.Status().Update(t.Context(), runnerSet)).To(gomega.Succeed())

	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Name: "gpu", Namespace: "default"}}
	set.Spec.GitHubConfigUrl, set.Spec.GitHubConfigSecret = "https://github.com/acme", "secret"
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "runner", Image: "runner:1"}}
	g.Expect(cluster.Create(t.Context(), set)).To(gomega.Succeed())
	set.Status.ObservedGeneration = set.Generation
	set.Status.LimitedBy = &v1alpha1.Limit{Kind: limits.Nodes, Reason: corev1.PodReasonUnschedulable, Since: metav1.Now(),
		Message: "1 runner waits, while 0 have a node; for example gpu-2: 1 Insufficient nvidia.com/gpu."}
	g.Expect(cluster.Status().Update(t.Context(), set)).To(gomega.Succeed())
	homeless := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Name: "gpu-2", Namespace: "default",
		Labels: ofSet}}
	g.Expect(cluster.Create(t.Context(), homeless)).To(gomega.Succeed())
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "gpu-2", Namespace: "default", Labels: map[string]string{v1alpha1.LabelRunner: "True"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(homeless,
			v1alpha1.GroupVersion.WithKind("EphemeralRunner"))},
	}}
	pod.Spec.NodeSelector = map[string]string{"pool": "large-gpu"}
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: "In", Values: []string{"a", "b"}}}},
		}},
	}}
	pod.Spec.Containers = []corev1.Container{{Name: "runner", Image: "runner:1", Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")},
	}}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: "default"}}
	g.Expect(client.IgnoreAlreadyExists(cluster.Create(t.Context(), account))).To(gomega.Succeed()) // nobody else does
	g.Expect(cluster.Create(t.Context(), pod)).To(gomega.Succeed())
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."}}
	g.Expect(cluster.Status().Update(t.Context(), pod)).To(gomega.Succeed())

	busy := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Name: "gpu-3", Namespace: "default", Labels: ofSet}}
	g.Expect(cluster.Create(t.Context(), busy)).To(gomega.Succeed())
	address, _ := start(t, local(t))
	// Figures of now are those of the rows, and no sample a minute old.
	busy.Status.JobID = "job"
	g.Expect(cluster.Status().Update(t.Context(), busy)).To(gomega.Succeed())
	g.Eventually(func() string { return string(get(t, address+"/api/v1/sets?set=gpu")) }).WithTimeout(20 * time.Second).
		Should(gomega.ContainSubstring(`"running":1`))
	page := func() string { return string(get(t, address+"/set?namespace=default&set=gpu")) }
	g.Eventually(page).Should(gomega.And(gomega.ContainSubstring("gpu-1"), gomega.ContainSubstring("quota used up"),
		gomega.ContainSubstring("train"), gomega.ContainSubstring("acme/app"),
		// Why it doesn't grow: the reason, what a node has to offer, and what to do.
		gomega.ContainSubstring("1 runner waits, while 0 have a node"),
		gomega.ContainSubstring("1 Insufficient nvidia.com/gpu"),
		gomega.ContainSubstring("<b>nvidia.com/gpu</b> 2"), gomega.ContainSubstring("<b>pool</b> large-gpu"),
		gomega.ContainSubstring("<b>zone</b> In a, b"),
		gomega.ContainSubstring("add nodes, or make the template ask for less"),
		gomega.ContainSubstring("the cluster&#39;s administrator")))
}

// TestItEndsWithoutAnErrorBeforeItHasBegun: it answers before it has read the cluster and written that it looks.
// Whoever stops it then, such as a rollout, has not met a failure.
func TestItEndsWithoutAnErrorBeforeItHasBegun(t *testing.T) {
	for range 5 {
		_, stop := start(t, local(t))
		stop()
	}
}

// TestNobodyElsewhereIsAnswered: where a pod of any tenant reaches the program there are probes and metrics, and
// nothing of a job.
func TestNobodyElsewhereIsAnswered(t *testing.T) {
	elsewhere := addressOfMachine(t)
	options := local(t)
	options.MetricsAddress = ":0"
	var metrics string
	address, _ := startWith(t, options, func(key, value string) {
		if key == "metrics-address" {
			_, metrics, _ = net.SplitHostPort(value)
		}
	})
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(address, "http://"))
	if connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", net.JoinHostPort(elsewhere, port)); err == nil {
		connection.Close()
		t.Error("the page and the API take connections from elsewhere")
	}
	probes := "http://" + net.JoinHostPort(elsewhere, metrics)
	if body := string(get(t, probes+"/healthz")); body != "ok\n" {
		t.Errorf("a probe is answered with %q", body)
	}
	for _, path := range []string{"/", "/jobs", "/api/v1/jobs", "/api/v1/sets"} {
		if body := string(get(t, probes+path)); body != "404 page not found\n" {
			t.Errorf("%s beside the metrics is answered with %q", path, body)
		}
	}
}

// addressOfMachine returns one that isn't loopback.
func addressOfMachine(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range addresses {
		if is, ok := each.(*net.IPNet); ok && is.IP.To4() != nil && is.IP.IsGlobalUnicast() {
			return is.IP.String()
		}
	}
	t.Fatal("this machine has loopback only; the test needs another address")
	return ""
}

func TestOptionsThatCannotBe(t *testing.T) {
	environment := func(string) string { return "" }
	for _, arguments := range [][]string{{"--retention=1"}, {"--retention=5m"}, {"--price-cpu-hour=-1"}, {"now"},
		{"--prices=[{}]"}, {"--prices=[{cpuHour: 1}]", "--price-gib-hour=1"}, {"--prices={"}, {"--budgets=[{namespace: a, perMonth: 1}]"},
		{"--price-cpu-hour=1", "--budgets=[{perMonth: 1}]"},
		{"--color"}, {"--address=:8090"}, {"--address=0.0.0.0:8090"}, {"--address=10.0.0.7:8090"}, {"--address=[::]:8090"},
		{"--address=history:8090"}, {"--address=127.0.0.1"},
		{"--auth=none"}, {"--auth=token", "--audience="}, {"--auth=proxy"}, {"--auth=proxy", "--proxy-ca-file=ca"},
		{"--auth=proxy", "--proxy-ca-file=ca", "--tls-directory=tls", "--proxy-secret-file=secret"},
		{"--auth=proxy", "--proxy-secret-file=secret", "--proxy-user-header="}} {
		if _, err := history.ParseOptions(arguments, environment, io.Discard); err == nil {
			t.Errorf("%v are options", arguments)
		}
	}
	options, err := history.ParseOptions(nil, environment, io.Discard)
	if err != nil || options.Retention != 90*24*time.Hour {
		t.Errorf("without options they are %+v, %v", options, err)
	}
	options, err = history.ParseOptions([]string{"--price-cpu-hour=2", `--budgets=[{"namespace":"a","perMonth":1}]`}, environment, io.Discard)
	if err != nil || len(options.Prices) != 1 || options.Prices[0].CPUHour != 2 || len(options.Budgets) != 1 {
		t.Errorf("with a plain price they are %+v, %v", options, err)
	}
}
