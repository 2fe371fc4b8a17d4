package charts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
)

// The steps of a first user: controller, scale set in every mode, upgrade, uninstall. The API server takes every
// object, and the controller's account has its rights.
func TestInstall(t *testing.T) {
	t.Parallel()
	forHelms(t, func(t *testing.T, helm installer) {
		system := helm.cluster.NewNamespace(t)
		helm.succeed(t, "install", "arc", controller.directory(), "--namespace", system)
		awaitKind(t, helm.cluster)
		installInEveryMode(t, helm, system)
		nameTyposInPods(t, helm)
		upgradeTakesFinalizersOff(t, helm)
		refusesToInstallOverDeletion(t, helm)
	})
}

// awaitKind waits until the API server lists the kind of scale sets, a moment after it has taken the CRD: Helm installs
// no object of an unknown kind.
func awaitKind(t *testing.T, cluster *testkube.Cluster) {
	t.Helper()
	server, err := discovery.NewDiscoveryClientForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	gomega.NewWithT(t).Eventually(func() ([]string, error) {
		_, lists, err := server.ServerGroupsAndResources()
		var served []string
		for _, list := range lists {
			for _, resource := range list.APIResources {
				served = append(served, resource.Name+"."+list.GroupVersion)
			}
		}
		return served, err
	}, time.Minute, 100*time.Millisecond).
		Should(gomega.ContainElement("autoscalingrunnersets.actions.github.com/v1alpha1"))
}

func installInEveryMode(t *testing.T, helm installer, system string) {
	t.Helper()
	runners := helm.cluster.NewNamespace(t)
	for _, containerMode := range modes {
		arguments := []string{
			"set", scaleSet.directory(), "--namespace", runners,
			"--set", "githubConfigUrl=https://github.com/actions,githubConfigSecret.github_token=t,containerMode.type=" + containerMode,
		}
		if containerMode == "kubernetes" {
			arguments = append(arguments, "--set",
				"containerMode.kubernetesModeWorkVolumeClaim.accessModes={ReadWriteOnce}")
		}
		notes := helm.succeed(t, append([]string{"install"}, arguments...)...)
		checkContains(t, notes, "runs-on: set")
		checkContains(t, notes, "wait autoscalingrunnerset/set --for=condition=Ready")
		helm.succeed(t, append([]string{"upgrade"}, append(arguments, "--set", "maxRunners=0")...)...)
		checkPermissions(t, helm.cluster, system, runners)
		helm.succeed(t, "uninstall", "set", "--namespace", runners)
		checkGone(t, helm.cluster, runners)
	}
}

// The schemas of the charts know the fields of pods and containers, but none below them. For a field that the cluster
// doesn't know, Helm 4 fails and installs nothing, and Helm 3 shows the API server's warning.
func nameTyposInPods(t *testing.T, helm installer) {
	t.Helper()
	namespace := helm.cluster.NewNamespace(t)
	for typo, value := range map[string]string{
		"runAsUsr": "template.spec.securityContext.runAsUsr=5",
		"limit":    "template.spec.containers[0].name=runner,template.spec.containers[0].resources.limit.cpu=1",
		"drops":    "listenerTemplate.spec.containers[0].name=listener,listenerTemplate.spec.containers[0].securityContext.capabilities.drops=b",
	} {
		_, said, err := helm.run(t, "install", strings.ToLower(typo), scaleSet.directory(), "--namespace", namespace,
			"--set", "githubConfigUrl=https://github.com/actions,githubConfigSecret=s", "--set", value)
		checkContains(t, said, "."+typo)
		check(t, "refused by Helm "+helm.version, err != nil, helm.version == "4")
	}
	// One of the other securityContext is left out, so that no version of Helm stops at it.
	notes := helm.succeed(t, "install", "misplaced", scaleSet.directory(), "--namespace", namespace,
		"--set", "githubConfigUrl=https://github.com/actions,githubConfigSecret=s,containerMode.type=dind",
		"--set", "template.spec.securityContext.capabilities.drop={ALL}",
		"--set", "template.spec.containers[0].name=dind,template.spec.containers[0].securityContext.fsGroup=5")
	checkContains(t, notes, "template.spec.securityContext.capabilities: there is no such field")
	checkContains(t, notes, "template.spec.containers[0].securityContext.fsGroup: there is no such field")
}

