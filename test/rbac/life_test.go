package rbac

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

const actionsGroup = "actions.github.com"

// sessionLifetime is how long a session of a listener that is gone bars the next one, and the deletion of its scale set.
// GitHub's is 90 s, which a life would wait for twice. A listener that lives asks again at once.
const sessionLifetime = 20 * time.Second

// The scale sets of a life beside the rig's own.
const (
	proxied  = "proxied"  // by way of a proxy that asks for a password
	trusting = "trusting" // with a CA certificate of its own
	hooked   = "hooked"   // runs job containers as pods
	late     = "late"     // finds a pod with its listener's name
	mistyped = "mistyped" // is given a wrong token first
	vaulted  = "vaulted"  // has its credentials in a vault that can't be read
)

// life is one installation on its way from install to uninstall.
type life struct {
	*testing.T
	rig    *rig.Rig
	ledger *ledger
	// strips is set if the manager removes ARC's finalizers from the objects of its charts.
	strips bool
	// metricsReader is the chart's ClusterRole for reading the manager's metrics.
	metricsReader string
}

// authority is the value githubServerTLS of the set trusting.
var authority = rig.Values{"certificateFrom": rig.Values{"configMapKeyRef": rig.Values{"name": "ca", "key": "ca.crt"}}}

// hookedTemplate has the volume that runner and job share. The manager looks whether the runner's ConfigMap and Secret
// name a template of job pods.
var hookedTemplate = rig.Values{"spec": rig.Values{
	"volumes": []any{rig.Values{"name": "work", "emptyDir": rig.Values{}}},
	"containers": []any{rig.Values{"name": "runner", "envFrom": []any{
		rig.Values{"configMapRef": rig.Values{"name": "variables"}},
		rig.Values{"secretRef": rig.Values{"name": "proxy"}},
	}}},
}}

// begin installs the controller and a scale set of each sort.
func begin(t *testing.T, cluster *testkube.Cluster, options rig.Options) *life {
	t.Helper()
	proxy := forwardProxy(t)
	options.AllowedAddresses = []string{proxy} // it is on loopback
	options.GitHub.Rules.SessionLifetime = sessionLifetime
	options.MinRunners, options.ControllerValues = 1, rig.Values{"metrics": securedMetrics}
	r := rig.Start(t, cluster, options)
	l := &life{T: t, rig: r, ledger: newLedger(r), metricsReader: rig.ControllerAccount + "-metrics-reader",
		strips: options.Flags["stripForeignFinalizers"] != false}
	if options.SingleNamespace {
		l.metricsReader += "." + r.RunnerNamespace
	}
	l.create(
		&corev1.Secret{
			ObjectMeta: l.named("proxy"),
			Data:       map[string][]byte{"username": []byte("u"), "password": []byte("p")},
		},
		&corev1.ConfigMap{ObjectMeta: l.named("ca"), Data: map[string]string{"ca.crt": certificate(t)}},
		&corev1.ConfigMap{ObjectMeta: l.named("variables"), Data: map[string]string{"A": "b"}},
	)
	server := rig.Values{"url": proxy, "credentialSecretRef": "proxy"}
	r.InstallSet(proxied, rig.Values{"proxy": rig.Values{"http": server, "https": server}})
	r.InstallSet(trusting, rig.Values{"githubServerTLS": authority})
	r.InstallSet(hooked, rig.Values{"containerMode": rig.Values{"type": "kubernetes"}, "template": hookedTemplate})
	for _, set := range []string{proxied, trusting, hooked} {
		r.AwaitListening(set)
	}
	l.ledger.note(t)
	return l
}

func (l *life) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: l.rig.RunnerNamespace, Name: name}
}

func (l *life) create(objects ...client.Object) {
	l.Helper()
	for _, object := range objects {
		if err := l.rig.Cluster.Client().Create(l.Context(), object); err != nil {
			l.Fatal(err)
		}
	}
}

// await waits until the condition holds.
func (l *life) await(what string, condition func() bool) {
	l.Helper()
	gomega.NewWithT(l.T).Eventually(condition, rig.Patience).Should(gomega.BeTrue(), what)
}

