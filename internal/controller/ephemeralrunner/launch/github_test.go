package launch_test

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/github/actions"
)

var errGitHubAway = errors.New("GitHub is away")

// github is GitHub as far as it is asked about one runner.
type github struct {
	// noClient is the error of making a client; refuse, hide and keep are those of a registration, of looking a runner up
	// by its name, and of a removal.
	noClient, refuse, hide, keep error
	// holder is the registration that has the runner's name, nil if there is none. A removal frees the name.
	holder *actions.RunnerReference
	// asked are the registrations that were asked for, in the scale set with the id scaleSet.
	asked    []actions.JITConfigRequest
	scaleSet int
	// calls are all calls, as "register", "find NAME" or "remove ID".
	calls []string
	// meanwhile happens while GitHub makes a registration, if it is set.
	meanwhile func()
}

func (g *github) GenerateJITConfig(
	_ context.Context, scaleSet int, request actions.JITConfigRequest,
) (*actions.JITConfig, error) {
	g.asked, g.scaleSet, g.calls = append(g.asked, request), scaleSet, append(g.calls, "register")
	if g.meanwhile != nil {
		g.meanwhile()
	}
	switch {
	case g.refuse != nil:
		return nil, g.refuse
	case g.holder != nil:
		return nil, actions.ErrRunnerExists
	}
	return &actions.JITConfig{Runner: actions.RunnerReference{ID: 42}, EncodedJITConfig: "config"}, nil
}

func (g *github) GetRunnerByName(_ context.Context, name string) (*actions.RunnerReference, error) {
	g.calls = append(g.calls, "find "+name)
	switch {
	case g.hide != nil:
		return nil, g.hide
	case g.holder == nil:
		return nil, actions.ErrRunnerNotFound
	}
	return g.holder, nil
}

// RemoveRunner frees the name, too, if a proxy says that there is no such runner: there is none.
func (g *github) RemoveRunner(_ context.Context, id int) error {
	g.calls = append(g.calls, fmt.Sprintf("remove %d", id))
	if g.keep == nil || errors.Is(g.keep, actions.ErrRunnerNotFound) {
		g.holder = nil
	}
	return g.keep
}

// created is an API server that creates everything and keeps nothing, for tests that read nothing.
type created struct{ client.Client }

func (created) Create(context.Context, client.Object, ...client.CreateOption) error { return nil }
