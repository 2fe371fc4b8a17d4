package autoscalingrunnerset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
)

// fakeGitHub is both the Connections and the GitHub that they connect to, with scale sets by address and id.
type fakeGitHub struct {
	mu     sync.Mutex
	nextID int
	sets   map[string]map[int]actions.RunnerScaleSet
	groups map[string]int
	calls  []string
	// failure is the error of every call.
	failure error
	// silence is how long every call takes.
	silence time.Duration
	// loseCreation is set to create scale sets but fail the call.
	loseCreation bool
	// refusedSecrets are the names of Secrets with refused credentials, by address.
	refusedSecrets map[string]string
	// needsTLS are addresses that are reached with spec.githubServerTLS only.
	needsTLS map[string]bool
	// hidden makes every scale set one that exists and is not found.
	hidden bool
	// lacksReadByID is the status code with which a service answers that can't read by id, 0 if it can.
	lacksReadByID int
	// singleLabel is set to drop all labels but the first.
	singleLabel bool
	// unresolved is the error of reading the credentials; listenerResolved is set when the listener's Secret has some.
	unresolved       error
	listenerResolved bool
	token            string
	// rereads is how often credentials were read without memory.
	rereads int
}

const (
	// ordinaryLatency is how long a call takes: long enough that no pass sees the answer to a call of its own.
	ordinaryLatency = time.Millisecond
	// answered is how long it takes at most until a pass's calls, which may be several in a row, are answered.
	answered = 20 * ordinaryLatency
)

func newFakeGitHub() *fakeGitHub {
	return &fakeGitHub{
		silence: ordinaryLatency,
		nextID:  1, sets: map[string]map[int]actions.RunnerScaleSet{}, groups: map[string]int{"Default": 1, "large": 2}, token: "token",
	}
}

// leaveUnresolved has the credentials fail to be read, or be read again for nil.
func (g *fakeGitHub) leaveUnresolved(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unresolved = err
}

func (g *fakeGitHub) Resolve(context.Context, credentials.Reference) (*credentials.Resolved, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.unresolved != nil {
		return nil, g.unresolved
	}
	return &credentials.Resolved{Credentials: actions.Credentials{Token: g.token}}, nil
}

func (g *fakeGitHub) Reread(ctx context.Context, reference credentials.Reference) (*credentials.Resolved, error) {
	g.mu.Lock()
	g.rereads++
	g.mu.Unlock()
	return g.Resolve(ctx, reference)
}

func (g *fakeGitHub) GitHubOfListener(_ context.Context, reference credentials.Reference, listener client.ObjectKey, cause error) (GitHub, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.listenerResolved {
		return nil, fmt.Errorf("%w; %w", cause, &credentials.MissingError{Kind: "Secret", Namespace: listener.Namespace, Name: listener.Name + "-config"})
	}
	return at{g, reference.GitHubConfigURL}, nil
}

func (g *fakeGitHub) GitHub(ctx context.Context, reference credentials.Reference) (GitHub, error) {
	if _, err := g.Resolve(ctx, reference); err != nil {
		return nil, err
	}
	if g.refusedSecrets[reference.GitHubConfigURL] == reference.GitHubConfigSecret {
		return nil, actions.ErrUnauthorized
	}
	if g.needsTLS[reference.GitHubConfigURL] && reference.TLS == nil {
		return nil, &actions.NetworkError{Err: errors.New("x509: certificate signed by unknown authority")}
	}
	return at{g, reference.GitHubConfigURL}, nil
}

// fail makes every call fail with err, or succeed again for nil.
func (g *fakeGitHub) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failure = err
}

// made returns the calls since it was last called.
func (g *fakeGitHub) made() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	calls := g.calls
	g.calls = nil
	return calls
}

// at is GitHub at one address.
type at struct {
	*fakeGitHub
	url string
}

// do records a call and makes it unless calls fail.
func (a at) do(call string, work func(sets map[int]actions.RunnerScaleSet) error) error {
	if a.silence > 0 {
		<-time.After(a.silence)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, call)
	if a.failure != nil {
		return a.failure
	}
	if a.sets[a.url] == nil {
		a.sets[a.url] = map[int]actions.RunnerScaleSet{}
	}
	return work(a.sets[a.url])
}

func (a at) GetRunnerScaleSet(_ context.Context, group int, name string) (found *actions.RunnerScaleSet, err error) {
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

func (a at) GetRunnerScaleSetByID(_ context.Context, id int) (found *actions.RunnerScaleSet, err error) {
	return found, a.do("get", func(sets map[int]actions.RunnerScaleSet) error {
		if a.lacksReadByID != 0 {
			return &actions.Error{Endpoint: actions.EndpointGetScaleSet, StatusCode: a.lacksReadByID}
		}
		set, known := sets[id]
		if !known {
			return actions.ErrScaleSetNotFound
		}
		found = &set
		return nil
	})
}

func (a at) CreateRunnerScaleSet(_ context.Context, wanted *actions.RunnerScaleSet) (made *actions.RunnerScaleSet, err error) {
	return made, a.do("create", func(sets map[int]actions.RunnerScaleSet) error {
		if a.hidden {
			return actions.ErrScaleSetExists
		}
		for _, other := range sets {
			if other.RunnerGroupID == wanted.RunnerGroupID && strings.EqualFold(other.Name, wanted.Name) {
				return actions.ErrScaleSetExists
			}
		}
		set := *wanted
		set.ID = a.nextID
		a.nextID++
		made = a.store(sets, set)
		if a.loseCreation {
			return errors.New("the answer is lost")
		}
		return nil
	})
}

func (a at) UpdateRunnerScaleSet(_ context.Context, id int, patch *actions.RunnerScaleSet) (changed *actions.RunnerScaleSet, err error) {
	return changed, a.do("update", func(sets map[int]actions.RunnerScaleSet) error {
		set, known := sets[id]
		if !known {
			return actions.ErrScaleSetNotFound
		}
		for _, other := range sets {
			if patch.Name != "" && other.ID != id && other.RunnerGroupID == set.RunnerGroupID && strings.EqualFold(other.Name, patch.Name) {
				return &actions.Error{Endpoint: actions.EndpointUpdateScaleSet, StatusCode: 409, TypeName: "RunnerScaleSetExistsException"}
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

func (a at) store(sets map[int]actions.RunnerScaleSet, set actions.RunnerScaleSet) *actions.RunnerScaleSet {
	if a.singleLabel && len(set.Labels) > 1 {
		set.Labels = set.Labels[:1]
	}
	for name, id := range a.groups {
		if id == set.RunnerGroupID {
			set.RunnerGroupName = name
		}
	}
	sets[set.ID] = set
	return &set
}

func (a at) DeleteRunnerScaleSet(_ context.Context, id int) error {
	return a.do(fmt.Sprintf("delete %d", id), func(sets map[int]actions.RunnerScaleSet) error {
		delete(sets, id)
		return nil
	})
}

func (a at) GetRunnerGroupByName(_ context.Context, name string) (found *actions.RunnerGroup, err error) {
	return found, a.do("group", func(map[int]actions.RunnerScaleSet) error {
		for known, id := range a.groups {
			if strings.EqualFold(known, name) {
				found = &actions.RunnerGroup{ID: id, Name: known}
				return nil
			}
		}
		return fmt.Errorf("find runner group %q: %w", name, actions.ErrRunnerGroupNotFound)
	})
}
