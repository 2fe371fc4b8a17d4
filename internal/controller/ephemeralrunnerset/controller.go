package ephemeralrunnerset

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/rest"
	"github.com/harrier-ci/harrier/internal/capacity/effective"
	"github.com/harrier-ci/harrier/internal/capacity/placement"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/departures"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/jobpods"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/leases"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/placing"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/versions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/feedback"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/reconcile"
	"github.com/harrier-ci/harrier/internal/registrations"
	"github.com/harrier-ci/harrier/internal/setmetrics"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// GitHub is the part of the Actions service that this controller uses.
type GitHub = registrations.GitHub

// Options has all that the controller needs from outside.
type Options struct {
	// Client reads from the manager's cache and writes to the API server.
	Client client.Client
	// Reader reads from the API server. It is asked about runners that the cache should have but doesn't.
	Reader client.Reader
	// GitHub returns the client for a scale set's credentials.
	GitHub func(context.Context, credentials.Reference) (GitHub, error)
	// REST returns the client of GitHub's REST API for a scale set's credentials.
	REST func(context.Context, credentials.Reference) (*rest.Client, error)
	// Budget limits the check runs that all sets write, and their looks at workflow runs.
	Budget *feedback.Budget
	// Proxy returns the data of the Secret that gives runners their proxy, nil if there is no proxy.
	Proxy func(context.Context, credentials.Reference) (map[string][]byte, error)
	// Pool runs the calls to GitHub.
	Pool *pool.Pool
	// Verdicts tells the runners' own controller what GitHub has said of their registrations, and which ran without a
	// job.
	Verdicts *registrations.Verdicts
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Workers is the number of sets reconciled at the same time.
	Workers int
	// MaxRunnersPerSet limits the runners of each set, whatever its spec says; 0 means no limit.
	MaxRunnersPerSet int
	// PublishMetrics turns the gauges on.
	PublishMetrics bool
	// WatchNodes is set if NodeEvents is told about nodes. Then runners without a job leave those that are about to go
	// away.
	WatchNodes bool
}

type (
	reconciler = reconcile.Reconciler[*v1alpha1.EphemeralRunnerSet, memory, *world]
	kind       = reconcile.Kind[*v1alpha1.EphemeralRunnerSet, memory, *world]
	rule       = reconcile.Rule[*world, step]
	step       = reconcile.Step[*world]
)

// Controller reconciles EphemeralRunnerSets.
type Controller struct {
	*reconciler
	options    Options
	roster     *roster.Roster
	jobPods    *jobpods.Pods
	pods       *placing.Pods
	departures *departures.Departures
	leases     *leases.Leases
	questions  registrations.Questions
	strays     *registrations.Strays
	// waker requeues a set when a question to GitHub about one of its runners has been answered.
	waker reconcile.Waker
}

// NewController returns a controller that does nothing until SetupWithManager has registered it.
func NewController(options Options) *Controller {
	c := &Controller{
		options: options, roster: roster.New(), jobPods: jobpods.New(options.Clock), pods: placing.NewPods(),
		departures: departures.New(),
		leases:     leases.New(options.Clock),
	}
	asking := registrations.Options{
		GitHub: options.GitHub, Verdicts: options.Verdicts, Reader: options.Reader,
		Pool: options.Pool, Recorder: options.Recorder, Clock: options.Clock, Wake: c.waker.Wake,
	}
	c.questions, c.strays = registrations.Questions{Options: asking}, registrations.NewStrays(asking)
	c.reconciler = reconcile.For(kind{
		Name: "EphemeralRunnerSet", New: func() *v1alpha1.EphemeralRunnerSet { return &v1alpha1.EphemeralRunnerSet{} },
		Client: options.Client, Clock: options.Clock,
		Remember: c.remember, Forget: c.forget,
		Log: func(ctx context.Context, set *v1alpha1.EphemeralRunnerSet) context.Context {
			return kube.WithScaleSetLogger(ctx, kube.ScaleSetOf(set))
		},
		Observe: c.observe,
		Rules:   c.rules(),
	})
	return c
}

