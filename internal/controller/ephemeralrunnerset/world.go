package ephemeralrunnerset

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/rest"
	"github.com/harrier-ci/harrier/internal/capacity/effective"
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
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/feedback"
	"github.com/harrier-ci/harrier/internal/kube/nodes"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/reconcile"
	"github.com/harrier-ci/harrier/internal/registrations"
)

// GitHub is the part of the Actions service that this controller uses.
type GitHub = registrations.GitHub

// Options are what the controller needs from outside.
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
	// OtherPods are those of nobody's set; nil if they can't be watched.
	OtherPods bystanders.Source
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
	options   Options
	questions registrations.Questions
	// What the watches have shown.
	roster  *roster.Roster
	jobPods *jobpods.Pods
	leases  *leases.Leases
	nodes   *nodes.Watched
	// The rooms of the set's verbs; see rooms.
	authors    *authors.Authors
	bystanders *bystanders.Bystanders
	claims     *claims.Claims
	departures *departures.Departures
	keepers    *keepers.Keepers
	losses     *losses.Losses
	placing    *placing.Placing
	proxies    *proxy.Secrets
	snapshots  *snapshots.Snapshots
	strays     *strays.Strays
	unbound    *unbound.Claims
	ownership  *ownership.Ownership
	// waker requeues a set when a question to GitHub about one of its runners has been answered.
	waker reconcile.Waker
}

// memory is what the controller remembers of one set between passes. What a room remembers is kept there.
type memory struct {
	*scaling.History
	// uid is the set's, and scaleSet the scale set to which the runners belong; metrics carry its name. A set that ARC
	// created has another name. They never change.
	uid      types.UID
	scaleSet types.NamespacedName
	// numbers works out which numbers of runners are in force.
	numbers effective.Plan
	series  series
	// At differsSince the set was first seen to differ from its AutoscalingRunnerSet, zero while it doesn't.
	differsSince time.Time
	// reported is the last write of the status. Since changedAt the status should say something else, zero while it
	// shouldn't. described is what it should say, and has been since movedAt.
	reported           report.Written
	described          v1alpha1.EphemeralRunnerSetStatus
	changedAt, movedAt time.Time
}

// world is what a pass sees of a set, and what it has decided.
type world struct {
	*reconcile.Pass[*v1alpha1.EphemeralRunnerSet, memory]
	// pass is what the rooms see of it.
	pass *pass.Pass
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
	// lease is what the pass may do with the claims of the scale set; it has the number of runners to create.
	lease *claims.Lease
	// room is the decision of capacity.mode Placement, nil in the other mode.
	room *placing.Outcome
	// most is the number of runners that the set may have.
	most int
}

func (w *world) deleting() bool { return w.Object.DeletionTimestamp != nil }

// isReplaced reports whether a set other than the remembered one serves its scale set.
func (c *Controller) isReplaced(m *memory) (replaced bool) {
	c.EachMemory(func(_ types.NamespacedName, other *memory) {
		replaced = replaced || (other != m && other.scaleSet == m.scaleSet)
	})
	return replaced
}
