package autoscalingrunnerset_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

const formerAnnotation = "actions.github.com/former-registrations"

// listedAsFormer returns the text of an earlier release about a scale set at an address reached with the Secret old.
func listedAsFormer(address string, noProxy ...string) string {
	reached := map[string]any{"githubConfigSecret": "old"}
	if len(noProxy) > 0 {
		reached["proxy"] = map[string]any{"noProxy": noProxy}
	}
	text, _ := json.Marshal([]map[string]any{{"url": address, "name": "set", "id": 1, "uid": "set-uid",
		"credentials": reached}})
	return string(text)
}

// TestJournalOfAnEarlierReleaseIsWrittenOnce: its records have no time.
func TestJournalOfAnEarlierReleaseIsWrittenOnce(t *testing.T) {
	for name, deleted := range map[string]bool{"GitHub is away": false, "deleted, with busy runners": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.github.Sets[address] = map[int]actions.RunnerScaleSet{2: labelled(2, "set", 1, "set")}
				f.create(newSet())
				f.settle()
				f.restart()
				f.edit(func(s *v1alpha1.AutoscalingRunnerSet) {
					s.Annotations[formerAnnotation] = listedAsFormer(newAddress)
				})
				f.busy()
				if deleted {
					f.holdDependents()
					f.delete()
				} else {
					f.github.Fail(errors.New("connection refused"))
				}
				f.settle()
				f.settle()
				f.wantJournal("Current set at "+address+" with id 2", "Leaving set at "+newAddress+" with id 1")
				before := f.set().Status.Registrations
				for range 5 {
					f.reconcile()
					controllertest.Elapse(5 * time.Second)
				}
				if diff := cmp.Diff(before, f.set().Status.Registrations); diff != "" {
					t.Errorf("the journal was written again (-before +after):\n%s", diff)
				}
			})
		})
	}
}

// TestNamesThatWereOnlyWantedFillNoJournal: what GitHub is asked to create has to be in it.
func TestNamesThatWereOnlyWantedFillNoJournal(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.change = func(o *autoscalingrunnerset.Options) { o.Connections = recordedFirst{f.github, f} }
		f.restart()
		f.github.Fail(actions.ErrRunnerGroupNotFound)
		f.create(newSet())
		for i := range v1alpha1.MaxRegistrationRecords + 2 {
			f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.RunnerScaleSetName = fmt.Sprint("name-", i) })
			f.reconcile()
			f.reconcile()
		}
		f.wantJournal(fmt.Sprintf("Wanted name-%d at %s", v1alpha1.MaxRegistrationRecords+1, address))
		f.github.Fail(nil)
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.RunnerScaleSetName = "last" })
		f.settle()
		f.wantJournal("Current last at " + address + " with id 1")
	})
}

// TestAnEarlierReleaseHasDeletedWhatTheStatusSaysIsLeaving: the set went back to that release, and GitHub has given the
// id to somebody else.
func TestAnEarlierReleaseHasDeletedWhatTheStatusSaysIsLeaving(t *testing.T) {
	for name, earlier := range map[string]bool{"back and forth": true, "not back": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.running()
				runner := f.busy()
				f.move(newAddress)
				f.settle()
				f.wantJournal("Current set at "+newAddress+" with id 2", "Leaving set at "+address+" with id 1")
				if err := f.client.Delete(t.Context(), runner); err != nil {
					t.Fatal(err)
				}
				if earlier {
					f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { delete(s.Annotations, formerAnnotation) })
					f.github.Sets[address] = map[int]actions.RunnerScaleSet{1: labelled(1, "others", 1, "others")}
				}
				f.restart()
				f.settle()
				f.settle()
				if _, isThere := f.github.Sets[address][1]; isThere != earlier {
					t.Errorf("scale set 1 is on GitHub: %t, want %t", isThere, earlier)
				}
				f.wantJournal("Current set at " + newAddress + " with id 2")
			})
		})
	}
}

// TestLongListOfHostsWithoutProxyKeepsTheCredentials: a record has no place for it.
func TestLongListOfHostsWithoutProxyKeepsTheCredentials(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.Sets[address] = map[int]actions.RunnerScaleSet{1: labelled(1, "set", 1, "set")}
		f.github.Sets[newAddress] = map[int]actions.RunnerScaleSet{2: labelled(2, "set", 1, "set")}
		f.github.refusedSecrets = map[string]string{address: "new"}
		set := newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Spec.GitHubConfigUrl, s.Spec.GitHubConfigSecret = newAddress, "new"
			s.Annotations = map[string]string{
				v1alpha1.AnnotationRunnerScaleSetID: "2",
				formerAnnotation: listedAsFormer(address,
					slices.Repeat([]string{"some-host.internal.example.com"}, 500)...),
			}
		})
		f.create(set)
		set.Status.Registration = &v1alpha1.ScaleSetRegistration{URL: newAddress, Group: "Default", Name: "set", ID: 2}
		f.updateStatus(set)
		runner := f.busy()
		f.settle()
		if got := f.set().Annotations[formerAnnotation]; !strings.Contains(got, `"githubConfigSecret":"old"`) {
			t.Errorf("the annotation says %.300s, want the Secret", got)
		}
		if err := f.client.Delete(t.Context(), runner); err != nil {
			t.Fatal(err)
		}
		f.settle()
		f.settle()
		if left := f.github.Sets[address]; len(left) > 0 {
			t.Errorf("left on GitHub: %v, told %q", left, f.events())
		}
	})
}
