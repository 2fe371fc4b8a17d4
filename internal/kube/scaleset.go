package kube

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

// ScaleSetOf returns the scale set that the labels of a runner or runner set name. Whoever may create these in one
// namespace chooses their labels, so labels that name another namespace don't count: such an object is a scale set of
// its own, as one without labels is. It must not share another set's turn in the pool, its limit of Events or its
// series.
func ScaleSetOf(object client.Object) types.NamespacedName {
	labels := object.GetLabels()
	if name := labels[v1alpha1.LabelScaleSetName]; name != "" &&
		cmp.Or(labels[v1alpha1.LabelScaleSetNamespace], object.GetNamespace()) == object.GetNamespace() {
		return types.NamespacedName{Namespace: object.GetNamespace(), Name: name}
	}
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// ReadController reads the object of a kind of ours that controls another one into controller. It returns false if
// there is none, or one of the same name with another UID: that controls nothing of its predecessor's.
func ReadController(
	ctx context.Context, reader client.Reader, of client.Object, kind string, controller client.Object,
	options ...client.GetOption,
) (bool, error) {
	reference := metav1.GetControllerOfNoCopy(of)
	if reference == nil || reference.Kind != kind {
		return false, nil
	}
	err := reader.Get(ctx, client.ObjectKey{Namespace: of.GetNamespace(), Name: reference.Name}, controller, options...)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("get %s %s: %w", kind, reference.Name, err)
	}
	return controller.GetUID() == reference.UID, nil
}

// LabelledSet returns the scale set that an object's labels name, which may be in another namespace. It is for
// listeners and what belongs to them: these live in the manager's namespace, and other things must show, too, whose
// they are.
func LabelledSet(object client.Object) types.NamespacedName {
	labels := object.GetLabels()
	return types.NamespacedName{
		Namespace: labels[v1alpha1.LabelScaleSetNamespace],
		Name:      labels[v1alpha1.LabelScaleSetName],
	}
}

// ScaleSetLabels returns the labels that mark an object as belonging to the scale set, in the given role.
func ScaleSetLabels(set *v1alpha1.AutoscalingRunnerSet, component string) map[string]string {
	return map[string]string{
		v1alpha1.LabelPartOf:            v1alpha1.PartOfScaleSet,
		v1alpha1.LabelComponent:         component,
		v1alpha1.LabelScaleSetName:      set.Name,
		v1alpha1.LabelScaleSetNamespace: set.Namespace,
	}
}

// ScopeLabels returns labels with the enterprise, organization or repository of an address, none for an invalid
// address.
func ScopeLabels(address string) map[string]string {
	url, err := actions.ParseConfigURL(address)
	if err != nil {
		return nil
	}
	labels := map[string]string{
		v1alpha1.LabelEnterprise:   LabelValue(url.Enterprise),
		v1alpha1.LabelOrganization: LabelValue(url.Organization),
		v1alpha1.LabelRepository:   LabelValue(url.Repository),
	}
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	return labels
}

// NamedByLabels returns a function that maps an object to the object that two of its labels name. That may live in
// another namespace, where no owner reference can point. An object without the name maps to nothing.
func NamedByLabels(namespaceLabel, nameLabel string) handler.MapFunc {
	return func(_ context.Context, object client.Object) []reconcile.Request {
		labels := object.GetLabels()
		if labels[nameLabel] == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{
			Namespace: labels[namespaceLabel], Name: labels[nameLabel],
		}}}
	}
}

// keyScaleSet names the scale set, as NAMESPACE/NAME, in the log lines of controllers, of calls to GitHub and of
// listeners, so that all of them can be filtered by it.
const keyScaleSet = "scaleSet"

// WithScaleSetLogger returns a context whose logger adds the scale set, and the keys and values in more, to each line.
func WithScaleSetLogger(ctx context.Context, set types.NamespacedName, more ...any) context.Context {
	return ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues(append([]any{keyScaleSet, set.String()}, more...)...))
}

