package scaleset_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

func TestScaleSetSyncWithoutReadByID(t *testing.T) {
	basic := scaleset.Desired{URL: address, Name: "set", Labels: []string{"set"}}
	inGroup := scaleset.Desired{URL: address, Group: "Large", Name: "set", Labels: []string{"set"}}
	here, renamed, inLarge := scaleset.Name{"Default", "set"}, scaleset.Name{"Default", "old"},
		scaleset.Name{"large", "set"}
	there := labelled(4, "set", 1, "set")
	for name, test := range map[string]struct {
		desired scaleset.Desired
		knownAs []scaleset.Name
		there   []actions.RunnerScaleSet
		calls   []string
		want    actions.RunnerScaleSet
	}{
		"unchanged":               {basic, []scaleset.Name{here}, []actions.RunnerScaleSet{there}, []string{"get", "find"}, there},
		"renamed":                 {basic, []scaleset.Name{renamed}, []actions.RunnerScaleSet{labelled(4, "old", 1, "set")}, []string{"get", "find", "update"}, there},
		"into a group":            {inGroup, []scaleset.Name{here}, []actions.RunnerScaleSet{there}, []string{"get", "find", "group", "update"}, labelled(4, "set", 2, "set")},
		"out of a group":          {basic, []scaleset.Name{inLarge}, []actions.RunnerScaleSet{labelled(4, "set", 2, "set")}, []string{"get", "group", "find", "update"}, there},
		"out of a group now gone": {basic, []scaleset.Name{{"gone", "set"}}, []actions.RunnerScaleSet{there}, []string{"get", "group", "find"}, there},
		"other labels":            {basic, []scaleset.Name{here}, []actions.RunnerScaleSet{labelled(4, "set", 1, "linux")}, []string{"get", "find", "update"}, there},
		"renamed without answer":  {basic, []scaleset.Name{renamed, {"", "new"}}, []actions.RunnerScaleSet{labelled(4, "new", 1, "set")}, []string{"get", "find", "find", "update"}, there},
		"gone":                    {basic, []scaleset.Name{renamed}, nil, []string{"get", "find", "find", "create"}, labelled(9, "set", 1, "set")},
		"gone, name taken":        {basic, []scaleset.Name{renamed}, []actions.RunnerScaleSet{labelled(5, "old", 1, "old")}, []string{"get", "find", "find", "create"}, labelled(9, "set", 1, "set")},
	} {
		t.Run(name, func(t *testing.T) {
			github := having(test.there...)
			github.LacksReadByID = http.StatusMethodNotAllowed
			asked := request(test.desired, 4, test.knownAs[0]) // as it is registered
			var last scaleset.Result
			for _, name := range test.knownAs[1:] { // as it was last asked for, without an answer
				last.Desired = scaleset.Desired{URL: address, Group: name.Group, Name: name.Name}
			}
			result, err := scaleset.Ensure(t.Context(), connected{github: github.At(address)}, asked, last)
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

// TestMayLackReadByID: GitHub names the exception if the scale set is gone.
func TestMayLackReadByID(t *testing.T) {
	answer := func(status int, typeName string) error {
		return fmt.Errorf("wrapped: %w", &actions.Error{Endpoint: actions.EndpointGetScaleSet, StatusCode: status,
			TypeName: typeName})
	}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"read":                   {nil, false},
		"no route":               {answer(http.StatusNotFound, ""), true},
		"no such method":         {answer(http.StatusMethodNotAllowed, ""), true},
		"not implemented":        {answer(http.StatusNotImplemented, ""), true},
		"no such scale set":      {answer(http.StatusNotFound, "RunnerScaleSetNotFoundException"), false},
		"service away":           {answer(http.StatusServiceUnavailable, ""), false},
		"credentials refused":    {answer(http.StatusUnauthorized, ""), false},
		"address refused":        {&actions.Error{Endpoint: actions.EndpointRegister, StatusCode: http.StatusNotFound}, false},
		"no answer":              {&actions.NetworkError{Err: errors.New("refused")}, false},
		"not found by a program": {actions.ErrScaleSetNotFound, false},
	} {
		if got := actions.LacksReadByID(test.err); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

// An outage is not a reason to look anywhere else.
func TestOutageOfReadByIDAsksNothingElse(t *testing.T) {
	for _, err := range []error{&actions.NetworkError{Err: errors.New("refused")},
		&actions.Error{StatusCode: http.StatusBadGateway}} {
		github := controllertest.NewScaleSets()
		github.Failure = err
		asked := request(scaleset.Desired{URL: address, Name: "set"}, 4, scaleset.Name{Name: "set"})
		_, got := scaleset.Ensure(t.Context(), connected{github: github.At(address)}, asked, scaleset.Result{})
		if !errors.Is(got, err) {
			t.Errorf("Ensure() = %v, want %v", got, err)
		}
		if calls := github.Made(); !slices.Equal(calls, []string{"get"}) {
			t.Errorf("calls %v after %v", calls, err)
		}
	}
}

func TestRegistrationHasTheDesiredGroupWhereTheAnswerNamesNone(t *testing.T) {
	for named, want := range map[string]string{"": "large", "Large": "Large"} {
		result := scaleset.Result{Desired: scaleset.Desired{URL: address, Group: "large"},
			Set: &actions.RunnerScaleSet{ID: 1, Name: "set", RunnerGroupName: named}}
		if got := result.Registration().Group; got != want {
			t.Errorf("group %q of an answer with %q, want %q", got, named, want)
		}
	}
}
