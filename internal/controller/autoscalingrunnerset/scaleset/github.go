package scaleset

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
)

// GitHub is the part of the Actions service API that this controller uses. *actions.Client implements it. In addition
// to the documented errors, all methods can fail with actions.ErrUnauthorized, *actions.RateLimitedError,
// *actions.NetworkError,
// *actions.UnexpectedResponseError, or another *actions.Error.
type GitHub interface {
	// GetRunnerScaleSet fails with actions.ErrScaleSetNotFound if the group has none of that name.
	GetRunnerScaleSet(ctx context.Context, runnerGroupID int, name string) (*actions.RunnerScaleSet, error)
	// GetRunnerScaleSetByID fails with actions.ErrScaleSetNotFound if there is none.
	GetRunnerScaleSetByID(ctx context.Context, id int) (*actions.RunnerScaleSet, error)
	// CreateRunnerScaleSet fails with actions.ErrScaleSetExists if the group has one of that name.
	CreateRunnerScaleSet(ctx context.Context, set *actions.RunnerScaleSet) (*actions.RunnerScaleSet, error)
	// UpdateRunnerScaleSet fails with actions.ErrScaleSetNotFound if there is none, and with actions.ErrScaleSetExists
	// if another one has the new name.
	UpdateRunnerScaleSet(ctx context.Context, id int, set *actions.RunnerScaleSet) (*actions.RunnerScaleSet, error)
	// DeleteRunnerScaleSet succeeds if there is none.
	DeleteRunnerScaleSet(ctx context.Context, id int) error
	// GetRunnerGroupByName fails with actions.ErrRunnerGroupNotFound if there is none.
	GetRunnerGroupByName(ctx context.Context, name string) (*actions.RunnerGroup, error)
	// HasSession reports whether somebody listens to the scale set, or did a minute or two ago. There is none if there
	// is no scale set.
	HasSession(ctx context.Context, id int) (bool, error)
	// Way is how GitHub is reached.
	Way() credentials.Way
}

// Connections reads credentials and returns clients of GitHub. See ConnectionsOf.
type Connections interface {
	// Resolve reads credentials, CA and proxy, or returns them from memory unless they are to be read afresh; see
	// credentials.Provider.Resolve and Reread. It fails with *addresses.NotAllowedError before it reads anything.
	Resolve(ctx context.Context, reference credentials.Reference, afresh bool) (*credentials.Resolved, error)
	// GitHub returns the client for the reference.
	GitHub(ctx context.Context, reference credentials.Reference) (GitHub, error)
	// GitHubOfListener returns a client for the reference's address that uses the credentials in the Secrets of an
	// AutoscalingListener; see credentials.Provider.ClientOfListener.
	GitHubOfListener(ctx context.Context, reference credentials.Reference, listener client.ObjectKey,
		cause error) (GitHub, error)
}

// ConnectionsOf returns the connections of a provider.
func ConnectionsOf(provider *credentials.Provider) Connections { return connections{provider} }

type connections struct{ *credentials.Provider }

// Resolve implements Connections. An address that may not be used is refused before a vault is asked.
func (c connections) Resolve(
	ctx context.Context, reference credentials.Reference, afresh bool,
) (*credentials.Resolved, error) {
	if err := c.CheckAddresses(reference); err != nil {
		return nil, err
	}
	if afresh {
		return c.Provider.Reread(ctx, reference)
	}
	return c.Provider.Resolve(ctx, reference)
}

// GitHub implements Connections.
func (c connections) GitHub(ctx context.Context, reference credentials.Reference) (GitHub, error) {
	reached, way, err := c.Reach(ctx, reference)
	if err != nil {
		return nil, err
	}
	return connected{reached, way}, nil
}

// GitHubOfListener implements Connections. The client deletes only, so nobody learns of its way.
func (c connections) GitHubOfListener(
	ctx context.Context, reference credentials.Reference, listener client.ObjectKey, cause error,
) (GitHub, error) {
	reached, err := c.ClientOfListener(ctx, reference, listener, cause)
	if err != nil {
		return nil, err
	}
	return connected{reached, ""}, nil
}

// connected is GitHub as it was reached.
type connected struct {
	*actions.Client
	way credentials.Way
}

// Way implements GitHub.
func (c connected) Way() credentials.Way { return c.way }

// sessionOwner is shown by GitHub to those who find the session taken that HasSession opens for a moment.
const sessionOwner = "harrier-uninstall"

// HasSession implements GitHub. A scale set has one session at most, so that one can be opened shows that nobody has
// one.
func (c connected) HasSession(ctx context.Context, id int) (bool, error) {
	session, err := c.CreateSession(ctx, id, sessionOwner)
	switch {
	case errors.Is(err, actions.ErrSessionConflict):
		return true, nil
	case errors.Is(err, actions.ErrScaleSetNotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	return false, session.Close(ctx)
}

// withAnyCredentials uses the credentials that the reference names. It falls back to those in the listener's Secret if
// the former are gone (an uninstall deletes the Secret first), can't be used (they were edited), or are refused (they
// were replaced together with the address).
func withAnyCredentials(
	ctx context.Context, connections Connections, at credentials.Reference, listener client.ObjectKey,
	ask func(GitHub) error,
) error {
	github, err := connections.GitHub(ctx, at)
	if err == nil {
		err = ask(github)
	}
	if err == nil || listener.Name == "" || (!credentials.Unusable(err) && !errors.Is(err, actions.ErrUnauthorized)) {
		return err
	}
	if github, err = connections.GitHubOfListener(ctx, at, listener, err); err != nil {
		return err
	}
	return ask(github)
}