// Registration returns the place at which an AutoscalingRunnerSet is registered on GitHub: according to its status or,
// if ARC registered it, to ARC's annotations. It returns nil if it is registered nowhere. The result is the caller's
// own.
func Registration(set *v1alpha1.AutoscalingRunnerSet) *v1alpha1.ScaleSetRegistration {
	if set.Status.Registration != nil {
		return set.Status.Registration.DeepCopy()
	}
	id, err := strconv.Atoi(set.Annotations[v1alpha1.AnnotationRunnerScaleSetID])
	if err != nil || id <= 0 {
		return nil
	}
	return &v1alpha1.ScaleSetRegistration{
		URL:   set.Spec.GitHubConfigUrl,
		ID:    id,
		Group: set.Annotations[v1alpha1.AnnotationRunnerGroupName],
		Name:  set.Annotations[v1alpha1.AnnotationRunnerScaleSetName],
	}
}

// RunnerSpec returns the spec of an AutoscalingRunnerSet's runners: their pods, and the place at which they register.
// Its EphemeralRunnerSet must have the same. The id is the scale set's on GitHub.
func RunnerSpec(set *v1alpha1.AutoscalingRunnerSet, scaleSetID int) v1alpha1.EphemeralRunnerSpec {
	spec := &set.Spec
	return v1alpha1.EphemeralRunnerSpec{
		GitHubConfigUrl:                     spec.GitHubConfigUrl,
		GitHubConfigSecret:                  spec.GitHubConfigSecret,
		GitHubServerTLS:                     spec.GitHubServerTLS,
		RunnerScaleSetID:                    scaleSetID,
		Proxy:                               spec.Proxy,
		VaultConfig:                         spec.VaultConfig,
		EphemeralRunnerConfigSecretMetadata: spec.EphemeralRunnerConfigSecretMetadata,
		RunnerTimeouts:                      spec.RunnerTimeouts,
		PodMetadata:                         spec.Template.ObjectMeta,
		PodSpec:                             spec.Template.Spec,
	}
}

// RunnerSpecHash identifies what an EphemeralRunnerSet says of its runners. The AutoscalingRunnerSet keeps it in its
// status, which a listener can't write.
func RunnerSpecHash(spec *v1alpha1.EphemeralRunnerSetSpec) string {
	return Hash(struct {
		Spec     v1alpha1.EphemeralRunnerSpec
		Metadata *v1alpha1.ResourceMeta
	}{spec.EphemeralRunnerSpec, spec.EphemeralRunnerMetadata})
}

// SortListeners sorts the listeners that have the labels of a set: the first is the set's own, and no other counts. One
// that a manager has served, and so has our finalizer, precedes those that somebody else has labelled. ARC left several
// of its own if their names changed; then the name that is right today precedes.
func SortListeners(set *v1alpha1.AutoscalingRunnerSet, listeners []v1alpha1.AutoscalingListener) {
	names := append(ListenerNames(set), ARCListenerName(set))
	position := func(name string) int {
		if at := slices.Index(names, name); at >= 0 {
			return at
		}
		return len(names)
	}
	slices.SortFunc(listeners, func(a, b v1alpha1.AutoscalingListener) int {
		return cmp.Or(
			cmp.Compare(rank(!WasServed(&a)), rank(!WasServed(&b))),
			cmp.Compare(position(a.Name), position(b.Name)),
			NewestFirst(&a, &b),
		)
	})
}

// WasServed reports whether a manager, ours or ARC's, has made anything for a listener. It adds its finalizer before
// that.
func WasServed(listener *v1alpha1.AutoscalingListener) bool {
	return slices.Contains(listener.Finalizers, v1alpha1.FinalizerAutoscalingListener)
}

// maxName is the longest name, in characters, that is also a valid label value and host name.
const maxName = 63

// EnvManagerNamespace is the environment variable in which the chart passes the manager its namespace.
const EnvManagerNamespace = "CONTROLLER_MANAGER_POD_NAMESPACE"

// NameHash returns the eight characters by which ARC distinguishes objects whose names would collide.
func NameHash(text string) string {
	hash := fnv.New32a()
	hash.Write([]byte(text))
	encoded := rand.SafeEncodeString(fmt.Sprint(hash.Sum32()))
	return encoded[:min(8, len(encoded))]
}

// A listener's name has one of listenerDigits digits of the hash: 16, which nobody makes two sets share, and 32 should
// somebody else's listener have that name all the same.
var listenerDigits = []int{16, 32}

