package ephemeralrunnerset

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/authors"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/bystanders"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/claims"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/departures"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/jobpods"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/keepers"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/leases"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/losses"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/ownership"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/pass"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/placing"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/proxy"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/snapshots"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/strays"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/unbound"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/versions"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/nodes"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/reconcile"
	"github.com/harrier-ci/harrier/internal/registrations"
	"github.com/harrier-ci/harrier/internal/setmetrics"
)

// NewController returns a controller that does nothing until SetupWithManager has registered it.
func NewController(options Options) *Controller {
	c := &Controller{
		options: options, roster: roster.New(), jobPods: jobpods.New(options.Clock), leases: leases.New(options.Clock),
		nodes:      &nodes.Watched{},
		departures: departures.New(), keepers: keepers.New(options.Client), placing: placing.New(options.Recorder),
		ownership: ownership.New(options.Client, options.Reader), unbound: unbound.New(options.Reader),
		losses:  losses.New(losses.Options{Client: options.Client, Recorder: options.Recorder, Clock: options.Clock}),
		proxies: proxy.New(proxy.Options{Client: options.Client, Proxy: options.Proxy, Clock: options.Clock}),
	}
	c.authors = authors.New(authors.Options{
		Client: options.Client, REST: options.REST, Budget: options.Budget, Pool: options.Pool, Wake: c.waker.Wake,
		Roster: c.roster, Clock: options.Clock,
	})
	c.bystanders = bystanders.New(bystanders.Options{
		Source: options.OtherPods, Tell: c.leases.Stranger, Wake: c.waker.Wake,
	})
	c.claims = claims.New(claims.Options{
		Client: options.Client, Reader: options.Reader, Recorder: options.Recorder, Clock: options.Clock,
		Nodes: c.nodes, Leases: c.leases, Roster: c.roster, Requested: c.requestedFor, Bystanders: c.bystanders,
		Newest: func(set types.UID) (string, bool) { return c.snapshots.Newest(set) },
	})
	c.snapshots = snapshots.New(snapshots.Options{
		Client: options.Client, Reader: options.Reader, Recorder: options.Recorder, Clock: options.Clock,
		Leases: c.leases, ClaimsOf: c.claims.Of,
	})
	asking := registrations.Options{
		GitHub: options.GitHub, Verdicts: options.Verdicts, Reader: options.Reader,
		Pool: options.Pool, Recorder: options.Recorder, Clock: options.Clock, Wake: c.waker.Wake,
	}
	c.questions, c.strays = registrations.Questions{Options: asking}, strays.New(asking)
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

// room is where one verb of a set is kept: with its own memory, which ends with the set.
type room interface {
	Forget(set types.UID)
}

// rooms are all of them. A new one has a line here, and one for its step in rules; if it says something in the status,
// one in descriptions.
func (c *Controller) rooms() []room {
	return []room{c.authors, c.bystanders, c.claims, c.departures, c.keepers, c.losses, c.placing, c.proxies,
		c.snapshots, c.strays, c.unbound}
}

// in returns the step of a room.
func in(do func(context.Context, *pass.Pass) error) step {
	return func(ctx context.Context, w *world) error { return do(ctx, w.pass) }
}

// rules are the situations of a set. Lost jobs are counted in each, and no step but the finalizer's keeps another one
// from being taken.
func (c *Controller) rules() []rule {
	countLost := in(c.losses.Count)
	served := func(do step) step { return reconcile.InOrder(c.protect, reconcile.Each(countLost, do)) }
	return []rule{
		reconcile.When("it is being deleted, and has runners or may have some", (*world).drains,
			reconcile.Each(countLost, c.drain, c.tellAuthors, c.report)),
		reconcile.When("it is being deleted, and check runs still say that jobs wait for it", (*world).hasLastWords,
			reconcile.Each(c.tellAuthors, c.report)),
		reconcile.When("it is being deleted, and has none", (*world).deleting, c.release),
		reconcile.When("it belongs to no AutoscalingRunnerSet, and never will", (*world).ownerless,
			served(c.abandon)),
		reconcile.When("it is not what its AutoscalingRunnerSet gives it", (*world).differs, served(c.hold)),
		reconcile.Otherwise[*world]("its runners follow the jobs", served(reconcile.Each(
			in(c.authors.Rerun), in(c.authors.Link), c.countBeside, c.makePlan, in(c.snapshots.Follow), c.lease, c.apply, c.announce, in(c.strays.Remove),
			c.tellDepartures, c.tellAuthors, c.report,
		))),
	}
}

// remember returns the memory of a set that is new here.
func (c *Controller) remember(set *v1alpha1.EphemeralRunnerSet) *memory {
	m := &memory{History: scaling.New(creations.New(c.options.Clock)), uid: set.UID, scaleSet: kube.ScaleSetOf(set)}
	setmetrics.Hold(m.scaleSet)
	if c.options.PublishMetrics {
		losses.Begin(m.scaleSet)
	}
	return m
}

// forget drops everything about a set that is gone, unless another set serves the same scale set now, and ends its
// metrics.
func (c *Controller) forget(_ types.NamespacedName, m *memory) {
	for _, room := range c.rooms() {
		room.Forget(m.uid)
	}
	setmetrics.Release(m.scaleSet)
	if !c.isReplaced(m) {
		c.leases.Forget(m.scaleSet)
	}
}

// observe finds out whose the set is and which runners it has. It remembers those facts about the runners, and those
// answers of GitHub about them, that are seen for the first time.
func (c *Controller) observe(
	ctx context.Context, p *reconcile.Pass[*v1alpha1.EphemeralRunnerSet, memory],
) (*world, error) {
	set, m := p.Object, p.Memory
	w := &world{Pass: p, views: c.roster.Of(set.UID), specHash: templateHash(set)}
	origin := &v1alpha1.AutoscalingRunnerSet{}
	owned, err := kube.ReadController(ctx, c.options.Client, set, "AutoscalingRunnerSet", origin)
	if w.originErr = err; owned && err == nil {
		w.origin = origin
	}
	w.pass = &pass.Pass{
		Set: set, ScaleSet: m.scaleSet, Origin: w.origin, OriginErr: w.originErr, Runners: w.views, Now: w.Now,
		RequeueAt: w.RequeueAt,
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
		w.abandoned, w.abandonedErr = c.ownership.WhyAbandoned(ctx, set)
		return w, nil
	case !ownership.AsGiven(set, w.origin):
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
		Unbound:  c.unbound.Of(ctx, w.pass),
		Versions: versions.Of(&set.Spec.EphemeralRunnerSpec, w.origin, c.options.Verdicts.VersionOf),
		Proven:   set.Status.ProvenTemplate,
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

// requestedFor returns the names of the runners that the runner sets of a scale set have requested and no watch has
// shown: those of this set and of those that it replaces.
func (c *Controller) requestedFor(ctx context.Context, origin *v1alpha1.AutoscalingRunnerSet) (names []string) {
	for _, request := range c.runnerSetsOf(ctx, origin) {
		if m := c.Known(request.NamespacedName); m != nil {
			for name := range m.Creations.Pending() {
				names = append(names, name)
			}
		}
	}
	return names
}

// announce decides the number of jobs for which GitHub is told that there is room, if the set announces what its
// cluster places.
func (c *Controller) announce(ctx context.Context, w *world) error {
	w.room = c.placing.Announce(ctx, w.pass, placing.Seen{
		Seen: w.Memory.Placing(w.plan), Unplaced: c.jobPods.Unplaced(w.Object.Namespace, w.views),
		NoFreeClaim: c.claims.Exhausted(w.Object.UID), AwaitPlace: w.lease.AwaitPlace(),
	})
	return nil
}

// tellDepartures tells about nodes from which runners are moved.
func (c *Controller) tellDepartures(ctx context.Context, w *world) error {
	c.departures.Tell(ctx, c.options.Recorder, w.pass, w.plan.Moved, w.departing)
	return nil
}

// tellAuthors tells the authors of jobs why these wait, and which were lost.
func (c *Controller) tellAuthors(ctx context.Context, w *world) error {
	why := ""
	if w.plan != nil {
		why = report.KnownReason(w.limit().Reason)
	}
	return c.authors.Tell(ctx, w.pass, why)
}

// lease finds out which of the planned runners may be created: all of them unless the scale set has claims. It may have
// runners removed that can't use theirs.
func (c *Controller) lease(ctx context.Context, w *world) error {
	var err error
	w.lease, err = c.claims.Decide(ctx, w.pass, claims.Need{
		Create: w.Memory.CreateLimit(w.plan), Repeated: w.plan.Repeat,
		GiveWay: func(r *roster.Runner) bool { return w.Memory.GiveWay(w.plan, r) },
	})
	w.RequeueAt(w.plan.RequeueAt)
	return err
}

func (w *world) drains() bool { return w.deleting() && len(w.views)+w.unseen.Expected > 0 }

// hasLastWords reports whether check runs are still to be brought to their end.
func (w *world) hasLastWords() bool { return authors.HasLastWords(w.Object, w.Now) }

func (w *world) ownerless() bool { return w.abandoned != "" }

func (w *world) differs() bool { return w.difference != "" }
