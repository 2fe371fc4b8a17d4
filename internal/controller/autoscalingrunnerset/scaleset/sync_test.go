package scaleset_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/holders"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

func TestScaleSetSync(t *testing.T) {
	basic := scaleset.Desired{URL: address, Name: "set", Labels: []string{"set"}}
	inGroup := scaleset.Desired{URL: address, Group: "Large", Name: "set", Labels: []string{"set"}}
	twoLabels := scaleset.Desired{URL: address, Name: "set", Labels: []string{"set", "linux"}}
	oneOf := labelled(4, "set", 1, "set")
	for name, test := range map[string]struct {
		desired scaleset.Desired
		id      int
		there   []actions.RunnerScaleSet
		// GitHub keeps the first label only, and was asked before.
		dropped bool
		calls   []string
		want    actions.RunnerScaleSet
	}{
		"created":                 {desired: basic, calls: []string{"find", "create"}, want: labelled(9, "set", 1, "set")},
		"created in a group":      {desired: inGroup, calls: []string{"group", "find", "create"}, want: labelled(9, "set", 2, "set")},
		"found by name":           {desired: basic, there: []actions.RunnerScaleSet{labelled(4, "Set", 1, "SET")}, calls: []string{"find"}, want: labelled(4, "Set", 1, "SET")},
		"found with other labels": {desired: twoLabels, there: []actions.RunnerScaleSet{oneOf}, calls: []string{"find", "update"}, want: labelled(4, "set", 1, "set", "linux")},
		"known and unchanged":     {desired: basic, id: 4, there: []actions.RunnerScaleSet{oneOf}, calls: []string{"get"}, want: oneOf},
		"known and renamed":       {desired: basic, id: 4, there: []actions.RunnerScaleSet{labelled(4, "old", 1, "set")}, calls: []string{"get", "update"}, want: oneOf},
		"known, other group":      {desired: inGroup, id: 4, there: []actions.RunnerScaleSet{oneOf}, calls: []string{"get", "group", "update"}, want: labelled(4, "set", 2, "set")},
		"known and gone":          {desired: basic, id: 4, calls: []string{"get", "find", "create"}, want: labelled(9, "set", 1, "set")},
		"gone, another there":     {desired: basic, id: 3, there: []actions.RunnerScaleSet{oneOf}, calls: []string{"get", "find"}, want: oneOf},
		"labels dropped before":   {desired: twoLabels, id: 4, there: []actions.RunnerScaleSet{oneOf}, dropped: true, calls: []string{"get"}, want: oneOf},
		"update not disabled": {desired: basic, id: 4,
			there: []actions.RunnerScaleSet{{ID: 4, Name: "set", RunnerGroupID: 1, Labels: oneOf.Labels}},
			calls: []string{"get", "update"}, want: oneOf},
	} {
		t.Run(name, func(t *testing.T) {
			github, last := having(test.there...), scaleset.Result{}
			if test.dropped {
				github.SingleLabel = true
				before, err := ensure(t, github, test.desired, test.id, last)
				if calls := github.Made(); err != nil || !slices.Contains(calls, "update") {
					t.Fatalf("before: calls %v, error %v", calls, err)
				}
				last = before
			}
			result, err := ensure(t, github, test.desired, test.id, last)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.calls, github.Made()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			got := result.Set
			got.RunnerGroupName = ""
			if diff := cmp.Diff(&test.want, got); diff != "" {
				t.Errorf("scale set (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScaleSetSyncRefusesWhatAnotherSetHolds(t *testing.T) {
	github := having(labelled(4, "set", 1, "other"))
	at := github.At(address)
	other := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "elsewhere", Name: "set", UID: "other", Labels: map[string]string{v1alpha1.LabelScaleSetName: "set"},
	}}
	builder := controllertest.NewKubernetes().WithObjects(other)
	for name, index := range holders.Indexes {
		builder = builder.WithIndex(&coordinationv1.Lease{}, name, index)
	}
	kubernetes := builder.Build()
	store := &holders.Store{Client: kubernetes, Namespace: "manager"}
	err := store.Hold(t.Context(), holders.SetOf(other),
		holders.ScaleSet{URL: address, Way: at.Way(), ID: 4, Name: "set"}, false)
	if err != nil {
		t.Fatal(err)
	}
	asked := request(scaleset.Desired{URL: address, Name: "set", Labels: []string{"set"}}, 0, scaleset.Name{})
	asked.Holders, asked.Set = store, holders.Set{Key: types.NamespacedName{Namespace: "here", Name: "set"}, UID: "asking"}
	_, err = scaleset.Ensure(t.Context(), connected{github: at}, asked, scaleset.Result{})
	if held, ok := errors.AsType[*holders.HeldError](err); !ok || held.Holder != client.ObjectKeyFromObject(other) ||
		strings.Contains(err.Error(), other.Namespace) {
		t.Errorf("Ensure() = %v, want *HeldError, without the other's namespace", err)
	}
	if diff := cmp.Diff([]string{"find"}, github.Made()); diff != "" {
		t.Errorf("another's scale set was changed (-want +got):\n%s", diff)
	}
}

// TestScaleSetThatExistsAndIsNotFoundIsToldInGitHubsWords: they may be the only hint at what is wrong.
func TestScaleSetThatExistsAndIsNotFoundIsToldInGitHubsWords(t *testing.T) {
	github := having()
	github.Hidden = true
	_, err := ensure(t, github, scaleset.Desired{URL: address, Name: "set"}, 0, scaleset.Result{})
	if !errors.Is(err, actions.ErrScaleSetExists) || !strings.Contains(err.Error(), "there is none of that name") {
		t.Errorf("Ensure() = %v, want GitHub's refusal", err)
	}
}

func TestDesiredScaleSet(t *testing.T) {
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Name: "set"},
		Spec: v1alpha1.AutoscalingRunnerSetSpec{GitHubConfigUrl: address}}
	set.Spec.GitHubConfigUrl, set.Spec.RunnerScaleSetName = address+"/", "ci"
	set.Spec.RunnerScaleSetLabels = []string{"linux", "ci", "linux", "Linux", "CI"}
	got, err := scaleset.DesiredOf(set)
	want := scaleset.Desired{URL: address, Name: "ci", Labels: []string{"ci", "linux"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("DesiredOf() (-want +got), error %v:\n%s", err, diff)
	}
}

// TestScaleSetSyncConverges: whatever there is, the result is as desired, and a second run changes nothing.
func TestScaleSetSyncConverges(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	words := []string{"set", "Set", "other", "linux", "arm64"}
	pick := func() string { return words[random.IntN(len(words))] }
	for i := range 2000 {
		github := having()
		github.Silence = 0 // no pass could be ahead of an answer here, and there are many calls
		for id := range random.IntN(3) {
			labels := []string{pick(), "gpu"}[:1+random.IntN(2)]
			github.Sets[address][id+1] = labelled(id+1, fmt.Sprintf("%s-%d", pick(), id), 1+random.IntN(2), labels...)
		}
		desired := scaleset.Desired{URL: address, Group: []string{"", "large", "default"}[random.IntN(3)], Name: "set",
			Labels: []string{"set", pick()}}
		if desired.Labels[1] == "set" || desired.Labels[1] == "Set" {
			desired.Labels = desired.Labels[:1]
		}
		result, err := ensure(t, github, desired, random.IntN(4), scaleset.Result{})
		if err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, i, err)
		}
		first := result.Set
		if !sameLabels(first, desired.Labels) || !strings.EqualFold(first.Name, "set") ||
			!first.RunnerSetting.DisableUpdate {
			t.Fatalf("seed %d, round %d: %+v is not %+v", seed, i, first, desired)
		}
		github.Made()
		if _, err := ensure(t, github, desired, first.ID, scaleset.Result{}); err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, i, err)
		}
		if diff := cmp.Diff([]string{"get"}, github.Made()); diff != "" {
			t.Fatalf("seed %d, round %d: a settled scale set was changed (-want +got):\n%s", seed, i, diff)
		}
	}
}
