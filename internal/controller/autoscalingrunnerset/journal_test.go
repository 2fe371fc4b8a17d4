package autoscalingrunnerset_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/credentials"
)

// recordedFirst fails the test if a scale set is created that the set's status doesn't say may be.
type recordedFirst struct {
	*fakeGitHub
	f *fixture
}

func (g recordedFirst) GitHub(ctx context.Context, reference credentials.Reference) (scaleset.GitHub, error) {
	github, err := g.fakeGitHub.GitHub(ctx, reference)
	if err != nil {
		return nil, err
	}
	return recordedFirstAt{github.(controllertest.ScaleSetsAt), g.f}, nil
}

type recordedFirstAt struct {
	controllertest.ScaleSetsAt
	f *fixture
}

func (g recordedFirstAt) CreateRunnerScaleSet(
	ctx context.Context, wanted *actions.RunnerScaleSet,
) (*actions.RunnerScaleSet, error) {
	if want := "Asked " + wanted.Name + " at " + g.URL; !slices.Contains(g.f.journal(), want) {
		g.f.Errorf("GitHub is asked to create a scale set, and the journal says %q, want %q", g.f.journal(), want)
	}
	return g.ScaleSetsAt.CreateRunnerScaleSet(ctx, wanted)
}

// journal returns what the status says of scale sets.
func (f *fixture) journal() (lines []string) {
	f.Helper()
	for _, r := range f.set().Status.Registrations {
		if r.UID != "set-uid" || r.Since.IsZero() {
			f.Errorf("record %+v, want the set's UID, and a time", r)
		}
		line := fmt.Sprintf("%s %s at %s", r.State, r.Name, r.URL)
		if r.ID != 0 {
			line += fmt.Sprintf(" with id %d", r.ID)
		}
		lines = append(lines, line)
	}
	return lines
}

func (f *fixture) wantJournal(want ...string) {
	f.Helper()
	if got := f.journal(); !slices.Equal(got, want) {
		f.Errorf("the journal says %q, want %q", got, want)
	}
}

func TestScaleSetIsRecordedBeforeItIsCreated(t *testing.T) {
	for name, test := range map[string]func(f *fixture){
		"a new set": func(*fixture) {},
		"at another address": func(f *fixture) {
			f.move(newAddress)
			f.settle()
		},
		"in place of one that is lost": func(f *fixture) {
			f.listening()
			f.github.loseState()
			f.reportLost()
			f.settle()
			f.settle()
		},
		"after GitHub was away": func(f *fixture) {
			f.github.Fail(errors.New("connection refused"))
			f.move(newAddress)
			f.settle()
			f.github.Fail(nil)
			controllertest.Elapse(time.Minute)
			f.settle()
		},
		"under another name after a lost answer": func(f *fixture) {
			f.github.LoseCreation = true
			f.move(newAddress)
			f.reconcile()
			f.github.LoseCreation = false
			clear(f.github.Sets[newAddress])
			f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.RunnerScaleSetName = "second" })
			f.settle()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.change = func(o *autoscalingrunnerset.Options) { o.Connections = recordedFirst{f.github, f} }
				f.restart()
				f.create(newSet())
				f.settle()
				test(f)
				registered := f.set().Status.Registration
				f.wantJournal(fmt.Sprintf("Current %s at %s with id %d", registered.Name, registered.URL, registered.ID))
				if there := f.github.Sets[registered.URL]; len(there) != 1 ||
					there[registered.ID].Name != registered.Name {
					t.Errorf("registration %+v, on GitHub %+v", registered, there)
				}
			})
		})
	}
}

// TestManagerThatIsKilledLeavesNothingOnGitHub: whether it was killed before or after GitHub has created the scale set,
// and whether that was the set's first one.
func TestManagerThatIsKilledLeavesNothingOnGitHub(t *testing.T) {
	for name, test := range map[string]struct{ recreated, created bool }{
		"before the first":   {},
		"after the first":    {created: true},
		"before a later one": {recreated: true},
		"after a later one":  {recreated: true, created: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				if test.recreated {
					f.running()
					f.github.loseState()
					f.reportLost()
					controllertest.Elapse(2 * recheckInterval)
					f.reconcile() // it isn't there
				} else {
					f.create(newSet())
				}
				f.reconcile()
				if len(f.github.Sets[address]) != 1 || !slices.Contains(f.journal(), "Asked set at "+address) {
					t.Fatalf("on GitHub %+v, journal %q, want a scale set whose id is not recorded", f.github.Sets,
						f.journal())
				}
				if !test.created {
					clear(f.github.Sets[address])
				}
				f.restart()
				f.events()
				f.delete()
				if test.recreated {
					f.drained()
				}
				f.finalizing()
				if !f.gone() && test.recreated {
					for _, listener := range f.listeners() {
						f.release(&listener)
					}
					f.finalizing()
				}
				told := strings.Join(f.events(), "\n")
				if left := f.github.Sets[address]; len(left) > 0 || !f.gone() ||
					strings.Contains(told, "ScaleSetLeftOnGitHub") {
					t.Errorf("gone %t, left on GitHub: %+v, told %q", f.gone(), left, told)
				}
			})
		})
	}
}

