// Package github is the part of the Actions service that a listener needs, as interfaces, and the real client behind
// them.
package github

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/build"
	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listener/failure"
)

// Client is the part of the Actions service that a listener needs. Connect returns the real one.
type Client interface {
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

// Connector makes a client from a configuration, without calling GitHub. The function that it takes is called after
// each request.
type Connector func(*config.Config, func(actions.RequestInfo)) (Client, error)

// client is a Client on the real service.
type client struct{ *actions.Client }

// CreateSession returns the session as the interface Session.
func (c client) CreateSession(ctx context.Context, scaleSetID int, owner string) (Session, error) {
	session, err := c.Client.CreateSession(ctx, scaleSetID, owner)
	if err != nil {
		return nil, err // not session: an interface with a nil *actions.Session in it is not nil
	}
	return session, nil
}

// answersBudget limits the memory for answers: one message of the largest size, and besides it what the other calls
// read, which run at the same time and get 1 MiB each. A message has about 100 kB, so in practice a listener uses a
// hundredth. It serves one scale set, so nobody needs a share of their own.
const answersBudget = 20 << 20

// Connect returns the Connector for the real service. All its clients share the memory for answers, and have the loop's
// clock, by which the loop waits for what they say. A nil clock is the real one.
func Connect(log logr.Logger, clock clock.WithTicker) Connector {
	budget := actions.NewBudget(answersBudget, answersBudget)
	return func(c *config.Config, observe func(actions.RequestInfo)) (Client, error) {
		if c.Credentials == nil {
			return nil, fmt.Errorf("%w: vault_type %q is not supported; remove vaultConfig and name a Secret in "+
				"githubConfigSecret",
				failure.ErrUnusable, c.VaultType)
		}
		roots, err := actions.CertPool(c.ServerRootCA)
		if err != nil {
			return nil, fmt.Errorf(
				"%w: server_root_ca holds %w; check the ConfigMap that githubServerTLS names",
				failure.ErrUnusable, err,
			)
		}
		policy, err := c.Policy()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", failure.ErrUnusable, err)
		}
		if err := policy.CheckGitHub("githubConfigUrl", c.ConfigureURL); err != nil {
			return nil, err
		}
		made, err := actions.NewClient(c.ConfigureURL, c.ForActions(), actions.Options{
			UserAgent: actions.UserAgent{
				System: "actions-runner-controller", Version: build.Version, CommitSHA: build.CommitSHA,
				ScaleSetID: c.RunnerScaleSetID, Subsystem: "ghalistener",
			},
			RootCAs: roots, Logger: log, Clock: clock, OnRequest: observe, Budget: budget,
			// The proxy comes from the environment, which a tenant may have chosen: only what the file allows is
			// exempt.
			Addresses: policy.Check(c.ConfigureURL, false),
		})
		if err != nil {
			return nil, err
		}
		return client{made}, nil
	}
}