// ListenerNames returns the names that a new AutoscalingListener may have, in the order in which to try them. The
// objects that belong to it have the same name. Listeners are found by their labels, so nothing else depends on it, and
// those that exist keep the names that they have.
func ListenerNames(set *v1alpha1.AutoscalingRunnerSet) []string {
	digest := sha256.New()
	for _, part := range []string{set.Namespace, set.Name, set.Spec.RunnerGroup, set.Spec.GitHubConfigUrl} {
		// The lengths mark the end of each part; a hash takes every write.
		_, _ = fmt.Fprintf(digest, "%d:%s", len(part), part)
	}
	hash := hex.EncodeToString(digest.Sum(nil))
	var names []string
	for _, digits := range listenerDigits {
		suffix := "-" + hash[:digits] + "-listener"
		names = append(names, strings.TrimRight(set.Name[:min(len(set.Name), maxName-len(suffix))], "-.")+suffix)
	}
	return names
}

// ARCListenerName returns the name that ARC gives the set's listener, as did this manager before ListenerNames: 32 bits
// of hash, for which two sets of one name can be found within a minute.
func ARCListenerName(set *v1alpha1.AutoscalingRunnerSet) string {
	suffix := "-" + NameHash(set.Namespace+"@"+set.Spec.RunnerGroup+"@"+set.Spec.GitHubConfigUrl) + "-listener"
	return shortened(set.Name, maxName-len(suffix)) + suffix
}

// RunnerProxySecretName returns the name of the Secret from which a set's runners have their proxy. ARC uses the same.
func RunnerProxySecretName(runnerSet, namespace string) string {
	suffix := "-" + NameHash(namespace) + "-runner-proxy"
	return shortened(runnerSet, maxName-len(suffix)) + suffix
}

// shortened returns name if it has at most limit characters, else its beginning with a hash of the whole.
func shortened(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	hash := NameHash(name)
	return strings.TrimRight(name[:limit-len(hash)-1], "-.") + "-" + hash
}

// A runner's name ends with randomCharacters random characters. Five of 27 make 14 million names: without a check, one
// in two bursts of 5,000 runners would have two of the same name.
const randomCharacters = 5

// maxRunnerName is the longest name of a runner. Container hooks name a job's pod by what they cut from its runner's
// name, so that with "-workflow" it has 63 characters. The random characters come last: cut off, they would let two
// jobs want one pod.
const maxRunnerName = maxName - len("-workflow")

// runnerInfix is between the name of the set and the random characters of a runner's name.
const runnerInfix = "-runner-"

// RunnerName returns a new name for a runner of the set. Two names of a set differ in their first maxRunnerName
// characters, which are all that they have.
func RunnerName(runnerSet string) string {
	return RunnerPrefix(runnerSet) + rand.String(randomCharacters)
}

// RunnerPrefix returns the beginning of the names of the set's new runners and of the objects named after them. It is
// ARC's, and has a hash inside from 42 characters of the set's name on: whatever the set is called, and whoever called
// it so, its runners' names fit.
func RunnerPrefix(runnerSet string) string {
	return shortened(runnerSet, maxRunnerName-len(runnerInfix)-randomCharacters) + runnerInfix
}

// IsRunnerName reports whether a name is one that the set gives its runners, or gave them before names had a hash from
// 42 characters on.
func IsRunnerName(runnerSet, name string) bool {
	former := shortened(runnerSet, maxName-len(runnerInfix)-randomCharacters) + runnerInfix
	return strings.HasPrefix(name, RunnerPrefix(runnerSet)) || strings.HasPrefix(name, former)
}

// Labels returns the union of the label sets without the keys that start with an excluded prefix. Later sets win. The
// labels by which the manager finds its objects can't be excluded; so that they can't be overridden either, callers
// pass them last.
func Labels(excludedPrefixes []string, sets ...map[string]string) map[string]string {
	merged := map[string]string{}
	for _, set := range sets {
		maps.Copy(merged, set)
	}
	maps.DeleteFunc(merged, func(key, _ string) bool {
		return key != v1alpha1.LabelScaleSetName && key != v1alpha1.LabelScaleSetNamespace &&
			hasAnyPrefix(key, excludedPrefixes)
	})
	return merged
}

