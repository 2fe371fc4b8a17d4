package listener_test

import (
	"context"
	"sync/atomic"

	"github.com/go-logr/logr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener"
	"github.com/harrier-ci/harrier/internal/listener/config"
)

// process is what a listener's process can be killed by: from then on what it writes reaches nobody, although it
// believes so and ends at once when asked to.
type process struct {
	listener.Cluster
	killed atomic.Bool
}

func (p *process) Publish(ctx context.Context, publication listener.Publication) (*listener.RunnerSet, error) {
	if p.killed.Load() {
		return &listener.RunnerSet{}, nil
	}
	return p.Cluster.Publish(ctx, publication)
}

func (p *process) ReportState(ctx context.Context, status v1alpha1.ListenerStatus) error {
	if p.killed.Load() {
		return nil
	}
	return p.Cluster.ReportState(ctx, status)
}

func (p *process) ReportJob(ctx context.Context, runner string, status v1alpha1.EphemeralRunnerStatus) error {
	if p.killed.Load() {
		return nil
	}
	return p.Cluster.ReportJob(ctx, runner, status)
}

func (p *process) connect(settings *config.Config, observe func(actions.RequestInfo)) (listener.GitHub, error) {
	client, err := listener.Connect(logr.Discard())(settings, observe)
	return mortalGitHub{client, p}, err
}

type mortalGitHub struct {
	listener.GitHub
	process *process
}

func (g mortalGitHub) CreateSession(ctx context.Context, scaleSetID int, owner string) (listener.Session, error) {
	session, err := g.GitHub.CreateSession(ctx, scaleSetID, owner)
	return mortalSession{session, g.process}, err
}

type mortalSession struct {
	listener.Session
	process *process
}

func (s mortalSession) DeleteMessage(ctx context.Context, id int64) error {
	if s.process.killed.Load() {
		return nil
	}
	return s.Session.DeleteMessage(ctx, id)
}

func (s mortalSession) Close(ctx context.Context) error {
	if s.process.killed.Load() {
		return nil
	}
	return s.Session.Close(ctx)
}