// rules are the situations of a set. Lost jobs are counted in each, and no step but the finalizer's keeps another one
// from being taken.
func (c *Controller) rules() []rule {
	served := func(do step) step { return reconcile.InOrder(c.protect, reconcile.Each(c.countLost, do)) }
	return []rule{
		reconcile.When("it is being deleted, and has runners or may have some", (*world).drains,
			reconcile.Each(c.countLost, c.drain, c.tellAuthors, c.report)),
		reconcile.When("it is being deleted, and check runs still say that jobs wait for it", (*world).hasLastWords,
			reconcile.Each(c.tellAuthors, c.report)),
		reconcile.When("it is being deleted, and has none", (*world).deleting, c.release),
		reconcile.When("it belongs to no AutoscalingRunnerSet, and never will", (*world).isAbandoned,
			served(c.abandon)),
		reconcile.When("it is not what its AutoscalingRunnerSet gives it", (*world).differs, served(c.hold)),
		reconcile.Otherwise[*world]("its runners follow the jobs", served(reconcile.Each(
			c.rerunLost, c.countBeside, c.makePlan, c.applyWithClaims, c.announce, c.removeStrays, c.recordUnknownJobs,
			c.recordMoved, c.tellAuthors, c.report,
		))),
	}
}

// memory is everything that the controller remembers of one set between passes.
type memory struct {
	*scaling.History
	// scaleSet is the scale set to which the runners belong; metrics carry its name. A set that ARC created has another
	// name. It never changes.
	scaleSet types.NamespacedName
	strays   registrations.StrayMemory
	// numbers works out which numbers of runners are in force.
	numbers effective.Plan
	// kept are the runners that only finalizers of others keep.
	kept kube.Kept
	// recordedJobsAt is the end of the last job for which an Event was recorded because it ran on an unknown runner.
	recordedJobsAt time.Time
	// At lostCountedAt lost jobs were last counted.
	lostCountedAt time.Time
	visits        visits
	checks        checkMemory
	// recordedMoves has, by node, the departures for which an Event was recorded.
	recordedMoves map[string]int
	// placing is the memory of capacity.mode Placement, nil in the other mode; followsPods says to the watch of pods
	// whether it is set.
	placing *placing.Set
	// noFreeClaim: the last pass that decided about claims found none for runners that are to be created.
	noFreeClaim bool
	followsPods atomic.Bool
	// published and publishedClaims hold the states that have series, labels are those of the series that count runners
	// the way ARC does.
	published       map[roster.State]int
	publishedClaims map[claimState]int
	labels          seriesLabels
	// At differsSince the set was first seen to differ from its AutoscalingRunnerSet, zero while it doesn't.
	differsSince time.Time
	// reported is the last write of the status. Since changedAt the status should say something else, zero while it
	// shouldn't. described is what it should say, and has been since movedAt.
	reported           report.Written
	described          v1alpha1.EphemeralRunnerSetStatus
	changedAt, movedAt time.Time
	// proxyHash identifies the proxy Secret that was last applied, at proxyAppliedAt. After a failure its deletion is
	// tried again at proxyDropAt.
	proxyHash                   string
	proxyAppliedAt, proxyDropAt time.Time
	// claimsForbidden says why the manager might not change a claim. It tries again at claimsAllowedAt, after
	// claimsBackoff.
	claimsForbidden string
	claimsAllowedAt time.Time
	claimsBackoff   time.Duration
}

// remember returns the memory of a set that is new here.
func (c *Controller) remember(set *v1alpha1.EphemeralRunnerSet) *memory {
	m := &memory{History: scaling.New(creations.New(c.options.Clock)), scaleSet: kube.ScaleSetOf(set)}
	setmetrics.Hold(m.scaleSet)
	if c.options.PublishMetrics {
		for _, cause := range v1alpha1.LostCauses {
			m.begin(jobsLost, string(cause))
		}
	}
	return m
}

// begin makes series of a counter before anything is counted: the rise from no series to 1 would be none to Prometheus.
func (m *memory) begin(counter *prometheus.CounterVec, values ...string) {
	for _, value := range values {
		counter.WithLabelValues(m.scaleSet.Name, m.scaleSet.Namespace, value)
	}
}

// forget drops everything about a set that is gone, unless another set serves the same scale set now, and ends its
// metrics.
func (c *Controller) forget(set types.NamespacedName, m *memory) {
	c.strays.Forget(set, &m.strays)
	setmetrics.Release(m.scaleSet)
	if !c.isReplaced(m) {
		c.leases.Forget(m.scaleSet)
	}
}