// pruningDomains are the domains of the labels and annotations of installers that delete whatever has them and isn't
// installed any more, whether or not it has an owner: kubectl's ApplySets, kapp, Rancher's Fleet and k3s, Config Sync,
// Kubernetes' add-on manager, and what is built on cli-utils.
var pruningDomains = []string{
	"applyset.kubernetes.io", "kapp.k14s.io", "fleet.cattle.io", "objectset.rio.cattle.io", "configsync.gke.io",
	"configmanagement.gke.io", "addonmanager.kubernetes.io", "cli-utils.sigs.k8s.io",
}

// installerDomains are the domains of the labels and annotations by which installers, and the selectors that they
// install, find what is theirs. Argo CD leaves alone what has an owner, and Flux and Helm keep lists of what they have
// installed.
var installerDomains = append(
	[]string{"app.kubernetes.io", "argocd.argoproj.io", "helm.sh", "toolkit.fluxcd.io"}, pruningDomains...,
)

// OfInstaller reports whether a label or annotation says who installed an object. An object made from another must not
// repeat it: Argo CD would delete it, and selectors of the controller's own chart would take it for one of the
// controller's.
func OfInstaller(key string) bool {
	return inAnyDomain(key, installerDomains)
}

// ForPruning reports whether a label or annotation is one for which an installer deletes an object that has an owner,
// too. Nothing that is made from another object has it, in whatever namespace.
func ForPruning(key string) bool {
	return inAnyDomain(key, pruningDomains)
}

// InDomain reports whether the key of a label or annotation belongs to a domain or to one below it. Case makes no
// difference: the API server takes keys of annotations in any.
func InDomain(key, domain string) bool { return inAnyDomain(key, []string{domain}) }

// inAnyDomain is InDomain for several domains. It splits the key a single time: an object may have thousands of them.
func inAnyDomain(key string, domains []string) bool {
	prefix, _, found := strings.Cut(key, "/")
	if !found {
		return false
	}
	prefix = strings.ToLower(prefix)
	return slices.ContainsFunc(domains, func(domain string) bool {
		above, ok := strings.CutSuffix(prefix, domain)
		return ok && (above == "" || strings.HasSuffix(above, "."))
	})
}

// Annotations returns the union of the annotation sets. Later sets win.
func Annotations(sets ...map[string]string) map[string]string {
	merged := map[string]string{}
	for _, set := range sets {
		maps.Copy(merged, set)
	}
	return merged
}

var notInLabelValue = regexp.MustCompile(`[^A-Za-z0-9_.-]`)

// LabelValue turns a text into a valid label value as ARC does: if it is too long, 58 characters and "-trim", and no
// punctuation at either end. Invalid characters, which ARC leaves in, become underscores.
func LabelValue(text string) string {
	value := notInLabelValue.ReplaceAllString(text, "_")
	if len(value) > maxName {
		value = strings.Trim(value[:58], "-_.") + "-trim"
	}
	return strings.Trim(value, "-_.")
}

// Metadata returns the labels and annotations of meta, which may be nil.
func Metadata(meta *v1alpha1.ResourceMeta) (labels, annotations map[string]string) {
	if meta == nil {
		return nil, nil
	}
	return meta.Labels, meta.Annotations
}

func hasAnyPrefix(key string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if prefix != "" && strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// HasServer reports whether a listener of ours serves a runner set, so that its number of jobs counts. A listener that
// has a session and no status is ours, too: the CustomResourceDefinitions of ARC or of an earlier release drop that
// status and the number of jobs with it, and leave its own sum, replicas.
func HasServer(set *v1alpha1.EphemeralRunnerSet) bool {
	return set.Annotations[v1alpha1.AnnotationListenerSession] != "" &&
		(set.Status.Listener != nil || set.Spec.Replicas <= 0)
}

// TakesNoJobs reports whether a set is to take no more jobs, as far as its spec and status say: then its listener closes
// its session with GitHub.
func TakesNoJobs(set *v1alpha1.AutoscalingRunnerSet) bool {
	inForce := set.Status.EffectiveMaxRunners
	return set.Drained() || (inForce != nil && *inForce == 0)
}

// SessionClosed reports whether a set's condition about its listener, nil if there is none, says that the session is
// closed because the set takes no jobs.
func SessionClosed(listens *metav1.Condition) bool {
	return listens != nil && listens.Status == metav1.ConditionTrue &&
		(listens.Reason == v1alpha1.ReasonDrained || listens.Reason == v1alpha1.ReasonMaxRunnersZero)
}