// ARC's chart puts a finalizer on each of its objects. An upgrade removes it: otherwise objects would wait for a
// controller that doesn't know it any more.
func upgradeTakesFinalizersOff(t *testing.T, helm installer) {
	t.Helper()
	runners := helm.cluster.NewNamespace(t)
	values := []string{
		"--namespace", runners, "--set", "githubConfigUrl=https://github.com/actions,githubConfigSecret.github_token=t",
		"--set", "containerMode.type=kubernetes-novolume",
	}
	former := installer{cluster: helm.cluster, version: "3"}
	former.succeed(t, append([]string{"install", "set", scaleSetWithFinalizers(t)}, values...)...)
	helm.succeed(t, append([]string{"upgrade", "set", scaleSet.directory()}, values...)...)
	helm.succeed(t, "uninstall", "set", "--namespace", runners)
	checkGone(t, helm.cluster, runners)
}

// scaleSetWithFinalizers returns the directory of a chart like ours whose objects carry ARC's finalizer.
func scaleSetWithFinalizers(t *testing.T) string {
	t.Helper()
	directory := filepath.Join(t.TempDir(), scaleSet.name)
	if err := os.CopyFS(directory, os.DirFS(scaleSet.directory())); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(directory, "templates", "_metadata.tpl")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const before = "name: {{ .name | quote }}\n"
	const finalizer = before + `{{- if ne .kind "autoscalingRunnerSet" }}` +
		"\nfinalizers: [actions.github.com/cleanup-protection]\n{{- end }}\n"
	write(t, file, strings.Replace(string(content), before, finalizer, 1), 0o644)
	check(t, "chart has the finalizer", strings.Contains(string(content), before), true)
	return directory
}

// The end of a set's deletion would remove a new installation of the same name. An upgrade is allowed: it may bring
// what the deletion waits for.
func refusesToInstallOverDeletion(t *testing.T, helm installer) {
	t.Helper()
	runners := helm.cluster.NewNamespace(t)
	release := []string{
		"set", scaleSet.directory(), "--namespace", runners, "--set",
		"githubConfigUrl=https://github.com/actions,githubConfigSecret=s,runnerScaleSetName=a_b",
	}
	wait := "kubectl wait --for=delete autoscalingrunnerset/a-b --namespace " + runners + " --timeout=1h"
	notes := helm.succeed(t, append([]string{"install"}, release...)...)
	check(t, "NOTES speak of a deletion", strings.Contains(notes, wait), false)
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: runners, Name: "a-b"}}
	patch := func(finalizers string) {
		t.Helper()
		change := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":`+finalizers+`}}`))
		if err := helm.cluster.Client().Patch(t.Context(), set, change); err != nil {
			t.Fatal(err)
		}
	}
	patch(`["example.com/jobs-run"]`)
	if err := helm.cluster.Client().Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	checkContains(t, helm.succeed(t, append([]string{"upgrade"}, release...)...), wait)
	helm.succeed(t, "uninstall", "set", "--namespace", runners)
	for _, command := range [][]string{{"install"}, {"upgrade", "--install"}, {"install", "--dry-run=server"}} {
		checkContains(t, helm.refused(t, append(command, release...)...), wait)
	}
	helm.succeed(t, append([]string{"template", "--set",
		"controllerServiceAccount.name=a,controllerServiceAccount.namespace=a"}, release...)...)
	helm.succeed(t, append([]string{"install"}, append(release, "--set", "runnerScaleSetName=other")...)...)
	helm.succeed(t, "uninstall", "set", "--namespace", runners)
	patch("null")
	helm.succeed(t, append([]string{"upgrade", "--install"}, release...)...)
}

// Restricted to one namespace, the controller may do the same there.
func TestInstallForSingleNamespace(t *testing.T) {
	helm := installer{cluster: testkube.Shared(t), version: "4"}
	system, runners := helm.cluster.NewNamespace(t), helm.cluster.NewNamespace(t)
	helm.succeed(t, "install", "arc", controller.directory(), "--namespace", system,
		"--set", "crds.install=false,flags.watchSingleNamespace="+runners)
	helm.succeed(t, "install", "set", scaleSet.directory(), "--namespace", runners,
		"--set", "githubConfigUrl=https://github.com/actions,githubConfigSecret.github_token=t")
	checkPermissions(t, helm.cluster, system, runners)
	helm.succeed(t, "uninstall", "set", "--namespace", runners)
	helm.succeed(t, "uninstall", "arc", "--namespace", system, "--no-hooks")
}