// isReplaced reports whether a set other than the remembered one serves its scale set.
func (c *Controller) isReplaced(m *memory) (replaced bool) {
	c.EachMemory(func(_ types.NamespacedName, other *memory) {
		replaced = replaced || (other != m && other.scaleSet == m.scaleSet)
	})
	return replaced
}

// world has all that a pass sees of a set, and that it has decided.
type world struct {
	*reconcile.Pass[*v1alpha1.EphemeralRunnerSet, memory]
	// origin is the AutoscalingRunnerSet that controls the set, nil if there is none. A set that is being deleted goes
	// on if it can't be read: originErr says why.
	origin    *v1alpha1.AutoscalingRunnerSet
	originErr error
	// abandoned says why no AutoscalingRunnerSet will take back a set that has none, "" if one may; abandonedErr says why
	// that is not known.
	abandoned    string
	abandonedErr error
	// difference says why the set is not what its AutoscalingRunnerSet gives it, "" if it is.
	difference string
	// views are the set's runners, oldest first.
	views []*roster.Runner
	// departing has the runners on nodes that are about to go away.
	departing map[types.UID]departures.Departure
	// unseen counts the set's other runners, which exist or may exist. listErr says why the API server did not list
	// them; a plan can be made even so.
	unseen  creations.Unseen
	listErr error
	// specHash identifies the template from which runners are created.
	specHash string
	plan     *scaling.Plan
	// create is the number of planned runners that this pass creates.
	create int
	// leasing is the memory of the scale set's claims, nil if it has none or another runner set's pass has it; claims
	// is the decision about them, nil if there was none.
	leasing *leases.Set
	claims  *volumeclaims.Decision
	// room is the decision of capacity.mode Placement, nil in the other mode.
	room *placing.Outcome
	// most is the number of runners that the set may have, and checks is what its status is to say of check runs.
	most   int
	checks []v1alpha1.CheckRecord
}

func (w *world) deleting() bool { return w.Object.DeletionTimestamp != nil }

func (w *world) drains() bool { return w.deleting() && len(w.views)+w.unseen.Expected > 0 }

// drained reports whether the set is to take no more jobs.
func (w *world) drained() bool { return w.origin != nil && w.origin.Drained() }

// A deleted set without runners waits at most lastWordsTimeout after its deletion until its check runs are brought to
// their end: for the minute after the last update of one, and less than the uninstallation of a controller waits for
// its scale sets (90 s).
const lastWordsTimeout = 70 * time.Second

// hasLastWords reports whether a set that is being deleted still has check runs to bring to their end, and time for
// that.
func (w *world) hasLastWords() bool {
	if !w.deleting() || !slices.ContainsFunc(w.Object.Status.Checks,
		func(r v1alpha1.CheckRecord) bool { return !r.Over }) {
		return false
	}
	return w.Now.Before(w.Object.DeletionTimestamp.Add(lastWordsTimeout))
}

func (w *world) isAbandoned() bool { return w.abandoned != "" }

func (w *world) differs() bool { return w.difference != "" }

