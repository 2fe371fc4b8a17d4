package plugin_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/operations/plugin"
)

func TestMain(m *testing.M) {
	os.Exit(testkube.Main(m, testkube.Options{AddToScheme: []func(*runtime.Scheme) error{v1alpha1.AddToScheme}}))
}

const (
	runnerName = "linux-x7k2p-runner-8fzqd"
	runURL     = "https://github.com/acme/app/actions/runs/1234567890"
)

// install creates a scale set with a runner set, and a runner with its pod, whose job runs.
func install(t *testing.T, c client.Client, namespace string) {
	t.Helper()
	labels := map[string]string{v1alpha1.LabelScaleSetName: "linux", v1alpha1.LabelScaleSetNamespace: namespace}
	containers := []corev1.Container{{Name: "runner", Image: "mine"}}
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "linux"}}
	set.Spec.GitHubConfigUrl, set.Spec.GitHubConfigSecret, set.Spec.Template.Spec.Containers,
		set.Spec.MaxRunners = "https://github.com/acme", "github", containers, new(1)
	runnerSet := &v1alpha1.EphemeralRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "linux-x7k2p",
		Labels: labels}}
	runnerSet.Spec.AssignedJobs, runnerSet.Spec.MaxRunners, runnerSet.Spec.EphemeralRunnerSpec.PodSpec.Containers = 1,
		new(1), containers
	runnerSet.Spec.EphemeralRunnerSpec.GitHubConfigUrl,
		runnerSet.Spec.EphemeralRunnerSpec.GitHubConfigSecret = "https://github.com/acme", "github"
	runner := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: runnerName,
		Labels: labels}, Spec: runnerSet.Spec.EphemeralRunnerSpec}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: runnerName,
		Labels: map[string]string{v1alpha1.LabelRunner: "True", v1alpha1.LabelScaleSetName: "linux",
			v1alpha1.LabelJobRunID: "1234567890"},
		Annotations: map[string]string{v1alpha1.AnnotationJobRunID: "1234567890",
			v1alpha1.AnnotationJobRepository: "acme/app", v1alpha1.AnnotationJobName: "build"}}}
	pod.Spec.Containers = containers
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "one"}, Type: "Normal",
		Reason: "Scheduled", Message: "to node-7",
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: runnerName},
		LastTimestamp:  metav1.Now()}
	for _, object := range []client.Object{set, runnerSet, runner, pod, event} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatalf("create %s %s: %v", object.GetObjectKind().GroupVersionKind().Kind, object.GetName(), err)
		}
	}
	set.Status.Phase, set.Status.AssignedJobs, set.Status.BusyRunners, set.Status.ObservedGeneration,
		set.Status.EffectiveMaxRunners = "Running", 1, 1, set.Generation, new(1)
	set.Status.LimitedBy = &v1alpha1.Limit{Kind: "Maximum", Reason: v1alpha1.ReasonMaxRunnersReached,
		Message: "maxRunners of 1 is reached", Since: metav1.Now()}
	runner.Status.Phase, runner.Status.JobID, runner.Status.WorkflowRunID = "Running", "one", 1234567890
	runner.Status.JobRepositoryName, runner.Status.JobDisplayName = "acme/app", "build"
	pod.Status.Phase = corev1.PodRunning
	for _, object := range []client.Object{set, runner, pod} {
		if err := c.Status().Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// documented returns the rules of the roles that the documentation has users add, by name.
func documented(t *testing.T) map[string][]rbacv1.PolicyRule {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "kubectl-harrier.md"))
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string][]rbacv1.PolicyRule{}
	for _, block := range strings.Split(string(page), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		for document := range strings.SplitSeq(block, "---\n") {
			var role rbacv1.ClusterRole // a Role has the same fields
			if err := yaml.UnmarshalStrict([]byte(document), &role); err != nil {
				t.Fatal(err)
			}
			rules[role.Name] = role.Rules
		}
	}
	if len(rules["harrier-view"]) == 0 || len(rules["harrier-edit"]) == 0 || len(rules["harrier-history"]) == 0 {
		t.Fatalf("the page has %v", rules)
	}
	return rules
}

