package autoscalinglistener

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/ignored"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/listenerpod"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/ownership"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/turns"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

// workers reconcile listeners at the same time. The first pass of a listener makes twelve requests of 2–10 ms, so ten
// workers start 200 listeners in about three seconds.
const workers = 10

// Credentials reads what a listener needs to reach GitHub. *credentials.Provider implements it.
type Credentials interface {
	Resolve(ctx context.Context, reference credentials.Reference) (*credentials.Resolved, error)
	// Invalidate makes the next Resolve read again, though not more often than every credentials.RetryBackoff.
	Invalidate(reference credentials.Reference)
	// FromListener returns the content of a listener's Secrets; see credentials.Provider.FromListener.
	FromListener(ctx context.Context, listener client.ObjectKey) (*credentials.Resolved, error)
}

// Options of a Controller. All are required unless they say otherwise.
type Options struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Reader reads Secrets, which the cache doesn't hold.
	Reader      client.Reader
	Credentials Credentials
	Recorder    events.EventRecorder
	Clock       clock.PassiveClock
	// Namespace is the manager's namespace, in which listeners run.
	Namespace string
	// WatchNamespace is the only namespace whose scale sets the manager serves. Empty means all.
	WatchNamespace string
	// Entrypoint is the command of the listener container; nil means the listener's path in our image.
	Entrypoint []string
	// Policy decides what scale sets may choose for the objects in the manager's namespace.
	Policy listenertemplate.Policy
	// LogLevel and LogFormat are passed on to listeners.
	LogLevel, LogFormat string
	// Listeners serve metrics at MetricsAddr, below MetricsEndpoint. With the address "0" or "" they serve none.
	MetricsAddr, MetricsEndpoint string
	// MetricsLabels says which labels the metrics of jobs have by default: config.MetricsLabelsFew or
	// config.MetricsLabelsARC.
	MetricsLabels string
	// AllowedGitHubURLs go into the configuration of listeners, which check addresses as the manager does.
	AllowedGitHubURLs []string
}

// Controller reconciles AutoscalingListeners.
type Controller struct {
	options Options
	ignored *ignored.Reporter
	turns   turns.Turns
	passes  *reconcile.Reconciler[*v1alpha1.AutoscalingListener, memory, *world]
}

// NewController returns a controller to be set up with a manager, or to be called through Reconcile directly.
func NewController(options Options) *Controller {
	if len(options.Entrypoint) == 0 {
		options.Entrypoint = []string{listenertemplate.DefaultProgram}
	}
	c := &Controller{
		options: options, ignored: ignored.NewReporter(options.Reader, options.Recorder, options.Namespace,
			options.WatchNamespace),
	}
	c.passes = reconcile.For(c.kind())
	return c
}

// world is what a pass has observed, and what its steps found out for later ones.
type world struct {
	*reconcile.Pass[*v1alpha1.AutoscalingListener, memory]
	// setKey is the scale set that the listener's labels name.
	setKey types.NamespacedName
	// objects are the listener's own, which are told from others that have their names.
	objects ownership.Objects
	// set is the AutoscalingRunnerSet, nil if it is gone. ignored says why the listener is not the set's, empty if it
	// is.
	set     *v1alpha1.AutoscalingRunnerSet
	ignored string
	// pod is the listener's own, nil if there is none. strays are other listener pods of the same scale set, which must
	// be gone before it starts.
	pod    *corev1.Pod
	strays []*corev1.Pod

	// resolved is what the listener needs to reach GitHub, nil if it can't be resolved because of cause.
	resolved *credentials.Resolved
	cause    error
	// secretsReady is set when the Secrets that the pod uses are as they should be. configuration is the revision of
	// the Secret that a running listener reads again when it changes, proxy that of the other, empty if there is no
	// proxy.
	secretsReady         bool
	configuration, proxy string
	// accountSince is the time at which the listener's ServiceAccount was created, zero if the cache doesn't have it.
	accountSince time.Time
	// state says what the status is to say about the pod.
	state listenerpod.State
	// failure is the error of the step that failed. cutShort is set when steps were skipped, even if only because the
	// cache was behind.
	failure  error
	cutShort bool
	// blocked says which object of the listener is kept by finalizers that the manager doesn't serve, "" if none is.
	// undecided is set while such an object has not been kept for long enough to say so.
	blocked   string
	undecided bool
	// taken is the object that has a name that the listener needs, nil if there is none.
	taken *ownership.TakenError
	// released is set when the finalizer is gone, and possibly the object with it.
	released bool
}

