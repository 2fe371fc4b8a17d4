package autoscalingrunnerset_test

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/credentials"
)

// A pass's calls are answered within answered.
const answered = controllertest.Answered

// fakeGitHub is both the Connections and the GitHub that they connect to.
type fakeGitHub struct {
	*controllertest.ScaleSets
	// refusedSecrets are the names of Secrets with refused credentials, by address.
	refusedSecrets map[string]string
	// needsTLS are addresses that are reached with spec.githubServerTLS only.
	needsTLS map[string]bool
	// unresolved is the error of reading the credentials; listenerResolved is set when the listener's Secret has some.
	unresolved       error
	listenerResolved bool
	token            string
	// rereads counts the reads of credentials without memory.
	rereads int
}

// relay is the way to GitHub, which a test may change while a controller uses it.
type relay struct{ scaleset.Connections }

func newFakeGitHub() *fakeGitHub {
	return &fakeGitHub{ScaleSets: controllertest.NewScaleSets(), token: "token"}
}

// leaveUnresolved has the credentials fail to be read, or be read again for nil.
func (g *fakeGitHub) leaveUnresolved(err error) {
	g.Lock()
	defer g.Unlock()
	g.unresolved = err
}

func (g *fakeGitHub) Resolve(_ context.Context, _ credentials.Reference, afresh bool) (*credentials.Resolved, error) {
	g.Lock()
	defer g.Unlock()
	if afresh {
		g.rereads++
	}
	if g.unresolved != nil {
		return nil, g.unresolved
	}
	return &credentials.Resolved{Credentials: actions.Credentials{Token: g.token}}, nil
}

func (g *fakeGitHub) GitHubOfListener(
	_ context.Context, reference credentials.Reference, listener client.ObjectKey, cause error,
) (scaleset.GitHub, error) {
	g.Lock()
	defer g.Unlock()
	if !g.listenerResolved {
		return nil, fmt.Errorf("%w; %w", cause,
			&credentials.MissingError{Kind: "Secret", Namespace: listener.Namespace, Name: listener.Name + "-config"})
	}
	return g.At(reference.GitHubConfigURL), nil
}

func (g *fakeGitHub) GitHub(ctx context.Context, reference credentials.Reference) (scaleset.GitHub, error) {
	if _, err := g.Resolve(ctx, reference, false); err != nil {
		return nil, err
	}
	if g.refusedSecrets[reference.GitHubConfigURL] == reference.GitHubConfigSecret {
		return nil, actions.ErrUnauthorized
	}
	if g.needsTLS[reference.GitHubConfigURL] && reference.TLS == nil {
		return nil, &actions.NetworkError{Err: errors.New("x509: certificate signed by unknown authority")}
	}
	return g.At(reference.GitHubConfigURL), nil
}