// podReader are the parts of Kubernetes' role view that matter here.
var podReader = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods", "events", "resourcequotas"},
	Verbs: []string{"get", "list", "watch"}}}

// user gives a user rights in one namespace, and returns a kubeconfig.
func user(t *testing.T, cluster *testkube.Cluster, namespace, name string, rules []rbacv1.PolicyRule) string {
	t.Helper()
	name += "-of-" + namespace
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules}
	binding := &rbacv1.RoleBinding{ObjectMeta: role.ObjectMeta,
		RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: name}}}
	for _, object := range []client.Object{role, binding} {
		if err := cluster.Client().Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	last := rules[len(rules)-1]
	asks := authorizationv1.ResourceAttributes{Namespace: namespace, Group: last.APIGroups[0],
		Resource: last.Resources[0], Verb: last.Verbs[0]}
	NewWithT(t).Eventually(func() (bool, error) { return testkube.Allowed(t.Context(), cluster.Client(), name, asks) },
		30*time.Second).Should(BeTrue())
	return cluster.Kubeconfig(t, testkube.User(name))
}

// run runs the plugin as a user, in a namespace.
func run(ctx context.Context, kubeconfig string, arguments ...string) (code int, stdout, stderr string) {
	var out, errors bytes.Buffer
	code = plugin.Main(ctx, append(arguments, "--kubeconfig", kubeconfig),
		plugin.Streams{In: strings.NewReader(""), Out: &out, Err: &errors})
	return code, out.String(), errors.String()
}

// What an ordinary user of a namespace may do is enough: what can't be read is named, and the rest is told.
func TestUsersOfOneNamespace(t *testing.T) {
	cluster := testkube.Shared(t)
	namespace := cluster.NewNamespace(t)
	install(t, cluster.Client(), namespace)
	roles := documented(t)
	viewer := user(t, cluster, namespace, "viewer", append(podReader, roles["harrier-view"]...))
	pods := user(t, cluster, namespace, "pods", podReader)
	nobody := cluster.Kubeconfig(t, testkube.User("nobody"))
	for name, test := range map[string]struct {
		who  string
		line string
		code int
		says []string
	}{
		"top":                          {viewer, "top --once -n NS", 0, []string{"linux        1    0    0    1    0   0   1  "}},
		"top in all namespaces":        {viewer, "top --once -A", 2, []string{"forbidden"}},
		"top without scale sets":       {pods, "top --once -n NS", 2, []string{"forbidden"}},
		"why of a run":                 {viewer, "why " + runURL + " -n NS", 0, []string{`Job "build" of acme/app, run 1234567890: running`, "Scheduled: to node-7"}},
		"why of a runner":              {viewer, "why " + runnerName + " -n NS", 0, []string{`Job "build"`}},
		"why with pods only":           {pods, "why " + runURL + " -n NS", 0, []string{`Job "build" of acme/app`, "You may not read EphemeralRunnerSets, EphemeralRunners", "Scheduled: to node-7"}},
		"why of a pod, with pods only": {pods, "why pod/" + runnerName + " -n NS -o json", 0, []string{`"notRead"`, `"state": "Running"`}},
		"why elsewhere":                {viewer, "why " + runURL, 2, []string{"you may not list"}},
		"why without rights":           {nobody, "why " + runURL + " -n NS", 2, []string{"neither runners nor pods can be read"}},
		"drain without the right":      {viewer, "drain linux -n NS", 2, []string{"the right to patch autoscalingrunnersets"}},
		"drain without any":            {pods, "drain linux -n NS", 2, []string{"docs/kubectl-harrier.md"}},
		"the doctor":                   {viewer, "doctor linux -n NS", 0, []string{"maxRunners of 1 is reached", "could not be read"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t.Context(), test.who,
				strings.Fields(strings.ReplaceAll(test.line, "NS", namespace))...)
			for _, part := range test.says {
				if code != test.code || !strings.Contains(stdout+stderr, part) {
					t.Errorf("ends with %d, want %d and %q:\n%s%s", code, test.code, part, stdout, stderr)
				}
			}
		})
	}
}

