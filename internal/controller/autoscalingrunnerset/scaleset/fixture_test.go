package scaleset_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/credentials"
)

const address = "https://github.com/my-org"

func labelled(id int, name string, group int, names ...string) actions.RunnerScaleSet {
	set := actions.RunnerScaleSet{ID: id, Name: name, RunnerGroupID: group,
		RunnerSetting: actions.RunnerSetting{DisableUpdate: true}}
	for _, label := range names {
		set.Labels = append(set.Labels, actions.Label{Name: label})
	}
	return set
}

// sameLabels reports whether a scale set has these labels and no others, whatever their order and case.
func sameLabels(set *actions.RunnerScaleSet, names []string) bool {
	var has, wanted []string
	for _, label := range set.Labels {
		has = append(has, strings.ToLower(label.Name))
	}
	for _, name := range names {
		wanted = append(wanted, strings.ToLower(name))
	}
	slices.Sort(has)
	slices.Sort(wanted)
	return slices.Equal(has, wanted)
}

// having returns a GitHub that has these scale sets at the address and gives the next one the id 9.
func having(sets ...actions.RunnerScaleSet) *controllertest.ScaleSets {
	github := controllertest.NewScaleSets()
	github.NextID, github.Sets[address] = 9, map[int]actions.RunnerScaleSet{}
	for _, set := range sets {
		github.Sets[address][set.ID] = set
	}
	return github
}

// connected reaches one GitHub with all credentials.
type connected struct {
	scaleset.Connections
	github scaleset.GitHub
}

func (c connected) GitHub(context.Context, credentials.Reference) (scaleset.GitHub, error) {
	return c.github, nil
}

// ensure asks GitHub for a scale set that may be created. It is registered with an id unless that is 0.
func ensure(
	t *testing.T, github *controllertest.ScaleSets, desired scaleset.Desired, id int, last scaleset.Result,
) (scaleset.Result, error) {
	t.Helper()
	return scaleset.Ensure(t.Context(), connected{github: github.At(address)}, request(desired, id, scaleset.Name{}), last)
}

// request asks for a scale set that may be created. It is registered under a name and with an id unless that is 0.
func request(desired scaleset.Desired, id int, as scaleset.Name) scaleset.Request {
	r := scaleset.Request{Desired: desired, MayCreate: true}
	if id != 0 {
		r.Registered = &v1alpha1.ScaleSetRegistration{URL: address, Group: as.Group, Name: as.Name, ID: id}
	}
	return r
}
