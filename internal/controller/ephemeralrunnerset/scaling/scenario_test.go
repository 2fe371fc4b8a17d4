package scaling

import (
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/demand"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/departures"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
)

// start is the time at which every scenario in these tests begins.
var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

var (
	setKey       = types.NamespacedName{Namespace: "arc-runners", Name: "set"}
	errNoAnswer  = errors.New("connection reset")
	runnersGroup = schema.GroupResource{Group: "actions.github.com", Resource: "ephemeralrunners"}
	errOverQuota = apierrors.NewForbidden(runnersGroup, "", errors.New("exceeded quota"))
)

// How long things take that other rooms decide, for tests that let the time pass.
const (
	surplusPatience    = 30 * time.Second // until a runner that is too many is removed
	figuresSettleGrace = 10 * time.Second // until lower figures are believed
	firstCreateBackoff = time.Second      // after a failed creation
	// until the API server is asked about a runner that was created and is not seen
	expectationTimeout = time.Minute
	retryQuestionAfter = 15 * time.Second // after a question that GitHub did not answer
)

// newSet returns a set that wants the given number of runners.
func newSet(replicas int) *v1alpha1.EphemeralRunnerSet {
	set := &v1alpha1.EphemeralRunnerSet{Spec: v1alpha1.EphemeralRunnerSetSpec{Replicas: replicas,
		AssignedJobs: replicas,
		PatchID:      1}}
	set.Namespace, set.Name = setKey.Namespace, setKey.Name
	return set
}

// scenario takes a set's history through passes at chosen moments, the way Reconcile does.
type scenario struct {
	*History
	now       time.Time
	patchID   int
	runners   []*roster.Runner
	configURL roster.ConfigURL
	// departing has the runners on nodes that are about to go away.
	departing map[types.UID]departures.Departure
	want      Demand
	out       creations.Unseen
	made      int
}

func newScenario(replicas int) *scenario {
	return &scenario{
		History: New(&creations.Memory{}), now: start, patchID: 1,
		want: Demand{
			replicas: replicas, assignedJobs: replicas, inForce: v1alpha1.MaxRunnersUnlimited, maxRunners: 1000,
			failedHistoryLimit: defaultFailedHistoryLimit, registrationTimeout: defaultRegistrationTimeout,
			scaleDownDelay: demand.DefaultScaleDownDelay,
		},
	}
}

// add adds n runners in the given state and returns the last one.
func (s *scenario) add(n int, shape roster.Runner) *roster.Runner {
	var last *roster.Runner
	for range n {
		s.made++
		r := shape
		r.Name = fmt.Sprintf("runner-%d", s.made)
		r.UID = types.UID(r.Name)
		if r.CreatedAt.IsZero() {
			r.CreatedAt = s.now
		}
		s.runners = append(s.runners, &r)
		last = &r
	}
	return last
}

// pass notes and plans at the present moment.
func (s *scenario) pass() *Plan {
	s.Remember(s.seen())
	p := s.History.Plan(s.runners, s.want, s.out)
	s.Follow(p)
	return p
}

// seen returns the world that a pass sees at the present moment.
func (s *scenario) seen() Seen {
	return Seen{Now: s.now, Runners: s.runners, PatchID: s.patchID, Template: "template", ConfigURL: s.configURL,
		Departing: s.departing}
}

// later lets time pass.
func (s *scenario) later(d time.Duration) *scenario {
	s.now = s.now.Add(d)
	return s
}

// publish makes the listener publish a figure.
func (s *scenario) publish(replicas int) *scenario {
	s.patchID++
	s.want.replicas, s.want.assignedJobs = replicas, replicas
	return s
}

// Runners in the states that matter.
var (
	starting = roster.Runner{}
	idle     = roster.Runner{Phase: v1alpha1.EphemeralRunnerPhaseRunning, RegistrationID: 7}
	busyOne  = roster.Runner{Phase: v1alpha1.EphemeralRunnerPhaseRunning, RegistrationID: 7, HadJob: true,
		JobPatchID: 1}
	succeeded = roster.Runner{Phase: v1alpha1.EphemeralRunnerPhaseSucceeded, RegistrationID: 7, HadJob: true}
	failedJob = roster.Runner{Phase: v1alpha1.EphemeralRunnerPhaseFailed, RegistrationID: 7, HadJob: true}
	failedOne = roster.Runner{Phase: v1alpha1.EphemeralRunnerPhaseFailed, Reason: "ErrImagePull",
		Message: "no such image"}
	outdated  = roster.Runner{Phase: v1alpha1.EphemeralRunnerPhaseOutdated}
	lingering = roster.Runner{Phase: v1alpha1.EphemeralRunnerPhaseRunning, RegistrationID: 7, HadJob: true,
		Completed: true, JobPatchID: 1}
)

// going returns the runners that the plan removes.
func (p *Plan) going() []*roster.Runner {
	return slices.Concat(p.With(Delete), p.With(DeleteUnregistered), p.With(Deregister))
}

func names(runners []*roster.Runner) []string {
	var all []string
	for _, r := range runners {
		all = append(all, r.Name)
	}
	return all
}