// observe finds out whose the set is and which runners it has. It remembers those facts about the runners, and those
// answers of GitHub about them, that are seen for the first time.
func (c *Controller) observe(
	ctx context.Context, p *reconcile.Pass[*v1alpha1.EphemeralRunnerSet, memory],
) (*world, error) {
	set, m := p.Object, p.Memory
	w := &world{Pass: p, views: c.roster.Of(set.UID), specHash: templateHash(set), checks: set.Status.Checks}
	origin := &v1alpha1.AutoscalingRunnerSet{}
	owned, err := kube.ReadController(ctx, c.options.Client, set, "AutoscalingRunnerSet", origin)
	if w.originErr = err; owned && err == nil {
		w.origin = origin
	}
	switch {
	case w.deleting():
		m.Creations.Abandon()
		c.countUnseen(ctx, w)
		return w, nil
	case err != nil:
		return nil, err
	case !owned:
		w.difference = "it belongs to no AutoscalingRunnerSet"
		w.abandoned, w.abandonedErr = c.whyAbandoned(ctx, set)
		return w, nil
	case !isAsGiven(set, w.origin):
		w.difference = "its runner spec is not that of AutoscalingRunnerSet " + w.origin.Name
		return w, nil
	}
	m.differsSince = time.Time{}
	w.departing = c.departures.Of(set.Namespace, w.views)
	jobWaits, due := c.jobPods.Of(set.Namespace, w.views)
	w.RequeueAt(due)
	m.Remember(scaling.Seen{
		Now: w.Now, Runners: w.views, PatchID: set.Spec.PatchID, CanceledJobs: set.Spec.CanceledJobs,
		Template:  w.specHash,
		ConfigURL: roster.ConfigURLOf(&set.Spec.EphemeralRunnerSpec), Departing: w.departing, JobWaits: jobWaits,
		Versions: versions.Of(&set.Spec.EphemeralRunnerSpec, w.origin, c.options.Verdicts.VersionOf),
	})
	if failed, cause := m.RememberAnswers(w.views); cause != nil {
		// logged a single time for all runners: it seldom concerns only one
		log.FromContext(ctx).Error(cause, "GitHub did not answer questions about runners, asking again",
			"runners", failed)
	}
	c.countUnseen(ctx, w)
	return w, nil
}

// protect adds the finalizer, without which the set would be gone before its runners. It replaces those that ARC and
// earlier builds used.
func (c *Controller) protect(ctx context.Context, w *world) error {
	err := kube.AddFinalizer(ctx, c.options.Client, w.Object, v1alpha1.FinalizerEphemeralRunnerSet,
		v1alpha1.FinalizerFormerRunnerSet)
	return client.IgnoreNotFound(err)
}

// release removes the finalizers. The set owns the proxy Secret, which is garbage collected.
func (c *Controller) release(ctx context.Context, w *world) error {
	return kube.RemoveFinalizers(ctx, c.options.Client, w.Object, v1alpha1.FinalizerEphemeralRunnerSet,
		v1alpha1.FinalizerFormerRunnerSet)
}

// The runners created last are looked for again after unseenInterval if no event has shown them.
const unseenInterval = time.Second

// drain deletes the runners of a set that is being deleted. That includes runners that were created last and are not
// visible yet. A runner with a job finishes it first: its own finalization sees to that.
func (c *Controller) drain(ctx context.Context, w *world) error {
	if len(w.views) == 0 {
		w.Requeue.After(unseenInterval)
	}
	w.RequeueAt(w.Memory.Creations.ListDueAt())
	remaining := slices.DeleteFunc(slices.Clone(w.views), func(r *roster.Runner) bool { return r.Deleting })
	return c.deleteRunners(ctx, w, remaining, false)
}

// announce decides the number of jobs for which GitHub is told that there is room, if the set announces what its
// cluster places.
func (c *Controller) announce(ctx context.Context, w *world) error {
	m, places := w.Memory, w.origin.Spec.PlacesJobs()
	m.followsPods.Store(places)
	if !places {
		m.placing = nil
		return nil
	}
	if m.placing == nil {
		status := &w.Object.Status
		m.placing = placing.Remember(cmp.Or(status.Placement, w.origin.Status.Placement), status.Capacity, w.Now)
	}
	seen := placing.Seen{
		Seen: m.Placing(w.plan), Namespace: w.Object.Namespace,
		Runners: w.views, Unplaced: c.jobPods.Unplaced(w.Object.Namespace, w.views), NoFreeClaim: m.noFreeClaim,
	}
	seen.Timeout = placement.DefaultTimeout
	if timeout := w.origin.Spec.Capacity.PlacementTimeout; timeout != nil && timeout.Duration > 0 {
		seen.Timeout = timeout.Duration
	}
	w.room = m.placing.Decide(seen, c.pods)
	w.RequeueAt(w.room.Next)
	if event, news := w.room.Event(); news {
		report.RecordEvent(ctx, c.options.Recorder, w.origin, w.Object, event)
	}
	return nil
}

// removeStrays has registrations removed that have no runner.
func (c *Controller) removeStrays(ctx context.Context, w *world) error {
	w.RequeueAt(c.strays.Remove(ctx, w.Object, &w.Memory.strays))
	return nil
}
