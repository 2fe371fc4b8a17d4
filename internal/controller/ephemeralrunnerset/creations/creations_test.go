package creations_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
)

var (
	start        = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	errNoAnswer  = errors.New("connection reset")
	runnersGroup = schema.GroupResource{Group: "actions.github.com", Resource: "ephemeralrunners"}
	errOverQuota = apierrors.NewForbidden(runnersGroup, "", errors.New("exceeded quota"))
)

var errExists = apierrors.NewAlreadyExists(runnersGroup, "")

// Durations: pauses after failed creations, the longest of them while the API server gives no answer; the time that a
// runner may stay unseen, and the time between two lists of the runners that exist.
const (
	firstCreateBackoff, longestCreateBackoff = time.Second, time.Minute
	longestAwayBackoff                       = 10 * time.Second
	expectationTimeout, listInterval         = time.Minute, 30 * time.Second
)

// newCreations returns the creations of a set in which the given names got no answer.
func newCreations(clk clock.PassiveClock, unanswered ...string) *creations.Memory {
	c := creations.New(clk)
	tries := c.Begin(len(unanswered), nil, func() string {
		name := unanswered[0]
		unanswered = unanswered[1:]
		return name
	})
	for _, try := range tries {
		try.Asked, try.Err = true, errNoAnswer
	}
	c.End(tries)
	return c
}

// atStart is a clock that stands still.
var atStart = clocktesting.NewFakePassiveClock(start)

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
			c := newCreations(atStart, "repeated")
			tries := c.Begin(2, nil, func() string { return "new" })
			for _, try := range tries {
				try.Asked, try.Err = test.asked, test.err
			}
			c.End(tries)
			got := map[string]string{"new": not, "repeated": not}
			for name := range c.Pending() {
				got[name] = certainly
			}
			uncertain, _ := c.Uncertain()
			for _, name := range uncertain {
				got[name] = perhaps
			}
			if diff := cmp.Diff(map[string]string{"new": test.wantFirst, "repeated": test.wantRepeated},
				got); diff != "" {
				t.Errorf("runners (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPauseAfterFailedCreations(t *testing.T) {
	for name, test := range map[string]struct {
		creations *creations.Memory
		longest   time.Duration
	}{
		"refused":   {newCreations(atStart), longestCreateBackoff},
		"no answer": {newCreations(atStart, "unanswered"), longestAwayBackoff},
	} {
		t.Run(name, func(t *testing.T) {
			c := test.creations
			for i, pause := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128} {
				c.Settle(errOverQuota, start)
				due := start.Add(min(pause*firstCreateBackoff, test.longest))
				if got := c.PausedUntil(start); !got.Equal(due) || c.Allowed(start) || !c.Allowed(due) ||
					!c.PausedUntil(due).IsZero() {
					t.Errorf("failure %d: paused until %s, want %s", i+1, got, due)
				}
				if failing := i+1 >= 3; c.Failing() != failing {
					t.Errorf("failure %d: failing %t, want %t", i+1, c.Failing(), failing)
				}
			}
			if c.Settle(nil, start); c.Failing() || c.Err != nil {
				t.Errorf("after a success: %+v", c)
			}
		})
	}
}

// The next creation does not wait for it, and it is not a failure of the template.
func TestDeletionOfTheNamespaceEndsCreations(t *testing.T) {
	c := newCreations(atStart)
	c.Settle(errOverQuota, start)
	c.Settle(errors.Join(namespaceTerminates(), errNoAnswer), start)
	if c.Allowed(start.Add(time.Hour)) || !c.PausedUntil(start).IsZero() {
		t.Errorf("creations %+v", c)
	}
	c.Settle(errOverQuota, start)
	if due := start.Add(2 * firstCreateBackoff); !c.PausedUntil(start).Equal(due) {
		t.Errorf("paused until %s, want %s as after the second failure", c.PausedUntil(start), due)
	}
}

// lateCreations has runners that the watch does not show, and a clock.
type lateCreations struct {
	*testing.T
	*creations.Memory
	clock *clocktesting.FakePassiveClock
}

func newLateCreations(t *testing.T, unanswered ...string) lateCreations {
	clk := clocktesting.NewFakePassiveClock(start)
	return lateCreations{t, newCreations(clk, unanswered...), clk}
}

// wantLate checks the number of runners that are said to exist although the watch does not show them.
func (l lateCreations) wantLate(want int) {
	l.Helper()
	said := l.UnseenCondition("arc-runners").Message
	if !l.HasUnseen() || !strings.HasPrefix(said, fmt.Sprintf("%d runners ", want)) {
		l.Errorf("unseen: %t, %q; want %d", l.HasUnseen(), said, want)
	}
}

// wantUnseen observes the given runners and checks the number of others that are unseen.
func (l lateCreations) wantUnseen(want creations.Unseen, seen ...*roster.Runner) {
	l.Helper()
	l.Observe(seen)
	if got := l.Unseen(l.clock.Now()); got != want {
		l.Errorf("after %s: unseen %+v, want %+v", l.clock.Since(start), got, want)
	}
}

// wantOverdue checks the names about which the API server is asked after the given time.
func (l lateCreations) wantOverdue(after time.Duration, want ...string) {
	l.Helper()
	l.clock.SetTime(start.Add(after))
	got := l.Overdue(l.clock.Now())
	if slices.Sort(got); !slices.Equal(got, want) {
		l.Errorf("after %s: overdue %v, want %v", after, got, want)
	}
}

