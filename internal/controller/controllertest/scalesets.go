package controllertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
)

const (
	// A call to ScaleSets takes OrdinaryLatency: long enough that no pass sees the answer to a call of its own.
	OrdinaryLatency = time.Millisecond
	// A pass's calls, which may be several in a row, are answered within Answered.
	Answered = 20 * OrdinaryLatency
)

// ScaleSets plays the part of GitHub that has scale sets, by address and id. The fields may be changed while no call is
// under way, or under the lock.
type ScaleSets struct {
	sync.Mutex
	// NextID is the id of the scale set that is created next.
	NextID int
	Sets   map[string]map[int]actions.RunnerScaleSet
	// Groups are the ids of runner groups by name.
	Groups map[string]int
	// Failure is the error of every call.
	Failure error
	// Silence is the time that every call takes.
	Silence time.Duration
	// LoseCreation is set to create scale sets but fail the call.
	LoseCreation bool
	// Hidden makes every scale set one that exists and is not found.
	Hidden bool
	// LacksReadByID is the status code with which a service answers that can't read by id, 0 if it can.
	LacksReadByID int
	// SingleLabel is set to drop all labels but the first.
	SingleLabel bool
	// Sessions are the ids of scale sets that somebody listens to, whose listeners the tests don't play.
	Sessions map[int]bool

	calls []string
}

// NewScaleSets returns a GitHub without scale sets, with the groups Default and large.
func NewScaleSets() *ScaleSets {
	return &ScaleSets{
		Silence: OrdinaryLatency, NextID: 1, Sets: map[string]map[int]actions.RunnerScaleSet{},
		Groups: map[string]int{"Default": 1, "large": 2},
	}
}

// At returns GitHub at one address.
func (g *ScaleSets) At(url string) ScaleSetsAt { return ScaleSetsAt{g, url} }

// Fail makes every call fail with err, or succeed again for nil.
func (g *ScaleSets) Fail(err error) {
	g.Lock()
	defer g.Unlock()
	g.Failure = err
}

// Made returns the calls since it was last called.
func (g *ScaleSets) Made() []string {
	g.Lock()
	defer g.Unlock()
	calls := g.calls
	g.calls = nil
	return calls
}

// ScaleSetsAt is GitHub at one address.
type ScaleSetsAt struct {
	*ScaleSets
	URL string
}

// do records a call and makes it unless calls fail.
func (a ScaleSetsAt) do(call string, work func(sets map[int]actions.RunnerScaleSet) error) error {
	if a.Silence > 0 {
		<-time.After(a.Silence)
	}
	a.Lock()
	defer a.Unlock()
	a.calls = append(a.calls, call)
	if a.Failure != nil {
		return a.Failure
	}
	if a.Sets[a.URL] == nil {
		a.Sets[a.URL] = map[int]actions.RunnerScaleSet{}
	}
	return work(a.Sets[a.URL])
}

// GetRunnerScaleSet is as in the client of the Actions service.
func (a ScaleSetsAt) GetRunnerScaleSet(
	_ context.Context, group int, name string,
) (found *actions.RunnerScaleSet, err error) {
	return found, a.do("find", func(sets map[int]actions.RunnerScaleSet) error {
		for _, set := range sets {
			if set.RunnerGroupID == group && strings.EqualFold(set.Name, name) {
				found = &set
				return nil
			}
		}
		return actions.ErrScaleSetNotFound
	})
}

// GetRunnerScaleSetByID is as in the client of the Actions service.
func (a ScaleSetsAt) GetRunnerScaleSetByID(_ context.Context, id int) (found *actions.RunnerScaleSet, err error) {
	return found, a.do("get", func(sets map[int]actions.RunnerScaleSet) error {
		if a.LacksReadByID != 0 {
			return &actions.Error{Endpoint: actions.EndpointGetScaleSet, StatusCode: a.LacksReadByID}
		}
		set, known := sets[id]
		if !known {
			return actions.ErrScaleSetNotFound
		}
		found = &set
		return nil
	})
}