// checkPermissions has the controller's account make the requests that ARC's roles allow and those that ours add.
func checkPermissions(t *testing.T, cluster *testkube.Cluster, system, runners string) {
	t.Helper()
	account, err := client.New(cluster.ConfigFor(t, testkube.ServiceAccount(system, "arc-gha-rs-controller")),
		client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rule := func(resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{"actions.github.com"}, Resources: []string{resource}, Verbs: verbs}
	}
	// A Role may only grant rights of its author, so the controller needs the listener's rights.
	listener := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: runners, Name: "listener"},
		Rules: []rbacv1.PolicyRule{
			rule("ephemeralrunnersets", "get", "patch"), rule("ephemeralrunnersets/status", "patch"),
			rule("ephemeralrunners/status", "patch"),
		}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: runners, Name: "runner"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "runner", Image: "i"}}},
	}
	awaitBindings(t, account, system, runners)
	for _, object := range []client.Object{listener, pod, event(system), event(runners)} {
		if err := account.Create(t.Context(), object); err != nil {
			t.Errorf("the controller may not create a %T: %v", object, err)
		}
	}
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.SecretList{}} {
		if err := account.List(t.Context(), list, client.InNamespace(runners),
			client.MatchingLabels{"runner-pod": "runner"}); err != nil {
			t.Errorf("the controller may not look for what container hooks left: %v", err)
		}
	}
	label := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"job":"1"}}}`))
	if err := account.Patch(t.Context(), pod, label); err != nil {
		t.Errorf("the controller may not label a pod: %v", err)
	}
	for _, object := range []client.Object{listener, pod} {
		if err := account.Delete(t.Context(), object, client.GracePeriodSeconds(0)); err != nil {
			t.Errorf("the controller may not delete a %T: %v", object, err)
		}
	}
}

// awaitBindings waits until the API server knows the account's RoleBindings: it learns of them by a watch of its own.
func awaitBindings(t *testing.T, account client.Client, namespaces ...string) {
	t.Helper()
	for _, namespace := range namespaces {
		gomega.NewWithT(t).Eventually(func() error { return account.Create(t.Context(), event(namespace)) },
			time.Minute).
			Should(gomega.Succeed(), "the controller may not create Events in %s", namespace)
	}
	runners := namespaces[len(namespaces)-1]
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: runners, Name: "absent"}}
	for verb, request := range map[string]func() error{ // one of each binding
		"list":   func() error { return account.List(t.Context(), &corev1.PodList{}, client.InNamespace(runners)) },
		"delete": func() error { return client.IgnoreNotFound(account.Delete(t.Context(), pod.DeepCopy())) },
		"patch": func() error {
			return client.IgnoreNotFound(account.Patch(t.Context(), pod.DeepCopy(),
				client.RawPatch(types.MergePatchType, []byte("{}"))))
		},
	} {
		gomega.NewWithT(t).Eventually(request, time.Minute).
			Should(gomega.Succeed(), "the controller may not %s pods", verb)
	}
}

func event(namespace string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: namespace, GenerateName: "event-"},
		EventTime:           metav1.NowMicro(),
		ReportingController: "controller", ReportingInstance: "instance", Action: "Test", Reason: "Tested",
		Type:      corev1.EventTypeNormal,
		Regarding: corev1.ObjectReference{Namespace: namespace, Kind: "Pod", Name: "runner"},
	}
}

// checkGone fails the test if an object of the release is left: none may wait for a finalizer.
func checkGone(t *testing.T, cluster *testkube.Cluster, namespace string) {
	t.Helper()
	for _, kind := range []schema.GroupVersionKind{
		{Group: "actions.github.com", Version: "v1alpha1", Kind: "AutoscalingRunnerSetList"},
		rbacv1.SchemeGroupVersion.WithKind("RoleList"), rbacv1.SchemeGroupVersion.WithKind("RoleBindingList"),
		corev1.SchemeGroupVersion.WithKind("SecretList"), corev1.SchemeGroupVersion.WithKind("ServiceAccountList"),
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := cluster.Client().List(t.Context(), list, client.InNamespace(namespace),
			client.HasLabels{"actions.github.com/scale-set-name"}); err != nil {
			t.Fatal(err)
		}
		check(t, "left of "+kind.Kind, len(list.Items), 0)
	}
}
