package listener_test

import (
	"context"
	"sync/atomic"

	"github.com/go-logr/logr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/cluster"
	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listener/github"
)

// process wraps everything that a listener's process writes to. After it is killed, writes have no effect but seem to
// succeed, so that the listener ends immediately when asked to.
type process struct {
	cluster.Cluster
	killed atomic.Bool
}

func (p *process) Publish(ctx context.Context, publication cluster.Publication) (*cluster.RunnerSet, error) {
	if p.killed.Load() {
		return &cluster.RunnerSet{}, nil
	}
	return p.Cluster.Publish(ctx, publication)
}

func (p *process) WriteStatus(ctx context.Context, status v1alpha1.ListenerStatus) error {
	if p.killed.Load() {
		return nil
	}
	return p.Cluster.WriteStatus(ctx, status)
}

func (p *process) ReportJob(ctx context.Context, runner string, status v1alpha1.EphemeralRunnerStatus) error {
	if p.killed.Load() {
		return nil
	}
	return p.Cluster.ReportJob(ctx, runner, status)
}

func (p *process) connect(settings *config.Config, observe func(actions.RequestInfo)) (github.Client, error) {
	client, err := github.Connect(logr.Discard(), nil)(settings, observe)
	return killableGitHub{client, p}, err
}

type killableGitHub struct {
	github.Client
	process *process
}

func (g killableGitHub) CreateSession(ctx context.Context, scaleSetID int, owner string) (github.Session, error) {
	session, err := g.Client.CreateSession(ctx, scaleSetID, owner)
	return killableSession{session, g.process}, err
}

type killableSession struct {
	github.Session
	process *process
}

func (s killableSession) DeleteMessage(ctx context.Context, id int64) error {
	if s.process.killed.Load() {
		return nil
	}
	return s.Session.DeleteMessage(ctx, id)
}

func (s killableSession) Close(ctx context.Context) error {
	if s.process.killed.Load() {
		return nil
	}
	return s.Session.Close(ctx)
}
