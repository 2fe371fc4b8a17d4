package ephemeralrunnerset_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/registrations"
)

const (
	ourScaleSet = 5

	strayConfirmedAfter = 5 * time.Minute  // between two lists that must both have a stray
	strayPeriod         = 10 * time.Minute // between other lists
	strayRefusedPause   = time.Hour        // after GitHub has refused a list
	strayListAge        = time.Minute      // after one list had too many
	mostStraysRemoved   = 1000             // after one list
)

// registry is a GitHub that has registrations.
type registry struct {
	registrations.GitHub
	mu sync.Mutex // guards removed
	// offline are the names that are listed, refuse is the answer to a list instead, lists counts the lists.
	offline []string
	refuse  error
	lists   int
	// scaleSets says to which scale set a registration belongs, if not to ours; busy are those with a job.
	scaleSets map[string]int
	busy      []string
	removed   []string
}

func (g *registry) ListOfflineRunners(context.Context, time.Duration) (*actions.OfflineRunners, error) {
	g.lists++
	if g.refuse != nil {
		return nil, g.refuse
	}
	return &actions.OfflineRunners{Names: slices.Clone(g.offline), ListedAt: time.Now()}, nil
}

func (g *registry) GetRunnerByName(_ context.Context, name string) (*actions.RunnerReference, error) {
	id := slices.Index(g.offline, name)
	if id < 0 {
		return nil, actions.ErrRunnerNotFound
	}
	scaleSet, other := g.scaleSets[name]
	if !other {
		scaleSet = ourScaleSet
	}
	return &actions.RunnerReference{ID: id, Name: name, RunnerScaleSetID: scaleSet}, nil
}

func (g *registry) RemoveRunner(_ context.Context, id int) error {
	if slices.Contains(g.busy, g.offline[id]) {
		return actions.ErrJobStillRunning
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.removed = append(g.removed, g.offline[id])
	return nil
}

// withStrays runs a test with a set whose listener reports strays.
func withStrays(t *testing.T, test func(f *fixture, g *registry)) {
	t.Helper()
	set := newSet(0, func(set *v1alpha1.EphemeralRunnerSet) {
		set.Spec.EphemeralRunnerSpec.RunnerScaleSetID = ourScaleSet
		set.Status.Listener = &v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateListening, StrayRegistrations: 2}
	})
	inBubble(t, func(f *fixture) {
		g := &registry{scaleSets: map[string]int{}}
		f.github = func(credentials.Reference) registrations.GitHub { return g }
		test(f, g)
	}, set)
}

// look reconciles the set until nothing is left to do now, and returns the wait until it is to be reconciled again.
func (f *fixture) look() time.Duration {
	f.Helper()
	var again time.Duration
	for range 4 { // list, removals, Event
		again = f.reconcile().RequeueAfter
	}
	return again
}

// lookAgain does so after a time in which nothing else reconciles the set.
func (f *fixture) lookAgain(after time.Duration) time.Duration {
	f.Helper()
	controllertest.Elapse(after)
	return f.look()
}

// Two lists five minutes apart have to agree. Runners that exist stay, seen or not, and so does what belongs to others.
func TestStraysAreRemovedAfterTheSecondList(t *testing.T) {
	withStrays(t, func(f *fixture, g *registry) {
		f.late = true // the watch shows no runner
		if err := f.api.Create(t.Context(), beside("set-runner-exists", kube.OwnedBy(f.set()), "")); err != nil {
			t.Fatal(err)
		}
		g.offline = []string{"set-runner-stray", "set-runner-exists", "set-runner-other", "another-runner-stray"}
		g.scaleSets["set-runner-other"] = ourScaleSet + 1
		f.look()
		if g.lists != 1 || len(g.removed) != 0 {
			t.Fatalf("after %d lists, removed %v", g.lists, g.removed)
		}
		f.lookAgain(strayConfirmedAfter - time.Second)
		if g.lists != 1 {
			t.Fatalf("listed again after less than five minutes")
		}
		f.lookAgain(time.Second)
		if diff := cmp.Diff([]string{"set-runner-stray"}, g.removed); diff != "" || g.lists != 2 {
			t.Errorf("%d lists, removed (-want +got):\n%s", g.lists, diff)
		}
		if recorded := controllertest.Events(f.recorder); !slices.ContainsFunc(recorded, func(event string) bool {
			return strings.HasPrefix(event, "Normal StraysRemoved removed registration set-runner-stray from GitHub")
		}) {
			t.Errorf("Events %q", recorded)
		}
	})
}

// A runner whose connection is back, or whose registration somebody else has removed, is none.
func TestAStrayOfOneListOnlyStays(t *testing.T) {
	withStrays(t, func(f *fixture, g *registry) {
		g.offline = []string{"set-runner-aaaaa"}
		f.look()
		g.offline = []string{"set-runner-bbbbb"}
		f.lookAgain(strayConfirmedAfter)
		g.offline = []string{"set-runner-aaaaa"}
		f.lookAgain(strayConfirmedAfter)
		if g.lists != 3 || len(g.removed) != 0 {
			t.Errorf("%d lists, removed %v", g.lists, g.removed)
		}
	})
}

