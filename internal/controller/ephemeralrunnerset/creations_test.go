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
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/harrier-ci/harrier/internal/kube"
)

var errExists = apierrors.NewAlreadyExists(runnersGroup, "")

// newCreations returns creations of a set, of which those with the given names had no answer.
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
				if failing := i+1 >= degradedThreshold; c.failing() != failing {
					t.Errorf("failure %d: failing %t, want %t", i+1, c.failing(), failing)
				}
			}
			if c.settle(nil, start); c.failing() || c.err != nil {
				t.Errorf("after a success: %+v", c)
			}
		})
	}
}

// It is not waited for, nor is it a failure of the template.
func TestDeletionOfTheNamespaceEndsCreations(t *testing.T) {
	c := newCreations()
	c.settle(errOverQuota, start)
	c.settle(errors.Join(namespaceTerminates(), errNoAnswer), start)
	if c.allowed(start.Add(time.Hour)) || !c.pausedUntil(start).IsZero() || c.failures != 1 {
		t.Errorf("creations %+v", c)
	}
}

// What the plan does not repeat is expected until it would have been seen, unless it is wanted again before.
func TestWhatIsNotRepeatedIsExpectedForAWhile(t *testing.T) {
	c := newCreations("a", "b", "c")
	clock := clocktesting.NewFakePassiveClock(start)
	c.expected = kube.NewExpectations(clock)
	observe := func(want unseen, seen ...*runnerView) {
		t.Helper()
		if got := c.observe(seen, clock.Now()); got != want {
			t.Errorf("after %s: unseen %+v, want %+v", clock.Since(start), got, want)
		}
	}
	observe(unseen{expected: 3, uncertain: 3})
	c.keep(1)
	if !slices.Equal(c.unanswered, []string{"a"}) || !slices.Equal(c.shelved, []string{"b", "c"}) {
		t.Fatalf("kept %v, shelved %v", c.unanswered, c.shelved)
	}
	clock.SetTime(start.Add(expectationTimeout))
	observe(unseen{expected: 3, uncertain: 3})
	c.keep(2)
	clock.SetTime(clock.Now().Add(time.Second))
	observe(unseen{expected: 2, uncertain: 2})
	observe(unseen{expected: 1, uncertain: 1}, &runnerView{name: "a"})
	c.abandon()
	observe(unseen{expected: 1})
	clock.SetTime(clock.Now().Add(expectationTimeout + time.Second))
	observe(unseen{})
}