// TestManagerThatIsKilledDuringAMoveTellsWhatMayBeLeft: the next one never asked GitHub there.
func TestManagerThatIsKilledDuringAMoveTellsWhatMayBeLeft(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.running()
		f.move(newAddress)
		f.reconcile()
		f.restart()
		f.events()
		f.move(thirdAddress)
		f.settle()
		told := strings.Join(f.events(), "\n")
		if !strings.Contains(told, "Perhaps left on GitHub") || strings.Contains(told, "<nil>") ||
			strings.Count(told, newAddress) != 2 {
			t.Errorf("told %q, want what may be left at %s, once for the set and once for its listener", told,
				newAddress)
		}
	})
}

// TestFailingCallsWriteNothing: after the first failure the status says all there is to say.
func TestFailingCallsWriteNothing(t *testing.T) {
	for name, failure := range map[string]error{
		"out of reach": errors.New("connection refused"), "refused": actions.ErrUnauthorized,
		"no such group": actions.ErrRunnerGroupNotFound,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.github.Fail(failure)
				f.create(newSet())
				f.settle()
				f.wantJournal("Wanted set at " + address)
				f.github.Made()
				before := f.set().ResourceVersion
				for range 20 {
					controllertest.Elapse(time.Minute)
					f.reconcile()
				}
				if calls := f.github.Made(); len(calls) < 15 {
					t.Fatalf("%d calls, want one a minute", len(calls))
				}
				if now := f.set().ResourceVersion; now != before {
					t.Errorf("the set was written: version %s, then %s, and says %+v", before, now, f.set().Status)
				}
				f.delete()
				if waited := f.finalizing(); waited > 5*time.Second || !f.gone() {
					t.Errorf("gone %t after %s, want at once: nothing was created", f.gone(), waited)
				}
			})
		})
	}
}

// TestSetOfAnEarlierReleaseGetsAJournal: it has a registration in the status, and a list of former ones in an
// annotation.
func TestSetOfAnEarlierReleaseGetsAJournal(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.Sets[address] = map[int]actions.RunnerScaleSet{1: labelled(1, "set", 1, "set")}
		f.github.Sets[newAddress] = map[int]actions.RunnerScaleSet{2: labelled(2, "set", 1, "set")}
		set := newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Spec.GitHubConfigUrl, s.Spec.GitHubConfigSecret = newAddress, "new"
			s.Finalizers = []string{v1alpha1.FinalizerAutoscalingRunnerSet}
			s.Annotations = map[string]string{
				v1alpha1.AnnotationRunnerScaleSetID: "2",
				"actions.github.com/former-registrations": `[{"url":"` + address +
					`","name":"set","id":1,"credentials":{"githubConfigSecret":"old"},"uid":"set-uid"}]`,
			}
		})
		f.create(set)
		set.Status.Registration = &v1alpha1.ScaleSetRegistration{URL: newAddress, Group: "Default", Name: "set", ID: 2}
		f.updateStatus(set)
		runner := f.busy()
		f.settle()
		f.wantJournal("Current set at "+newAddress+" with id 2", "Leaving set at "+address+" with id 1")
		if reference := f.set().Status.Registrations[1].Reference; reference != `{"githubConfigSecret":"old"}` {
			t.Errorf("reference %s, want that of the annotation", reference)
		}
		if err := f.client.Delete(t.Context(), runner); err != nil {
			t.Fatal(err)
		}
		f.github.refusedSecrets = map[string]string{address: "new"}
		f.settle()
		f.settle()
		f.wantJournal("Current set at " + newAddress + " with id 2")
		if left := f.github.Sets[address]; len(left) > 0 ||
			f.set().Annotations["actions.github.com/former-registrations"] != "" {
			t.Errorf("left at the former address: %+v, annotations %v", left, f.set().Annotations)
		}
	})
}

func TestSetOfARCGetsAJournal(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.Sets[address] = map[int]actions.RunnerScaleSet{1: labelled(1, "set", 1, "set")}
		f.create(annotated("set"))
		f.reconcile()
		f.wantJournal()
		f.settle()
		f.wantJournal("Current set at " + address + " with id 1")
		if calls := f.github.Made(); slices.Contains(calls, "create") {
			t.Errorf("calls %q", calls)
		}
	})
}

