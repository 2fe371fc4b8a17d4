package autoscalingrunnerset

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/effective"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/children"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/cleanupprotection"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/conditions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/disruptionbudgets"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/holders"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/journal"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/podtemplate"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/runnerversions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

// Options of a Controller, beside those of the objects that it keeps. All are required unless they say otherwise.
type Options struct {
	children.Options
	// Connections returns clients of GitHub; see scaleset.ConnectionsOf.
	Connections scaleset.Connections
	// Pool runs the calls to GitHub.
	Pool  *pool.Pool
	Clock clock.PassiveClock
	// Version is the manager's version.
	Version string
	// StripForeignFinalizers removes ARC's finalizers from the objects of its charts.
	StripForeignFinalizers bool
	// MaxRunnersPerSet limits the runners of each set; 0 means no limit.
	MaxRunnersPerSet int
	// Watches reports whether the manager sees the sets of a namespace; nil means of all.
	Watches func(namespace string) bool
	// RunnerPod returns a pod as one of the set's runners would get, whose runner set is to be as given.
	RunnerPod func(*v1alpha1.AutoscalingRunnerSet, *v1alpha1.EphemeralRunnerSet) *corev1.Pod
	// Versions says how GitHub is asked which version of the runner it offers; empty means that it isn't.
	Versions runnerversions.Options
	// Forget is called with a set that is gone; it may be nil.
	Forget func(types.NamespacedName)
}

type (
	reconciler = reconcile.Reconciler[*v1alpha1.AutoscalingRunnerSet, memory, *world]
	kind       = reconcile.Kind[*v1alpha1.AutoscalingRunnerSet, memory, *world]
	rule       = reconcile.Rule[*world, reconcile.Step[*world]]
)

// Controller reconciles AutoscalingRunnerSets.
type Controller struct {
	*reconciler
	options    Options
	waker      reconcile.Waker
	children   *children.Keeper
	trials     *podtemplate.Trials
	budgets    *disruptionbudgets.Reader
	protection *cleanupprotection.Remover
	holders    *holders.Store
	versions   *runnerversions.Watcher
	// waiting has, by the keys of sets, the holders.ScaleSet that GitHub has and another set holds.
	waiting sync.Map
	// firstPass is the time of the first pass, which a standby makes when it leads.
	firstPass func() time.Time
	// syncs, deletions and searches have the last calls to GitHub for each AutoscalingRunnerSet.
	syncs     *pool.Calls[types.NamespacedName, scaleset.Result]
	deletions *pool.Calls[types.NamespacedName, scaleset.Deletion]
	searches  *pool.Calls[types.NamespacedName, searchResult]
}

// memory is what is remembered of a set between passes.
type memory struct {
	// written is the last write of the status. A pass that changes nothing doesn't delay the next write. described is what
	// the status should say, and has been since movedAt.
	written   report.Written
	described v1alpha1.AutoscalingRunnerSetStatus
	movedAt   time.Time
	// deregistrationStart is the time at which the deregistration began, zero while there is none.
	deregistrationStart time.Time
	// lostJobs is the highest count of lost jobs that a runner set had; it may be gone before the count is written.
	lostJobs int
	// size is the set's size as last recorded, nil if it has not been recorded.
	size *scaling
	// numbers works out which numbers of runners are in force.
	numbers effective.Plan
	// shown has the present values of the metrics.
	shown conditions.Shown
	// revision is the spec's word for the content of the credentials that was last read at its bidding, nil before the
	// first read.
	revision *string
	// accepted identifies the credentials that GitHub last accepted, and confirmed the scale set that it last agreed
	// to; see world.credentialsHash and scaleset.Result. They are empty until it has, or after it has refused.
	accepted, confirmed string
	// sawHolder is set once this process has seen another set hold what this one wants.
	sawHolder bool
	// records and recordedAs are the journal as it was last written, and the resource version that the set got by that.
	records    journal.Records
	recordedAs string
	// kept are the objects that only finalizers of others keep.
	kept kube.Kept
	// template has the fate of pods of the present template.
	template podtemplate.Memory
	// stripped is the last release of the chart whose objects have lost ARC's finalizer.
	stripped cleanupprotection.Release
}

// Pass is one pass of one set.
type Pass = reconcile.Pass[*v1alpha1.AutoscalingRunnerSet, memory]

// world is what a pass has observed, and what its steps have found out for later ones and for the status.
type world struct {
	*Pass
	conditions.Findings
	// taken is set if another set holds the scale set of GitHub's last answer.
	taken bool
	// firstPass is the time of the controller's first pass.
	firstPass time.Time
	// credentialsHash identifies the credentials in Findings.RequestHash, and where they go. It is empty if that is.
	credentialsHash string
	// released is set when the finalizer is gone, and possibly the object with it.
	released bool
}