// What the plan does not repeat is expected until the API server turns out not to have it, unless it is wanted again
// before.
func TestWhatIsNotRepeatedIsExpectedForAWhile(t *testing.T) {
	c := newLateCreations(t, "a", "b", "c")
	c.wantUnseen(creations.Unseen{Expected: 3, Uncertain: 3})
	c.Keep(1)
	if kept, shelved := c.Uncertain(); !slices.Equal(kept, []string{"a"}) ||
		!slices.Equal(shelved, []string{"b", "c"}) {
		t.Fatalf("kept %v, shelved %v", kept, shelved)
	}
	c.wantOverdue(expectationTimeout - 1)
	c.Keep(2)
	c.wantUnseen(creations.Unseen{Expected: 3, Uncertain: 3})
	c.wantOverdue(expectationTimeout, "c")
	c.RememberListed([]string{"c"}, sets.New("a"), nil, c.clock.Now())
	c.wantUnseen(creations.Unseen{Expected: 2, Uncertain: 2})
	c.wantUnseen(creations.Unseen{Expected: 1, Uncertain: 1}, &roster.Runner{Name: "a"})
	c.Abandon()
	c.wantUnseen(creations.Unseen{Expected: 1})
	c.wantOverdue(2*expectationTimeout, "b")
}

// What the API server has stays expected for another while, and is no longer uncertain.
func TestRunnersThatExistStayExpected(t *testing.T) {
	c := newLateCreations(t, "there", "not there")
	c.wantUnseen(creations.Unseen{Expected: 2, Uncertain: 2})
	c.Keep(0)
	c.wantOverdue(expectationTimeout, "not there", "there")
	c.RememberListed([]string{"there", "not there"}, sets.New("there", "another"), nil, c.clock.Now())
	c.wantUnseen(creations.Unseen{Expected: 1})
	c.wantLate(1)
	c.wantOverdue(2*expectationTimeout - 1)
	c.wantOverdue(2*expectationTimeout, "there")
	c.RememberListed([]string{"there"}, sets.New("there"), nil, c.clock.Now())
	c.wantLate(1)
	if c.wantUnseen(creations.Unseen{}, &roster.Runner{Name: "there"}); c.HasUnseen() {
		t.Error("it is late though it was seen")
	}
}

// A failed question changes nothing, and the next one waits.
func TestOverdueRunnersAreExpectedWhileNobodySaysWhetherTheyExist(t *testing.T) {
	c := newLateCreations(t, "a")
	c.Observe(nil)
	c.Keep(0)
	for after := expectationTimeout; after <= 10*expectationTimeout; after += listInterval {
		c.wantOverdue(after, "a")
		c.RememberListed([]string{"a"}, nil, errNoAnswer, c.clock.Now())
		c.wantUnseen(creations.Unseen{Expected: 1, Uncertain: 1})
		if due := start.Add(after + listInterval); !c.HasUnseen() || !c.ListDueAt().Equal(due) {
			t.Fatalf("after %s: blind %t, next look at %s, want it at %s", after, c.HasUnseen(), c.ListDueAt(), due)
		}
		c.wantOverdue(after + listInterval - 1)
	}
	if c.wantUnseen(creations.Unseen{}, &roster.Runner{Name: "a"}); c.HasUnseen() || !c.ListDueAt().IsZero() {
		t.Errorf("blind %t, next look at %s, though it was seen", c.HasUnseen(), c.ListDueAt())
	}
}

// The watch shows the runner, and its deletion, while the API server is asked.
func TestRunnerThatIsDeletedDuringTheListIsNotExpected(t *testing.T) {
	c := newLateCreations(t, "a")
	c.Observe(nil)
	c.Abandon()
	c.wantOverdue(expectationTimeout, "a")
	c.Drop("a")
	c.RememberListed([]string{"a"}, sets.New("a"), nil, c.clock.Now())
	if c.wantUnseen(creations.Unseen{}); c.HasUnseen() {
		t.Error("it is late though it is gone")
	}
}

func TestNamesAreChosenThatNobodyHas(t *testing.T) {
	drawn := []string{"seen", "tried", "expected", "new-1", "new-1", "seen", "new-2", "new-3"}
	pick := func() string {
		name := drawn[0]
		drawn = drawn[1:]
		return name
	}
	c := newCreations(atStart, "tried")
	c.Expect("expected")
	var got []creations.Try
	for _, try := range c.Begin(3, []*roster.Runner{{Name: "seen"}}, pick) {
		got = append(got, *try)
	}
	want := []creations.Try{{Name: "tried", Repeated: true}, {Name: "new-1"}, {Name: "new-2"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tries (-want +got):\n%s", diff)
	}
	pending := c.Pending()
	for _, name := range []string{"tried", "expected", "new-1", "new-2"} {
		if _, expected := pending[name]; !expected {
			t.Errorf("%s is not expected", name)
		}
	}
}

// The watch's handler asks while a pass remembers further names.
func TestNamesAreExpectedUntilTheyAreMet(t *testing.T) {
	c := newCreations(atStart)
	c.Expect("a", "b")
	if got := c.Pending(); len(got) != 2 || !got["a"].Equal(start) {
		t.Errorf("pending %v", got)
	}
	c.Drop("a")
	c.Drop("never expected")
	if c.Expects("a") || !c.Expects("b") || len(c.Pending()) != 1 {
		t.Errorf("pending %v, want b", c.Pending())
	}
}