// An editor drains the scale set, waits until the condition says that nothing is left, and resumes it.
func TestDrainByAnEditor(t *testing.T) {
	cluster := testkube.Shared(t)
	namespace, g := cluster.NewNamespace(t), NewWithT(t)
	install(t, cluster.Client(), namespace)
	roles := documented(t)
	editor := user(t, cluster, namespace, "editor",
		append(append(podReader, roles["harrier-view"]...), roles["harrier-edit"]...))
	read := func() *v1alpha1.AutoscalingRunnerSet {
		set := &v1alpha1.AutoscalingRunnerSet{}
		g.Expect(cluster.Client().Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "linux"}, set)).
			To(Succeed())
		return set
	}
	say := func(status metav1.ConditionStatus, reason string) {
		set := read()
		meta.SetStatusCondition(&set.Status.Conditions,
			metav1.Condition{Type: "Drained", Status: status, Reason: reason, Message: "m"})
		g.Expect(cluster.Client().Status().Update(t.Context(), set)).To(Succeed())
	}
	for _, step := range []struct {
		command, reason string
		status          metav1.ConditionStatus
		drained         bool
		says            string
	}{{"drain", "Drained", metav1.ConditionTrue, true, "is drained"},
		{"resume", "TakesJobs", metav1.ConditionFalse, false, "takes jobs"}} {
		generation := read().Generation
		ended := make(chan string)
		go func() {
			code, stdout, stderr := run(t.Context(), editor, step.command, "autoscalingrunnerset/linux", "-n",
				namespace, "--timeout", "1m")
			ended <- string(rune('0'+code)) + stdout + stderr
		}()
		g.Eventually(func() bool { return read().Drained() }, 30*time.Second).Should(Equal(step.drained))
		say(step.status, step.reason)
		g.Eventually(ended, 30*time.Second).Should(Receive(And(HavePrefix("0"), ContainSubstring(step.says))))
		g.Expect(read().Generation).To(Equal(generation), "the spec was changed")
	}
}

// written is an output that is read while it is written.
type written struct {
	lock sync.Mutex
	text bytes.Buffer
}

func (w *written) Write(text []byte) (int, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.text.Write(text)
}

func (w *written) String() string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.text.String()
}

// top shows what a real watch tells, until it is ended.
func TestTopFollowsAWatch(t *testing.T) {
	cluster := testkube.Shared(t)
	namespace, g := cluster.NewNamespace(t), NewWithT(t)
	install(t, cluster.Client(), namespace)
	ctx, stop := context.WithCancel(t.Context())
	out, ended := &written{}, make(chan int)
	go func() {
		ended <- plugin.Main(ctx, []string{"top", "-n", namespace, "--kubeconfig", cluster.AdminKubeconfig()},
			plugin.Streams{In: strings.NewReader(""), Out: out, Err: io.Discard})
	}()
	g.Eventually(out.String, 30*time.Second).Should(ContainSubstring("linux        1 "))
	set := &v1alpha1.AutoscalingRunnerSet{}
	g.Expect(cluster.Client().Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "linux"}, set)).
		To(Succeed())
	set.Status.AssignedJobs = 7
	g.Expect(cluster.Client().Status().Update(t.Context(), set)).To(Succeed())
	g.Eventually(out.String, 30*time.Second).Should(ContainSubstring("linux        1    0    0    7    6 "))
	stop()
	g.Eventually(ended, 30*time.Second).Should(Receive(Equal(0)))
}