// observe reads the objects of the set, all of them from the cache.
func (c *Controller) observe(ctx context.Context, pass *Pass) (*world, error) {
	set := pass.Object
	w := &world{Pass: pass, Findings: conditions.Findings{
		Set: set, ObservedAt: pass.Now, Numbers: pass.Memory.numbers.At(set, c.options.MaxRunnersPerSet, pass.Now),
		Accepted: c.options.ListenerPolicy.Accept(&set.Spec), Registration: journal.RegistrationOf(set),
	}, firstPass: c.firstPass()}
	w.RequeueAt(w.Numbers.Until)
	w.Unconfirmed = w.Registration != nil && set.Status.Registration == nil
	if w.Records = journal.RecordsOf(set); reconcile.IsStale(set, w.Memory.recordedAs) && !journal.IsDeregistered(set) {
		w.Records = w.Memory.records
	}
	last, _ := c.syncs.Last(w.Key)
	if !last.Running() && last.Err != nil && !last.Result.MayExist {
		w.Records = w.Records.NotAsked(last.Result.Desired.Registration())
	}
	w.Creating = w.Deleting() && last.Running()
	w.released = w.wasReleased() && len(kube.Keepers(set)) == 0 // otherwise the status says who keeps it
	var err error
	if w.Found, err = c.children.Find(ctx, set); err != nil {
		return nil, err
	}
	w.findBlocked()
	w.RunnerVersion, w.VersionExpires = c.versions.Observe(set, w.Now, w.RequeueAt)
	return w, nil
}

// findBlocked finds out whether the set's deletion, or that of an object that belongs to it, is held up by finalizers
// of others. The controllers of these objects look at what they own themselves, and say what they find in conditions.
// The first finding is the one to report.
func (w *world) findBlocked() {
	w.Memory.kept.Begin()
	look := func(kind string, object client.Object, told []metav1.Condition) {
		if keepers := kube.Keepers(object); len(keepers) > 0 {
			w.Awaited = cmp.Or(w.Awaited, kube.WhyKept(kind, client.ObjectKeyFromObject(object), keepers))
			if wait := w.Memory.kept.Look(object.GetUID(), w.Now); wait > 0 {
				w.Requeue.After(wait)
			} else {
				w.Blocked = cmp.Or(w.Blocked, w.Awaited)
			}
		}
		if c := meta.FindStatusCondition(told, v1alpha1.ConditionDeletionBlocked); c != nil &&
			c.Status == metav1.ConditionTrue {
			w.Blocked = cmp.Or(w.Blocked, c.Message)
		}
	}
	for i := range w.RunnerSets {
		look("EphemeralRunnerSet", &w.RunnerSets[i], w.RunnerSets[i].Status.Conditions)
	}
	for i := range w.Listeners {
		look("AutoscalingListener", &w.Listeners[i], w.Listeners[i].Status.Conditions)
	}
	look("AutoscalingRunnerSet", w.Set, nil)
}

// group returns the set's group in the pool. Groups take turns, so no set's calls keep another's waiting.
func (w *world) group() string { return w.Key.String() }

// wasReleased reports whether a set that is being deleted has lost the manager's finalizer.
func (w *world) wasReleased() bool {
	return w.Deleting() && !slices.Contains(w.Set.Finalizers, v1alpha1.FinalizerAutoscalingRunnerSet)
}

// recordFarewell records the Event for the listener, too: if the set's namespace is being deleted, no Event can be
// created there.
func (c *Controller) recordFarewell(ctx context.Context, w *world, event report.Event) {
	report.RecordEvent(ctx, c.options.Recorder, w.Set, nil, event)
	if listener := w.Listener(); listener != nil {
		report.RecordEvent(ctx, c.options.Recorder, listener, w.Set, event)
	}
}

// rememberJournal remembers what was written, for a pass that the cache does not show it yet.
func (w *world) rememberJournal(written *v1alpha1.AutoscalingRunnerSet) {
	w.Memory.records, w.Memory.recordedAs = w.Records, written.ResourceVersion
}

// searchResult is the result of a call that looks for a scale set.
type searchResult struct {
	// startedAt is the time at which the first of the calls started.
	startedAt time.Time
	// found is the scale set that was found, nil if GitHub has none. unsought are names that another scale set may have.
	found    *v1alpha1.ScaleSetRegistration
	unsought []scaleset.Name
}

// scaling is a set's size as last recorded: by an Event at recordedAt, or, without an Event, as the manager found it
// when it started.
type scaling struct {
	runners    int
	recordedAt time.Time
}