// memory is what is remembered of a listener between passes.
type memory struct {
	// secrets are the listener's Secrets as last written or read, by suffix.
	secrets map[string]writtenSecret
	// trusted has the credentials that GitHub has accepted last, or those that the listener had before this process;
	// nil before they were read.
	trusted *credentials.Resolved
	// ended counts the pods that ended in a row, up to the one with this UID. A pod that becomes ready resets the
	// count.
	ended    attempts
	endedPod types.UID
	// deletingSince has, by UID, the time at which each pod that is being deleted was first seen in deletion.
	deletingSince map[types.UID]time.Time
	// kept are the listener's own objects that are to be deleted and have finalizers of others.
	kept kube.Kept
	// announced is the revision of the configuration last announced on the pod, even if the patch was forbidden.
	announced string
	// news is the revision of a configuration that is still to be announced, first seen at newsAt.
	news   string
	newsAt time.Time
	// createCause says why the pod can't be created, without a reason if it can. createFailures counts the attempts in
	// a row that met it.
	createCause    listenerpod.State
	createFailures attempts
	// phrasedAt is the time at which the text of an error was last copied to the status.
	phrasedAt time.Time
	// publishedAddress is the GitHub address in the labels of the listener's series.
	publishedAddress string
}

type step = reconcile.Step[*world]

// kind has the rules that bring a listener a step closer to its spec. Whatever the spec names is written with the
// manager's rights, so only a listener that the manager wrote itself counts: it is in the manager's namespace, and is
// the one that its scale set has.
func (c *Controller) kind() reconcile.Kind[*v1alpha1.AutoscalingListener, memory, *world] {
	when, otherwise, nothing := reconcile.When[*world, step], reconcile.Otherwise[*world, step],
		reconcile.Nothing[*world]
	reported := func(steps ...step) step { return reconcile.Reported(c.report, reconcile.InOrder(steps...)) }
	return reconcile.Kind[*v1alpha1.AutoscalingListener, memory, *world]{
		Name:   "AutoscalingListener",
		New:    func() *v1alpha1.AutoscalingListener { return &v1alpha1.AutoscalingListener{} },
		Client: c.options.Client,
		Clock:  c.options.Clock,
		Remember: func(*v1alpha1.AutoscalingListener) *memory {
			return &memory{secrets: map[string]writtenSecret{}}
		},
		Gone: func(ctx context.Context, listener types.NamespacedName, _ *memory) (ctrl.Result, error) {
			unpublish(listener)
			c.turns.Return(listener)
			return ctrl.Result{}, c.deleteAbandonedPod(ctx, listener)
		},
		Log: func(ctx context.Context, listener *v1alpha1.AutoscalingListener) context.Context {
			return kube.WithScaleSetLogger(ctx, kube.LabelledSet(listener))
		},
		Observe: c.observe,
		Rules: []reconcile.Rule[*world, step]{
			when("it is being deleted", func(w *world) bool { return w.Object.DeletionTimestamp != nil },
				reported(c.finalize)),
			when("its scale set is gone", orphaned, c.deleteOrphan),
			when("it is not the listener that its scale set has", func(w *world) bool {
				return w.ignored != ""
			}, c.ignore),
			// The manager is about to write the rest, or has yet to take it over from ARC.
			when("the manager has not written all of it", incomplete, nothing),
			// The listener is deleted next. What the deletion of a namespace removed must not be recreated.
			when("its scale set is being deleted", func(w *world) bool { return w.set.DeletionTimestamp != nil },
				nothing),
			otherwise("its scale set has it", reported(c.protect, c.applyAccess, c.applySecrets, c.applyPod)),
		},
	}
}