// CreateRunnerScaleSet is as in the client of the Actions service.
func (a ScaleSetsAt) CreateRunnerScaleSet(
	_ context.Context, wanted *actions.RunnerScaleSet,
) (made *actions.RunnerScaleSet, err error) {
	return made, a.do("create", func(sets map[int]actions.RunnerScaleSet) error {
		if a.Hidden {
			return actions.ErrScaleSetExists
		}
		for _, other := range sets {
			if other.RunnerGroupID == wanted.RunnerGroupID && strings.EqualFold(other.Name, wanted.Name) {
				return actions.ErrScaleSetExists
			}
		}
		set := *wanted
		set.ID = a.NextID
		a.NextID++
		made = a.store(sets, set)
		if a.LoseCreation {
			return errors.New("the answer is lost")
		}
		return nil
	})
}

// UpdateRunnerScaleSet is as in the client of the Actions service.
func (a ScaleSetsAt) UpdateRunnerScaleSet(
	_ context.Context, id int, patch *actions.RunnerScaleSet,
) (changed *actions.RunnerScaleSet, err error) {
	return changed, a.do("update", func(sets map[int]actions.RunnerScaleSet) error {
		set, known := sets[id]
		if !known {
			return actions.ErrScaleSetNotFound
		}
		for _, other := range sets {
			if patch.Name != "" && other.ID != id && other.RunnerGroupID == set.RunnerGroupID &&
				strings.EqualFold(other.Name, patch.Name) {
				return &actions.Error{
					Endpoint:   actions.EndpointUpdateScaleSet,
					StatusCode: 409,
					TypeName:   "RunnerScaleSetExistsException",
				}
			}
		}
		if patch.Name != "" {
			set.Name = patch.Name
		}
		if patch.RunnerGroupID != 0 {
			set.RunnerGroupID = patch.RunnerGroupID
		}
		if len(patch.Labels) > 0 {
			set.Labels = patch.Labels
		}
		set.RunnerSetting = patch.RunnerSetting
		changed = a.store(sets, set)
		return nil
	})
}

func (a ScaleSetsAt) store(sets map[int]actions.RunnerScaleSet, set actions.RunnerScaleSet) *actions.RunnerScaleSet {
	if a.SingleLabel && len(set.Labels) > 1 {
		set.Labels = set.Labels[:1]
	}
	for name, id := range a.Groups {
		if id == set.RunnerGroupID {
			set.RunnerGroupName = name
		}
	}
	sets[set.ID] = set
	return &set
}

// DeleteRunnerScaleSet is as in the client of the Actions service.
func (a ScaleSetsAt) DeleteRunnerScaleSet(_ context.Context, id int) error {
	return a.do(fmt.Sprintf("delete %d", id), func(sets map[int]actions.RunnerScaleSet) error {
		delete(sets, id)
		return nil
	})
}

// HasSession is as in the controller of AutoscalingRunnerSets. It is no call of its own where nobody listens.
func (a ScaleSetsAt) HasSession(_ context.Context, id int) (listenedTo bool, err error) {
	a.Lock()
	defer a.Unlock()
	if a.Sessions[id] {
		a.calls = append(a.calls, fmt.Sprintf("session %d", id))
	}
	return a.Sessions[id], nil
}

// Way is as if every address were reached by one.
func (a ScaleSetsAt) Way() credentials.Way { return credentials.WayTo(a.URL, "", "") }

// GetRunnerGroupByName is as in the client of the Actions service.
func (a ScaleSetsAt) GetRunnerGroupByName(_ context.Context, name string) (found *actions.RunnerGroup, err error) {
	return found, a.do("group", func(map[int]actions.RunnerScaleSet) error {
		for known, id := range a.Groups {
			if strings.EqualFold(known, name) {
				found = &actions.RunnerGroup{ID: id, Name: known}
				return nil
			}
		}
		return fmt.Errorf("find runner group %q: %w", name, actions.ErrRunnerGroupNotFound)
	})
}
