package listener

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/build"
	"github.com/harrier-ci/harrier/internal/listener/config"
)

// GitHub is the part of the Actions service that a listener needs. Connect returns the real one.
type GitHub interface {
	CreateSession(ctx context.Context, scaleSetID int, owner string) (Session, error)
	DeleteSession(ctx context.Context, scaleSetID int, sessionID string) error
	GetRunnerScaleSetByID(ctx context.Context, id int) (*actions.RunnerScaleSet, error)
	GetAcquirableJobs(ctx context.Context, id int) ([]actions.JobAvailable, error)
	CloseIdleConnections()
}

// Session is a message session: it gives access to a scale set's message queue. *actions.Session is the real one.
type Session interface {
	ID() string
	Statistics() *actions.Statistics
	GetMessage(ctx context.Context, lastMessageID int64, maxCapacity int) (*actions.Message, error)
	DeleteMessage(ctx context.Context, id int64) error
	AcquireJobs(ctx context.Context, runnerRequestIDs []int64) ([]int64, error)
	Close(ctx context.Context) error
}

// Connector makes a client from a configuration, without calling GitHub. The function that it takes is called after each request.
type Connector func(*config.Config, func(actions.RequestInfo)) (GitHub, error)

// errUnusable marks a configuration that is well-formed but can't work.
var errUnusable = errors.New("unusable configuration")

type client struct{ *actions.Client }

// CreateSession returns the session as the interface Session.
func (c client) CreateSession(ctx context.Context, scaleSetID int, owner string) (Session, error) {
	session, err := c.Client.CreateSession(ctx, scaleSetID, owner)
	if err != nil {
		return nil, err // not session: an interface with a nil *actions.Session in it is not nil
	}
	return session, nil
}

// Connect returns the Connector for the real service.
func Connect(log logr.Logger) Connector {
	return func(c *config.Config, observe func(actions.RequestInfo)) (GitHub, error) {
		if c.Credentials == nil {
			return nil, fmt.Errorf("%w: vault_type %q is not supported; remove vaultConfig and name a Secret in githubConfigSecret",
				errUnusable, c.VaultType)
		}
		roots, err := actions.CertPool(c.ServerRootCA)
		if err != nil {
			return nil, fmt.Errorf("%w: server_root_ca holds %w; check the ConfigMap that githubServerTLS names", errUnusable, err)
		}
		made, err := actions.NewClient(c.ConfigureURL, c.ForActions(), actions.Options{
			UserAgent: actions.UserAgent{
				System: "actions-runner-controller", Version: build.Version, CommitSHA: build.CommitSHA,
				ScaleSetID: c.RunnerScaleSetID, Subsystem: "ghalistener",
			},
			RootCAs: roots, Logger: log, OnRequest: observe,
		})
		if err != nil {
			return nil, err
		}
		return client{made}, nil
	}
}
