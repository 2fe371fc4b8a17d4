package ephemeralrunnerset

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube"
)

var errExists = apierrors.NewAlreadyExists(runnersGroup, "")

// newCreations returns the creations of a set in which the given names got no answer.
func newCreations(unanswered ...string) *creations {
	return &creations{set: setKey, expected: kube.NewExpectations(clocktesting.NewFakePassiveClock(start)), unanswered: unanswered}
}

// namespaceTerminates returns the answer to a creation in a namespace that is being deleted.
func namespaceTerminates() error {
	refusal := apierrors.NewForbidden(runnersGroup, "", errors.New("terminating"))
	refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return refusal
}

func TestAnswersToCreations(t *testing.T) {
	const perhaps, certainly, not = "unanswered", "expected", "not expected"
	timeout := apierrors.NewGenericServerResponse(http.StatusRequestTimeout, "create", runnersGroup, "", "", 0, true)
	for name, test := range map[string]struct {
		asked                   bool
		err                     error
		wantFirst, wantRepeated string // after a first try, and after a repeated one
	}{
		"made":                 {true, nil, certainly, certainly},
		"there already":        {true, errExists, certainly, certainly},
		"refused":              {true, errOverQuota, not, certainly},
		"no answer":            {true, errNoAnswer, perhaps, perhaps},
		"the server timed out": {true, timeout, perhaps, perhaps},
		"the server failed":    {true, apierrors.NewInternalError(errNoAnswer), perhaps, perhaps},
		"never asked for":      {false, nil, not, perhaps},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCreations("repeated")
			tries := c.begin(2, nil, func() string { return "new" })
			for _, try := range tries {
				try.asked, try.err = test.asked, test.err
			}
			c.end(tries)
			got := map[string]string{"new": not, "repeated": not}
			for name := range c.expected.Pending(setKey) {
				got[name] = certainly
			}
			for _, name := range c.unanswered {
				got[name] = perhaps
			}
			if diff := cmp.Diff(map[string]string{"new": test.wantFirst, "repeated": test.wantRepeated}, got); diff != "" {
				t.Errorf("runners (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPauseAfterFailedCreations(t *testing.T) {
	for name, test := range map[string]struct {
		creations *creations
		longest   time.Duration
	}{
		"refused":   {newCreations(), longestCreatePause},
		"no answer": {newCreations("unanswered"), longestAwayPause},
	} {
		t.Run(name, func(t *testing.T) {
			c := test.creations
			for i, pause := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128} {
				c.settle(errOverQuota, start)
				due := start.Add(min(pause*firstCreatePause, test.longest))
				if got := c.pausedUntil(start); !got.Equal(due) || c.allowed(start) || !c.allowed(due) || !c.pausedUntil(due).IsZero() {
					t.Errorf("failure %d: paused until %s, want %s", i+1, got, due)
				}
				if failing := i+1 >= failingThreshold; c.failing() != failing {
					t.Errorf("failure %d: failing %t, want %t", i+1, c.failing(), failing)
				}
			}
			if c.settle(nil, start); c.failing() || c.err != nil {
				t.Errorf("after a success: %+v", c)
			}
		})
	}
}

// The next creation does not wait for it, and it is not a failure of the template.
func TestDeletionOfTheNamespaceEndsCreations(t *testing.T) {
	c := newCreations()
	c.settle(errOverQuota, start)
	c.settle(errors.Join(namespaceTerminates(), errNoAnswer), start)
	if c.allowed(start.Add(time.Hour)) || !c.pausedUntil(start).IsZero() || c.failures != 1 {
		t.Errorf("creations %+v", c)
	}
}

// lateCreations has runners that the watch does not show, and a clock.
type lateCreations struct {
	*testing.T
	*creations
	clock *clocktesting.FakePassiveClock
}

func newLateCreations(t *testing.T, unanswered ...string) lateCreations {
	l := lateCreations{t, newCreations(unanswered...), clocktesting.NewFakePassiveClock(start)}
	l.expected = kube.NewExpectations(l.clock)
	return l
}

// wantUnseen observes the given runners and checks how many others are unseen.
func (l lateCreations) wantUnseen(want unseen, seen ...*roster.Runner) {
	l.Helper()
	l.observe(seen)
	if got := l.unseen(l.clock.Now()); got != want {
		l.Errorf("after %s: unseen %+v, want %+v", l.clock.Since(start), got, want)
	}
}

// wantOverdue checks the names about which the API server is asked after the given time.
func (l lateCreations) wantOverdue(after time.Duration, want ...string) {
	l.Helper()
	l.clock.SetTime(start.Add(after))
	got := l.overdue(l.clock.Now())
	if slices.Sort(got); !slices.Equal(got, want) {
		l.Errorf("after %s: overdue %v, want %v", after, got, want)
	}
}

// What the plan does not repeat is expected until the API server turns out not to have it, unless it is wanted again before.
func TestWhatIsNotRepeatedIsExpectedForAWhile(t *testing.T) {
	c := newLateCreations(t, "a", "b", "c")
	c.wantUnseen(unseen{expected: 3, uncertain: 3})
	c.keep(1)
	if !slices.Equal(c.unanswered, []string{"a"}) || !slices.Equal(c.shelved, []string{"b", "c"}) {
		t.Fatalf("kept %v, shelved %v", c.unanswered, c.shelved)
	}
	c.wantOverdue(expectationTimeout - 1)
	c.keep(2)
	c.wantUnseen(unseen{expected: 3, uncertain: 3})
	c.wantOverdue(expectationTimeout, "c")
	c.noteListed([]string{"c"}, sets.New("a"), nil, c.clock.Now())
	c.wantUnseen(unseen{expected: 2, uncertain: 2})
	c.wantUnseen(unseen{expected: 1, uncertain: 1}, &roster.Runner{Name: "a"})
	c.abandon()
	c.wantUnseen(unseen{expected: 1})
	c.wantOverdue(2*expectationTimeout, "b")
}

// What the API server has stays expected for another while, and is no longer uncertain.
func TestRunnersThatExistStayExpected(t *testing.T) {
	c := newLateCreations(t, "there", "not there")
	c.wantUnseen(unseen{expected: 2, uncertain: 2})
	c.keep(0)
	c.wantOverdue(expectationTimeout, "not there", "there")
	c.noteListed([]string{"there", "not there"}, sets.New("there", "another"), nil, c.clock.Now())
	c.wantUnseen(unseen{expected: 1})
	if !c.hasUnseen() || !slices.Equal(c.late, []string{"there"}) {
		t.Errorf("late are %v", c.late)
	}
	c.wantOverdue(2*expectationTimeout - 1)
	c.wantOverdue(2*expectationTimeout, "there")
	c.noteListed([]string{"there"}, sets.New("there"), nil, c.clock.Now())
	if len(c.late) != 1 {
		t.Errorf("late are %v", c.late)
	}
	if c.wantUnseen(unseen{}, &roster.Runner{Name: "there"}); c.hasUnseen() {
		t.Errorf("late are %v though it was seen", c.late)
	}
}

// A failed question changes nothing, and the next one waits.
func TestOverdueRunnersAreExpectedWhileNobodySaysWhetherTheyExist(t *testing.T) {
	c := newLateCreations(t, "a")
	c.observe(nil)
	c.keep(0)
	for after := expectationTimeout; after <= 10*expectationTimeout; after += listPeriod {
		c.wantOverdue(after, "a")
		c.noteListed([]string{"a"}, nil, errNoAnswer, c.clock.Now())
		c.wantUnseen(unseen{expected: 1, uncertain: 1})
		if due := start.Add(after + listPeriod); !c.hasUnseen() || !c.listDueAt().Equal(due) {
			t.Fatalf("after %s: blind %t, next look at %s, want it at %s", after, c.hasUnseen(), c.listDueAt(), due)
		}
		c.wantOverdue(after + listPeriod - 1)
	}
	if c.wantUnseen(unseen{}, &roster.Runner{Name: "a"}); c.hasUnseen() || !c.listDueAt().IsZero() {
		t.Errorf("blind %t, next look at %s, though it was seen", c.hasUnseen(), c.listDueAt())
	}
}

// The watch shows the runner, and its deletion, while the API server is asked.
func TestRunnerThatIsDeletedDuringTheListIsNotExpected(t *testing.T) {
	c := newLateCreations(t, "a")
	c.observe(nil)
	c.abandon()
	c.wantOverdue(expectationTimeout, "a")
	c.expected.Met(setKey, "a")
	c.noteListed([]string{"a"}, sets.New("a"), nil, c.clock.Now())
	if c.wantUnseen(unseen{}); c.hasUnseen() {
		t.Errorf("late are %v", c.late)
	}
}