func certificate(t *testing.T) string {
	t.Helper()
	content, _, err := certutil.GenerateSelfSignedCertKey("github.example.com", []net.IP{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// forwardProxy takes requests for any plain HTTP address.
func forwardProxy(t *testing.T) string {
	t.Helper()
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}})
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// lead leads the installation through everything between install and uninstall.
func (l *life) lead() {
	l.Helper()
	l.work()
	l.readMetrics()
	l.correctToken()
	l.useVault()
	l.failRunner()
	l.rejectRunner()
	l.takeRunnerNames()
	l.takeListenerName()
	l.leaveJobPods()
	l.loseListener()
	l.change()
	l.move()
	l.rig.KillManager()
	l.work()
	l.leaveListenerPods()
	l.refuseUninstall()
	l.ledger.note(l.T)
}

// work has every scale set run a job.
func (l *life) work() {
	l.Helper()
	var jobs []int64
	for _, set := range []string{rig.DefaultSet, proxied, trusting, hooked} {
		jobs = append(jobs, l.rig.QueueJobsFor(set, 1, time.Second)...)
	}
	l.rig.WaitDone(jobs)
}

// correctToken has a scale set begin with a token that GitHub doesn't know, and then gives it the right one.
func (l *life) correctToken() {
	l.Helper()
	l.rig.InstallSet(mistyped, rig.Values{
		"minRunners":         0,
		"githubConfigSecret": rig.Values{"github_token": "ghp_unknown"},
	})
	l.awaitTold(mistyped, v1alpha1.ConditionCredentialsValid, v1alpha1.ReasonUnauthorized)
	l.rig.UpgradeSet(mistyped, rig.Values{"minRunners": 0})
	l.rig.AwaitListening(mistyped)
}

// useVault has a scale set look for its credentials in a vault. The manager has no certificate for it.
func (l *life) useVault() {
	l.Helper()
	l.rig.InstallSet(vaulted, rig.Values{"minRunners": 0, "githubConfigSecret": "token", "keyVault": rig.Values{
		"type": "azure_key_vault", "azureKeyVault": rig.Values{
			"url": "https://example.vault.azure.net", "tenantId": "t", "clientId": "c",
			"certificatePath": "/certificate",
		},
	}})
	l.awaitTold(vaulted, v1alpha1.ConditionCredentialsValid, v1alpha1.ReasonCredentialsInvalid)
}

// awaitTold waits until a condition of a scale set is not True, and has the reason.
func (l *life) awaitTold(set, about, reason string) {
	l.Helper()
	l.await("the scale set "+set+" says "+reason, func() bool {
		found := meta.FindStatusCondition(l.runnerSet(set).Status.Conditions, about)
		return found != nil && found.Status != metav1.ConditionTrue && found.Reason == reason
	})
}

func (l *life) runnerSet(name string) *v1alpha1.AutoscalingRunnerSet {
	l.Helper()
	set := &v1alpha1.AutoscalingRunnerSet{}
	l.ledger.get(l.T, client.ObjectKey{Namespace: l.rig.RunnerNamespace, Name: name}, set)
	return set
}

// listenerPod returns the pod of a set's listener, an empty one without any.
func (l *life) listenerPod(set string) corev1.Pod {
	l.Helper()
	var pods corev1.PodList
	l.ledger.list(l.T, &pods, client.InNamespace(l.rig.SystemNamespace), client.MatchingLabels{
		v1alpha1.LabelComponent: v1alpha1.ComponentListener, v1alpha1.LabelScaleSetName: set,
	})
	for _, pod := range pods.Items {
		return pod
	}
	return corev1.Pod{}
}

// change gives the sets other runners, another limit and another listener, one each. The manager must not be killed
// before it has told the listener the new limit.
func (l *life) change() {
	l.Helper()
	l.rig.UpgradeSet(rig.DefaultSet, rig.Values{"template": rig.Values{
		"metadata": rig.Values{"labels": rig.Values{"changed": "yes"}},
		"spec":     rig.Values{"containers": []any{rig.Values{"name": "runner", "image": "runner:2"}}},
	}})
	configuration := func(set string) string {
		return l.listenerPod(set).Annotations["actions.github.com/listener-config-hash"]
	}
	limit, replaced := configuration(hooked), l.listenerPod(trusting).UID
	l.rig.UpgradeSet(hooked, rig.Values{
		"minRunners":    0,
		"containerMode": rig.Values{"type": "kubernetes"},
		"template":      hookedTemplate,
	})
	l.rig.UpgradeSet(trusting, rig.Values{"githubServerTLS": authority, "listenerTemplate": rig.Values{
		"metadata": rig.Values{"labels": rig.Values{"changed": "yes"}},
		"spec":     rig.Values{"containers": []any{rig.Values{"name": "listener"}}},
	}})
	l.awaitAnotherListener(trusting, replaced)
	l.await("the listener of "+hooked+" is told of its limit", func() bool { return configuration(hooked) != limit })
}

// move gives a set another address twice, while GitHub deletes nothing. A manager that starts when GitHub deletes again
// asks for both former scale sets in one call and reports them in one pass: their Events become a series. The status
// has to have the last address before the manager stops. It is written after listener and runners have the address, and
// a manager that reads the one before it deletes the first scale set alone until GitHub has answered it.
func (l *life) move() {
	l.Helper()
	back := l.disturb(fakegithub.Fault{Endpoint: "delete-scale-set", Hang: true})
	for _, address := range []string{l.rig.GitHubURL + "/second", l.rig.GitHubURL + "/third"} {
		l.rig.UpgradeSet(mistyped, rig.Values{"minRunners": 0, "githubConfigUrl": address})
		l.await("listener, runners and status have the address "+address, func() bool {
			runnerSet := &v1alpha1.EphemeralRunnerSetList{}
			l.ledger.list(l.T, runnerSet, client.InNamespace(l.rig.RunnerNamespace),
				client.MatchingLabels{v1alpha1.LabelScaleSetName: mistyped})
			registration := l.runnerSet(mistyped).Status.Registration
			return registration != nil && registration.URL == address &&
				l.listener(mistyped).Spec.GitHubConfigUrl == address && len(runnerSet.Items) == 1 &&
				runnerSet.Items[0].Spec.EphemeralRunnerSpec.GitHubConfigUrl == address
		})
	}
	l.rig.StopManager()
	back()
	l.rig.StartManager()
	l.awaitSeries(l.runnerSet(mistyped))
}

// awaitAnotherListener waits until the pod of a set's listener is another one, which polls.
func (l *life) awaitAnotherListener(set string, former types.UID) {
	l.Helper()
	l.await("another pod for the listener of "+set,
		func() bool { now := l.listenerPod(set).UID; return now != "" && now != former })
	l.rig.AwaitListening(set)
}

// refuseUninstall checks that the controller's release can't be uninstalled while there are scale sets.
func (l *life) refuseUninstall() {
	l.Helper()
	l.ledger.noteHooks(l.T)
	if err := l.rig.UninstallController(); err == nil {
		l.Fatal("the controller was uninstalled though there are scale sets")
	}
}

// protect puts the finalizer of ARC's chart on the objects of a set's release.
func (l *life) protect(set string) {
	l.Helper()
	for annotation, name := range l.runnerSet(set).Annotations {
		kind, protected := strings.CutPrefix(annotation, v1alpha1.AnnotationCleanupPrefix)
		if !protected {
			continue
		}
		object := &metav1.PartialObjectMetadata{ObjectMeta: l.named(name)}
		object.SetGroupVersionKind(protectedKinds[kind])
		patch := client.RawPatch(types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":["`+v1alpha1.FinalizerCleanupProtection+`"]}}`))
		if err := l.rig.Cluster.Client().Patch(l.Context(), object, patch); err != nil {
			l.Fatal(err)
		}
	}
}

// otherSetting returns the permissions of a scale set's chart for objects that ARC has protected: the chart doesn't know
// whether the controller uses them. And that of the controller's chart for volumes of claims, which no set here has.
func (l *life) otherSetting() []permission {
	volumes := permission{"", "", "persistentvolumes", "get"}
	if l.strips {
		return []permission{volumes}
	}
	return []permission{volumes, {l.rig.RunnerNamespace, "", "serviceaccounts", "patch"}}
}

// protectedKinds are the kinds of the objects in the annotations.
var protectedKinds = map[string]schema.GroupVersionKind{
	"github-secret-name":                   corev1.SchemeGroupVersion.WithKind("Secret"),
	"no-permission-service-account-name":   corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	"kubernetes-mode-service-account-name": corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	"kubernetes-mode-role-name":            rbacv1.SchemeGroupVersion.WithKind("Role"),
	"kubernetes-mode-role-binding-name":    rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
	"manager-role-name":                    rbacv1.SchemeGroupVersion.WithKind("Role"),
	"manager-role-binding":                 rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
}

// end uninstalls everything. If the manager strips finalizers, two sets get those of ARC's chart. GitHub is away when
// another set goes.
func (l *life) end() {
	l.Helper()
	if l.strips {
		l.protect(rig.DefaultSet)
		l.protect(hooked)
	}
	l.uninstallWithoutGitHub(proxied)
	for _, set := range []string{rig.DefaultSet, trusting, hooked, late, mistyped, vaulted} {
		l.rig.UninstallSet(set)
	}
	l.rig.AwaitUninstalled()
	if err := l.rig.UninstallController(); err != nil {
		l.Fatal(err)
	}
}

// uninstallWithoutGitHub lets GitHub answer again after it has refused a removal. It is only asked to remove a
// registered runner, and the last job's runner may be replaced late.
func (l *life) uninstallWithoutGitHub(set string) {
	l.Helper()
	const removal = "remove-runner"
	l.await("an idle runner of "+set, func() bool { return l.hasIdle(set) })
	back := l.disturb(fakegithub.Fault{Endpoint: "*", Status: http.StatusServiceUnavailable})
	before := l.rig.GitHub.Calls(removal)
	l.rig.UninstallSet(set)
	l.await("GitHub is asked to remove a runner", func() bool { return l.rig.GitHub.Calls(removal) > before })
	back()
}

// hasIdle reports whether a runner of the set waits for a job on GitHub.
func (l *life) hasIdle(set string) bool {
	snapshot := l.rig.GitHub.Snapshot()
	for _, known := range snapshot.ScaleSets {
		for _, runner := range snapshot.Runners {
			if known.Name == set && runner.ScaleSetID == known.ID && runner.Online && !runner.Busy {
				return true
			}
		}
	}
	return false
}

// disturb makes calls to GitHub go wrong until the returned function is called.
func (l *life) disturb(fault fakegithub.Fault) (end func()) {
	l.Helper()
	id, err := l.rig.GitHub.AddFault(fault)
	if err != nil {
		l.Fatal(err)
	}
	return func() { l.rig.GitHub.RemoveFault(id) }
}