// A job that ran when the cluster was restored is lost with its runner: that is said, and asked about again.
func TestAStrayWithAJobIsTold(t *testing.T) {
	withStrays(t, func(f *fixture, g *registry) {
		g.offline = []string{"set-runner-aaaaa", "set-runner-bbbbb"}
		g.busy = []string{"set-runner-aaaaa"}
		f.look()
		f.lookAgain(strayConfirmedAfter)
		recorded := controllertest.Events(f.recorder)
		if len(recorded) != 2 || !strings.Contains(recorded[1],
			"Warning StrayHasJob GitHub still counts a job as running on registration set-runner-aaaaa") {
			t.Errorf("Events %q", recorded)
		}
		g.busy = nil
		f.lookAgain(strayPeriod)
		if diff := cmp.Diff([]string{"set-runner-bbbbb", "set-runner-aaaaa"},
			slices.Compact(g.removed)[:2]); diff != "" {
			t.Errorf("removed (-want +got):\n%s", diff)
		}
	})
}

// As long as GitHub's figures agree with the runners, GitHub is not asked.
func TestWithoutStraysNothingIsListed(t *testing.T) {
	withStrays(t, func(f *fixture, g *registry) {
		set := f.set()
		set.Status.Listener.StrayRegistrations = 0
		if err := f.api.Status().Update(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		f.look()
		if again := f.lookAgain(time.Hour); g.lists != 0 || again != 0 {
			t.Errorf("%d lists, the next pass in %s", g.lists, again)
		}
	})
}

func TestARefusedListIsToldOnce(t *testing.T) {
	withStrays(t, func(f *fixture, g *registry) {
		g.refuse = fmt.Errorf("list: %w", actions.ErrUnauthorized)
		if again := f.look(); again != strayRefusedPause {
			t.Errorf("asked again in %s", again)
		}
		f.lookAgain(strayRefusedPause)
		recorded := controllertest.Events(f.recorder)
		if g.lists != 2 || len(recorded) != 1 || !strings.Contains(recorded[0], "Warning StraysNotListed") ||
			!strings.Contains(recorded[0], "set-runner-…") {
			t.Errorf("%d lists, Events %q", g.lists, recorded)
		}
	})
}

func TestAFailedListIsRepeatedWithPauses(t *testing.T) {
	withStrays(t, func(f *fixture, g *registry) {
		g.refuse = errors.New("broken")
		for _, want := range []time.Duration{retryQuestionAfter, 2 * retryQuestionAfter, longestQuestionPause,
			longestQuestionPause} {
			if again := f.look(); again != want {
				t.Errorf("asked again in %s, want %s", again, want)
			}
			controllertest.Elapse(want)
		}
		if recorded := controllertest.Events(f.recorder); len(recorded) != 0 {
			t.Errorf("Events %q", recorded)
		}
	})
}

// One list may have thousands; the next one follows immediately, but not before the removals have ended.
func TestManyStraysAreRemovedInRounds(t *testing.T) {
	withStrays(t, func(f *fixture, g *registry) {
		for i := range mostStraysRemoved + 10 {
			g.offline = append(g.offline, fmt.Sprintf("set-runner-%05d", i))
		}
		f.look()
		f.lookAgain(strayConfirmedAfter)
		if len(g.removed) != mostStraysRemoved {
			t.Fatalf("removed %d", len(g.removed))
		}
		f.lookAgain(strayListAge)
		if told := controllertest.CountEvents(f.recorder, "StraysRemoved"); g.lists != 3 || told != 2 {
			t.Errorf("%d lists, %d rounds of removals have ended, want two", g.lists, told)
		}
	})
}

// Answers about a set that is gone are not kept.
func TestStraysOfASetThatIsGoneAreForgotten(t *testing.T) {
	withStrays(t, func(f *fixture, g *registry) {
		g.offline = []string{"set-runner-aaaaa"}
		f.reconcile()
		synctest.Wait()
		f.cache.gone = true
		f.reconcile()
		f.cache.gone = false
		f.reconcile()
		if g.lists != 2 {
			t.Errorf("%d lists, want another one, because the answer to the first is not kept", g.lists)
		}
	})
}

// Each report of the listener is told a single time, and none by a manager that starts long after it.
func TestJobsOfUnknownRunnersAreTold(t *testing.T) {
	withStrays(t, func(f *fixture, _ *registry) {
		tell := func(count int, at time.Time) []string {
			t.Helper()
			set := f.set()
			set.Status.Listener.UnknownRunnerJobs = &v1alpha1.UnknownRunnerJobs{Count: count, Last: "job \"build\"",
				LastAt: metav1.NewTime(at)}
			if err := f.api.Status().Update(t.Context(), set); err != nil {
				t.Fatal(err)
			}
			f.look()
			return controllertest.Events(f.recorder)
		}
		if recorded := tell(1, time.Now().Add(-10*time.Minute-time.Second)); len(recorded) != 0 {
			t.Errorf("about an old job: %q", recorded)
		}
		controllertest.Elapse(time.Second)
		if recorded := tell(3, time.Now()); len(recorded) != 1 ||
			!strings.HasPrefix(recorded[0],
				`Warning UnknownRunnerJob 3 jobs since the listener started have ended without success`) ||
			!strings.Contains(recorded[0], `job "build"`) {
			t.Errorf("about a new job: %q", recorded)
		}
	})
}