// TestWayBackToAnEarlierReleaseFindsFormerScaleSets: it knows only the annotation.
func TestWayBackToAnEarlierReleaseFindsFormerScaleSets(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.running()
		f.busy()
		f.move(newAddress)
		f.settle()
		var listed []map[string]any
		if err := json.Unmarshal([]byte(f.set().Annotations["actions.github.com/former-registrations"]),
			&listed); err != nil || len(listed) != 1 {
			t.Fatalf("annotations %v: %v", f.set().Annotations, err)
		}
		reached, _ := listed[0]["credentials"].(map[string]any)
		if listed[0]["url"] != address || listed[0]["id"] != 1.0 || listed[0]["uid"] != "set-uid" ||
			reached["githubConfigSecret"] != "github" || reached["githubConfigUrl"] != address {
			t.Errorf("the annotation lists %v", listed)
		}
		if got := f.set().Status.Registration; got == nil || got.URL != newAddress {
			t.Errorf("registration %+v", got)
		}
	})
}

// TestRecordsThatProveNothing: of another set, or written into the status by somebody who may write nothing else.
func TestRecordsThatProveNothing(t *testing.T) {
	record := v1alpha1.RegistrationRecord{
		UID: "set-uid", ScaleSetRegistration: v1alpha1.ScaleSetRegistration{URL: elsewhere, Name: "x", ID: 7},
		State:     v1alpha1.RegistrationLeaving,
		Reference: `{"githubConfigSecret":"github"}`, Since: metav1.Now(),
	}
	for name, change := range map[string]func(*v1alpha1.RegistrationRecord){
		"elsewhere":              func(*v1alpha1.RegistrationRecord) {},
		"at the present address": func(r *v1alpha1.RegistrationRecord) { r.URL = address },
		"current":                func(r *v1alpha1.RegistrationRecord) { r.State = v1alpha1.RegistrationCurrent },
		"of another set":         func(r *v1alpha1.RegistrationRecord) { r.UID, r.URL = "other-uid", address },
		"asked, of another set":  func(r *v1alpha1.RegistrationRecord) { r.UID, r.State = "other-uid", v1alpha1.RegistrationAsked },
	} {
		for state, deleted := range map[string]bool{"": false, ", deleted": true} {
			t.Run(name+state, func(t *testing.T) {
				inBubble(t, func(f *fixture) {
					f.deletable()
					if deleted {
						f.drained()
					}
					f.github.Sets[address][7] = labelled(7, "x", 1, "x")
					set, forged := f.set(), record
					change(&forged)
					set.Status.Registrations = append(set.Status.Registrations, forged)
					f.updateStatus(set)
					f.settle()
					f.settle()
					if calls := f.github.Made(); slices.Contains(calls, "delete 7") || f.github.Sets[elsewhere] != nil {
						t.Errorf("calls %q, asked elsewhere: %v", calls, f.github.Sets[elsewhere])
					}
					if told := strings.Join(f.events(), "\n"); strings.Contains(told, elsewhere) {
						t.Errorf("told %q", told)
					}
				})
			})
		}
	}
}

// TestJournalIsBounded: a set that moves while its runners are busy leaves one scale set after the other, and each is
// deleted in the end.
func TestJournalIsBounded(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.running()
		var runners []client.Object
		for i := range v1alpha1.MaxRegistrationRecords + 4 {
			registered := f.set().Status.Registration
			runners = append(runners, &v1alpha1.EphemeralRunner{
				ObjectMeta: metav1.ObjectMeta{Namespace: setNamespace, Name: fmt.Sprint("busy-", i),
					Labels: map[string]string{v1alpha1.LabelScaleSetName: "set"}},
				Spec: v1alpha1.EphemeralRunnerSpec{GitHubConfigUrl: registered.URL, RunnerScaleSetID: registered.ID},
			})
			f.create(runners[i])
			f.move(fmt.Sprintf("https://github.com/org-%d", i))
			f.settle()
		}
		if lines := f.journal(); len(lines) != v1alpha1.MaxRegistrationRecords ||
			!strings.HasPrefix(lines[0], "Current ") {
			t.Errorf("%d records: %q", len(lines), lines)
		}
		for _, runner := range runners {
			if err := f.client.Delete(t.Context(), runner); err != nil {
				t.Fatal(err)
			}
		}
		f.settle()
		f.settle()
		left := 0
		for _, there := range f.github.Sets {
			left += len(there)
		}
		if len(f.journal()) != 1 || left != 1 {
			t.Errorf("journal %q, on GitHub %+v; want the present one only", f.journal(), f.github.Sets)
		}
	})
}

// TestManyLostAnswersAreTold: only so many scale sets are looked for.
func TestManyLostAnswersAreTold(t *testing.T) {
	inBubble(t, func(f *fixture) {
		const mostAsked = 7
		f.github.LoseCreation = true
		f.create(newSet())
		for i := range mostAsked + 3 {
			f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.RunnerScaleSetName = fmt.Sprint("name-", i) })
			f.reconcile()
			controllertest.Elapse(scaleset.RetryLongestBackoff)
			clear(f.github.Sets[address]) // so that none is found and renamed
		}
		f.reconcile()
		if told := strings.Join(f.events(), "\n"); len(f.journal()) > mostAsked+1 ||
			!strings.Contains(told, `Perhaps left on GitHub: scale set "name-0"`) {
			t.Errorf("journal %q, told %q", f.journal(), told)
		}
	})
}
