// Package authors tells the authors of jobs on GitHub what becomes of them, and has lost jobs run again: check runs about
// jobs that wait or were lost (checks.go), and reruns (reruns.go), if the scale set's user wants that; and finds out where
// GitHub has the logs of jobs (links.go). What is said and decided is in internal/feedback; here is what is remembered of a set, when GitHub is asked, and what is written down.
package authors

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/rest"
	"github.com/harrier-ci/harrier/internal/capacity/limits"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/pass"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/feedback"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/pool"
)

// Options are what authors are told with.
type Options struct {
	// Client reads from the manager's cache and writes to the API server.
	Client client.Client
	// REST returns the client of GitHub's REST API for a scale set's credentials.
	REST func(context.Context, credentials.Reference) (*rest.Client, error)
	// Budget limits the check runs that all sets write, and their looks at workflow runs.
	Budget *feedback.Budget
	// Pool runs the calls to GitHub. Wake is called with a set's name when one has been answered.
	Pool *pool.Pool
	Wake func(set types.NamespacedName)
	// Roster has the lost runners of other sets.
	Roster *roster.Roster
	Clock  clock.PassiveClock
}

// Authors tells the authors of the jobs of sets.
type Authors struct {
	options  Options
	memories pass.Memories[memory]
}

// memory is what is remembered of one set.
type memory struct {
	checkMemory
	rerunMemory
	linkMemory
	permissions feedback.Permissions
}

// rerunMemory is the memory of a set's reruns.
type rerunMemory struct {
	visits visits
	// busy counts the visits that are under way. None is begun before visitsPausedUntil.
	busy              int
	visitsPausedUntil time.Time
	// waiting counts the jobs that are not decided yet, and toldWaiting is set while an Event says that there are many.
	waiting     int
	toldWaiting bool
}

// checkMemory is the memory of a set's check runs. After a restart they are looked up on GitHub.
type checkMemory struct {
	// records is what the set's status is to say of check runs, as of the latest pass.
	records []v1alpha1.CheckRecord
	// last is the call under way, about the check run with the key current: one at a time, each of which is a few
	// requests.
	last    pool.Last[feedback.Told]
	current feedback.Key
	told    map[feedback.Key]*toldCheck
	// At pausedUntil any check run may be written again.
	pausedUntil time.Time
	// cause is the reason that the check runs give for the wait of jobs, nil before the first.
	cause *limits.Settled
}

// toldCheck is the memory of one check run.
type toldCheck struct {
	feedback.Told
	// triedAt is the time of the last attempt, whether GitHub answered or not.
	triedAt time.Time
	// failures counts failed attempts in a row; the next is made at retryAt. dropped is set if there is none.
	failures int
	retryAt  time.Time
	dropped  bool
}

// visits has the memory of each workflow run with lost jobs. After a restart each is visited again, which does no harm.
type visits map[feedback.Run]*visit

type visit struct {
	last *pool.Last[*feedback.Sighting]
	// intents are the runners whose reruns the last visit has asked for, or would have.
	intents sets.Set[string]
}

// New returns Authors that remember no set.
func New(options Options) *Authors { return &Authors{options: options} }

// Forget drops what is remembered of a set that is gone.
func (a *Authors) Forget(set types.UID) { a.memories.Forget(set) }

// DescribeLeft writes into the status of a set that is being deleted what it is to say of check runs, after Tell.
func (a *Authors) DescribeLeft(p *pass.Pass) []metav1.Condition {
	p.Set.Status.Checks = a.memories.Of(p.Set.UID).records
	return nil
}

// Describe writes into the status what it is to say of check runs, after Tell, and returns the condition that says which
// permission feedback lacks, none if none ever was missing.
func (a *Authors) Describe(p *pass.Pass) []metav1.Condition {
	m := a.memories.Of(p.Set.UID)
	p.Set.Status.Checks, p.Set.Status.RerunsWaiting = m.records, m.waiting
	refused, known, until := m.permissions.Refusal(*cmp.Or(p.Origin.Spec.Feedback, &v1alpha1.Feedback{}), p.Now)
	before := meta.FindStatusCondition(p.Set.Status.Conditions, v1alpha1.ConditionFeedbackPermitted)
	if refused != "" || before != nil {
		p.RequeueAt(until)
	}
	switch {
	case refused != "":
		return []metav1.Condition{report.False(v1alpha1.ConditionFeedbackPermitted, v1alpha1.ReasonPermissionMissing,
			refused+
				"; give the App or token the permission (an owner of the organization must accept it) and the "+
				"repository, if it is not archived, or remove the value")}
	case before != nil && known:
		return []metav1.Condition{report.True(v1alpha1.ConditionFeedbackPermitted, "Permitted",
			"GitHub refuses nothing that feedback asks for")}
	}
	return nil
}
