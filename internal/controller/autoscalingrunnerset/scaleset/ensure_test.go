package scaleset_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// Sets that an earlier version let have any number of labels are read in linear time: eight times as many labels take
// about eight times as long; quadratic code would take 64 times as long in each run. The shortest of as many runs
// counts as it takes to be undisturbed by what else the machine does.
func TestManyLabelsAreReadInLinearTime(t *testing.T) {
	const runs = 100
	read := func(count int) func() time.Duration {
		set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Name: "set"},
			Spec: v1alpha1.AutoscalingRunnerSetSpec{GitHubConfigUrl: address}}
		for i := range count {
			set.Spec.RunnerScaleSetLabels = append(set.Spec.RunnerScaleSetLabels, fmt.Sprint("label-", i),
				fmt.Sprint("LABEL-", i))
		}
		names := []string{"set"} // GitHub has one of each spelling
		for i := range count {
			names = append(names, fmt.Sprint("label-", i))
		}
		github := having(labelled(4, "set", 1, names...))
		github.Silence = 0
		return func() time.Duration {
			started := time.Now()
			desired, err := scaleset.DesiredOf(set)
			if err != nil || len(desired.Labels) != count+1 { // one of each spelling, and the name
				t.Fatalf("%d labels, %v", len(desired.Labels), err)
			}
			_, err = ensure(t, github, desired, 4, scaleset.Result{})
			took := time.Since(started)
			if calls := github.Made(); err != nil || !slices.Equal(calls, []string{"get"}) {
				t.Fatalf("calls %v, error %v: the labels differ from themselves", calls, err)
			}
			return took
		}
	}
	readFew, readMany := read(2500), read(20_000)
	few, many := readFew(), readMany()
	for range runs {
		if many <= 25*few {
			return
		}
		few, many = min(few, readFew()), min(many, readMany())
	}
	t.Errorf("2,500 labels take %s, 20,000 take %s", few, many)
}

// A refused creation has created nothing: what has the name is somebody else's.
func TestWhichFailedCreationsMayHaveBeenCarriedOut(t *testing.T) {
	refused := &actions.Error{StatusCode: http.StatusBadRequest}
	for err, want := range map[error]bool{
		&actions.NetworkError{Err: errors.New("connection reset"), LastAnswer: refused}: true,
		&actions.Error{StatusCode: http.StatusBadGateway}:                               true,
		refused: false,
	} {
		failing := noCreation{having().At(address), err}
		desired := scaleset.Desired{URL: address, Name: "set", Labels: []string{"set"}}
		got, failure := scaleset.Ensure(
			t.Context(), connected{github: failing}, request(desired, 0, scaleset.Name{}), scaleset.Result{})
		if !errors.Is(failure, err) || got.MayExist != want {
			t.Errorf("%v: %t, want %t (%v)", err, got.MayExist, want, failure)
		}
	}
}

// noCreation is a GitHub that creates no scale set.
type noCreation struct {
	controllertest.ScaleSetsAt
	failure error
}

func (n noCreation) CreateRunnerScaleSet(
	context.Context, *actions.RunnerScaleSet,
) (*actions.RunnerScaleSet, error) {
	return nil, n.failure
}
