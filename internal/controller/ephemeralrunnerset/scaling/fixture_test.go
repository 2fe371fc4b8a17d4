package scaling_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/effective"
	"github.com/harrier-ci/harrier/internal/capacity/schedules"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/departures"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/jobpods"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/versions"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/registrations"
)

// start is the time at which every scenario in these tests begins.
var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

var (
	setKey       = types.NamespacedName{Namespace: "arc-runners", Name: "set"}
	errNoAnswer  = errors.New("connection reset")
	runnersGroup = schema.GroupResource{Group: "actions.github.com", Resource: "ephemeralrunners"}
	errOverQuota = apierrors.NewForbidden(runnersGroup, "", errors.New("exceeded quota"))
)

// Durations, as the documentation and the decisions promise them. Tests let the time pass, and ask the code for none of
// them.
const (
	// of slots: a runner that exited holds its own until a figure that is so much newer, one that failed for so long
	settleGrace, heldTimeout = 3 * time.Second, 15 * time.Minute
	// of runners that are too many: until one is removed, and while a completion may be in the figures twice
	surplusPatience, completionWindow = 30 * time.Second, 10 * time.Second
	// of runners that fail: the first pause and the longest, until one that is up is proven, and the number of them in a
	// row that makes a set Degraded
	firstBackoff, longestBackoff = 5 * time.Second, 5 * time.Minute
	provenGrace                  = 10 * time.Second
	degradedThreshold            = 3
	// of evidence
	maxFailedHistoryAge = time.Hour
	// of questions about idle runners: the wait of jobs before the first, and the time between two of them while jobs wait
	// and while they don't; none within so long after the registration
	idleGrace, askAgainInterval         = 30 * time.Second, time.Minute
	askIdleInterval, newRegistrationAge = 10 * time.Minute, time.Minute
	// of questions about others: with a job, with a completed one, exited without a known one
	askWorkingInterval, lingerGrace, askExitedInterval = 10 * time.Minute, time.Minute, 30 * time.Second
	// until an exit that GitHub has not explained is a failure, and that of a runner whose record it still has
	explanationTimeout, removalLag = 15 * time.Minute, time.Minute
	// until jobs that wait beside idle runners are doubted, and until lower figures are believed
	defaultRegistrationTimeout, figuresSettleGrace = 10 * time.Minute, 10 * time.Second
	// after a failed creation, and until the API server is asked about a runner that was created and is not seen
	firstCreateBackoff, expectationTimeout = time.Second, time.Minute
	// after a question that GitHub did not answer, and after many of them
	retryQuestionAfter, longestQuestionPause = 15 * time.Second, time.Minute
)

// A pass creates so many runners at most.
const maxCreatesPerPass = 1000

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
	*scaling.History
	now       time.Time
	patchID   int
	canceled  int
	runners   []*roster.Runner
	configURL roster.ConfigURL
	// departing has the runners on nodes that are about to go away, and jobWaits the pods of jobs that can't run.
	departing map[types.UID]departures.Departure
	jobWaits  []jobpods.Wait
	// The demand follows from the runner set's spec, the numbers in force and the plans of the AutoscalingRunnerSet.
	spec     v1alpha1.EphemeralRunnerSetSpec
	numbers  effective.Numbers
	planned  v1alpha1.PlannedCapacity
	unserved bool
	reruns   bool
	out      creations.Unseen
	made     int
	versions versions.Seen
	proven   *v1alpha1.ProvenTemplate
}

func newScenario(replicas int) *scenario {
	return &scenario{
		History: scaling.New(&creations.Memory{}), now: start, patchID: 1,
		spec:    v1alpha1.EphemeralRunnerSetSpec{Replicas: replicas, AssignedJobs: replicas, MaxRunners: new(1000)},
		numbers: inForce(0, v1alpha1.MaxRunnersUnlimited),
	}
}

// inForce returns the numbers of a set without schedules.
func inForce(least, most int) (n effective.Numbers) {
	n.Numbers = schedules.Numbers{Min: least, Max: most}
	return n
}