// Reconcile makes one pass of a listener in the manager's namespace. Labels that others have written may name a
// listener elsewhere; c.ignored finds those.
func (c *Controller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if request.Namespace != c.options.Namespace {
		return ctrl.Result{}, nil
	}
	return c.passes.Reconcile(ctx, request)
}

// orphaned reports whether the manager has written the listener for a set that is gone.
func orphaned(w *world) bool {
	return w.set == nil && contradiction(w.Object) == "" && kube.WasServed(w.Object)
}

func incomplete(w *world) bool { return w.Object.Annotations[v1alpha1.AnnotationIntegrityHash] == "" }

// protect adds the finalizer, without which the pod and its Secrets would be deleted in any order.
func (c *Controller) protect(ctx context.Context, w *world) error {
	return kube.AddFinalizer(ctx, c.options.Client, w.Object, v1alpha1.FinalizerAutoscalingListener)
}

// deleteOrphan deletes a listener whose scale set is gone. Garbage collection can't, because owners can't be in another
// namespace.
func (c *Controller) deleteOrphan(ctx context.Context, w *world) error {
	if err := c.options.Client.Delete(ctx, w.Object,
		kube.UIDPrecondition(w.Object)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete AutoscalingListener without a scale set: %w", err)
	}
	return nil
}

// ignore says that nothing is done for the listener.
func (c *Controller) ignore(ctx context.Context, w *world) error {
	unpublish(w.Key)
	c.ignored.Tell(ctx, w.Object, w.ignored)
	return nil
}

// listenerOfAccess maps a Role or RoleBinding, which is in another namespace, to its listener.
var listenerOfAccess = kube.NamedByLabels(v1alpha1.LabelListenerNamespace, v1alpha1.LabelListenerName)

// SetupWithManager registers the controller and its watches.
func (c *Controller) SetupWithManager(manager ctrl.Manager) error {
	if err := manager.Add(ctrlmanager.RunnableFunc(c.ignored.Run)); err != nil {
		return fmt.Errorf("add the search for ignored listeners: %w", err)
	}
	byLabels := handler.EnqueueRequestsFromMapFunc(listenerOfAccess)
	return ctrl.NewControllerManagedBy(manager).
		Named("autoscalinglistener").
		For(&v1alpha1.AutoscalingListener{}).
		Owns(&corev1.Pod{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(listenerOfAbandoned)).
		Owns(&corev1.ServiceAccount{}).
		Watches(&rbacv1.Role{}, byLabels).
		Watches(&rbacv1.RoleBinding{}, byLabels).
		Watches(&v1alpha1.AutoscalingRunnerSet{}, handler.EnqueueRequestsFromMapFunc(c.listenersOfSet)).
		WithOptions(reconcile.ControllerOptions(workers)).
		Complete(c)
}

// listenerOfAbandoned maps a listener pod that no listener owns to the listener that had it: the pod is a stray of that
// listener's set, or nobody's.
func listenerOfAbandoned(_ context.Context, pod client.Object) []ctrl.Request {
	if !ownership.IsAbandoned(pod) {
		return nil
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(pod)}}
}

// listenersOfSet maps a scale set to its listeners. There is more than one while an older one is being deleted.
func (c *Controller) listenersOfSet(ctx context.Context, object client.Object) []ctrl.Request {
	requests, err := reconcile.Requests(ctx, c.options.Client, &v1alpha1.AutoscalingListenerList{},
		client.InNamespace(c.options.Namespace),
		ofSet(client.ObjectKeyFromObject(object)), client.UnsafeDisableDeepCopy)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Can't list listeners of scale set", "scaleSet",
			client.ObjectKeyFromObject(object))
	}
	return requests
}

// ofSet selects the objects that have a set's labels.
func ofSet(set types.NamespacedName) client.MatchingLabels {
	return client.MatchingLabels{v1alpha1.LabelScaleSetName: set.Name, v1alpha1.LabelScaleSetNamespace: set.Namespace}
}

// metricsEnabled asks the configuration, so that manager and listener agree on what "0" means.
func (c *Controller) metricsEnabled() bool {
	return (&config.Config{MetricsAddr: c.options.MetricsAddr}).MetricsEnabled()
}