// want returns the demand.
func (s *scenario) want() scaling.Demand {
	want := scaling.DemandOf(&s.spec).Within(s.numbers, &s.planned)
	if s.unserved {
		want = want.Unserved()
	}
	if s.reruns {
		want = want.RerunsLost()
	}
	return want
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

// plan has the decisions of a pass.
type plan struct {
	*scaling.Plan
	// create counts the new runners that are created now, beside the repeated ones.
	create int
}

// plan plans with what is remembered.
func (s *scenario) plan() *plan { return newPlan(s.History, s.runners, s.want(), s.out) }

func newPlan(h *scaling.History, runners []*roster.Runner, want scaling.Demand, out creations.Unseen) *plan {
	p := h.Plan(runners, want, out)
	return &plan{p, max(0, h.CreateLimit(p)-p.Repeat)}
}

// pass remembers what is seen and plans at the present moment.
func (s *scenario) pass() *plan {
	s.Remember(s.seen())
	p := s.plan()
	s.Follow(p.Plan)
	return p
}

// seen returns the world that a pass sees at the present moment.
func (s *scenario) seen() scaling.Seen {
	return scaling.Seen{Now: s.now, Runners: s.runners, PatchID: s.patchID, CanceledJobs: s.canceled, Template: "template",
		ConfigURL: s.configURL, Departing: s.departing, JobWaits: s.jobWaits,
		Versions: s.versions, Proven: s.proven}
}

// status returns what the set's status says after a pass.
func (s *scenario) status(p *plan) *v1alpha1.EphemeralRunnerSetStatus {
	status := &v1alpha1.EphemeralRunnerSetStatus{}
	describe(status, s.Describe(status, newSet(s.spec.Replicas), s.runners, p.Plan))
	return status
}

// describe sets conditions in a status, as the set's pass does.
func describe(status *v1alpha1.EphemeralRunnerSetStatus, conditions []metav1.Condition) {
	report.SetConditions(&status.Conditions, 1, start, conditions...)
}

// working returns the number of runners with a job that a pass counts.
func (s *scenario) working(p *plan) int { return s.Placing(p.Plan).Working }

// doubted returns the number of jobs that are doubted, as the status says after a pass.
func (s *scenario) doubted(p *plan) int { return s.status(p).DoubtedJobs }

// degraded reports whether the set says that its runners fail.
func (s *scenario) degraded(p *plan) bool {
	return meta.IsStatusConditionTrue(s.status(p).Conditions, v1alpha1.ConditionDegraded)
}

// calls is the pool in which GitHub answers. No call is slow by its clock, which stands still.
var calls = sync.OnceValue(func() *pool.Pool {
	p := pool.New(pool.Limit, clocktesting.NewFakeClock(start))
	go func() { _ = p.Start(context.Background()) }()
	return p
})

// settle has GitHub answer a question, or leave it without an answer.
func settle(question *pool.Last[registrations.Answer], said pool.Call[registrations.Answer]) {
	done := make(chan struct{})
	question.Go(calls(), clocktesting.NewFakePassiveClock(start), setKey.String(),
		func(context.Context) (registrations.Answer, error) { return said.Result, said.Err }, func() { close(done) })
	<-done
}

func answered(said registrations.Answer) pool.Call[registrations.Answer] {
	return pool.Call[registrations.Answer]{Result: said}
}

// ask asks GitHub about a runner in the pass that has just planned. The result is there immediately.
func (s *scenario) ask(r *roster.Runner, said pool.Call[registrations.Answer]) {
	s.RememberAsked(r, false)
	settle(s.Subject(r).Question, said)
	s.RememberAnswers([]*roster.Runner{r})
}

// answer is like ask, and GitHub does answer.
func (s *scenario) answer(r *roster.Runner, said registrations.Answer) { s.ask(r, answered(said)) }

// later lets time pass.
func (s *scenario) later(d time.Duration) *scenario {
	s.now = s.now.Add(d)
	return s
}

// publish makes the listener publish a figure.
func (s *scenario) publish(replicas int) *scenario {
	s.patchID++
	s.spec.Replicas, s.spec.AssignedJobs = replicas, replicas
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

// with returns a copy of a runner with changes.
func with(r roster.Runner, change func(*roster.Runner)) roster.Runner {
	change(&r)
	return r
}

// allActions are all that a plan may do about a runner.
var allActions = []scaling.Action{
	scaling.Delete, scaling.DeleteUnregistered, scaling.Deregister, scaling.LookUp, scaling.MarkFailed,
}

// decided returns what the plan does about a runner.
func (p *plan) decided(r *roster.Runner) scaling.Action {
	for _, what := range allActions {
		if slices.Contains(p.With(what), r) {
			return what
		}
	}
	return scaling.None
}

// about returns the runners that the plan does anything about, as often as it does.
func (p *plan) about() (runners []*roster.Runner) {
	for _, what := range allActions {
		runners = append(runners, p.With(what)...)
	}
	return runners
}

// going returns the runners that the plan removes.
func (p *plan) going() []*roster.Runner {
	return slices.Concat(p.With(scaling.Delete), p.With(scaling.DeleteUnregistered), p.With(scaling.Deregister))
}

func names(runners []*roster.Runner) []string {
	var all []string
	for _, r := range runners {
		all = append(all, r.Name)
	}
	return all
}
