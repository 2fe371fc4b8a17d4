package main

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// observer watches GitHub and the cluster while jobs run.
type observer struct {
	site   *site.Site
	client client.Client
	config *rest.Config
	// watched has the objects in the runners' namespace.
	watched cache.Cache

	mu     sync.Mutex
	counts counts
}

// counts are the figures of the table.
type counts struct {
	queued, assigned, running, done int
	pending, up                     int
}

// observe starts an observer, which ends with ctx.
func observe(ctx context.Context, s *site.Site) (*observer, error) {
	config, direct, err := s.Client()
	if err != nil {
		return nil, err
	}
	watched, err := cache.New(config, cache.Options{
		Scheme: direct.Scheme(), DefaultNamespaces: map[string]cache.Config{runnerNamespace: {}},
	})
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	o := &observer{site: s, client: direct, config: config, watched: watched}
	if _, err := watched.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false)); err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	go func() { _ = watched.Start(ctx) }() // fails only if it is started twice
	if !watched.WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("watch pods: %w", context.Cause(ctx))
	}
	return o, nil
}

// look updates the counts and returns GitHub's state.
func (o *observer) look(ctx context.Context) (fakegithub.Snapshot, error) {
	snapshot, err := o.site.Control.Snapshot(ctx)
	if err != nil {
		return snapshot, fmt.Errorf("ask GitHub for its state: %w", err)
	}
	var pods corev1.PodList
	if err := o.watched.List(ctx, &pods); err != nil {
		return snapshot, fmt.Errorf("list pods: %w", err)
	}
	now := countJobs(snapshot.JobsByState)
	now.pending, now.up = countPods(pods.Items)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts = now
	return snapshot, nil
}

// countJobs counts jobs by state. Acquired and assigned jobs, which come from different flows, both wait for a runner
// and are counted together.
func countJobs(byState map[fakegithub.JobState]int) counts {
	return counts{
		queued:   byState["queued"],
		assigned: byState["acquired"] + byState["assigned"],
		running:  byState["running"],
		done:     byState["completed"],
	}
}

// countPods counts the pods of runners that have not ended and are not being deleted.
func countPods(pods []corev1.Pod) (pending, up int) {
	for i := range pods {
		switch {
		case pods[i].Labels[v1alpha1.LabelRunner] == "" || pods[i].DeletionTimestamp != nil:
		case pods[i].Status.Phase == corev1.PodRunning:
			up++
		case pods[i].Status.Phase == corev1.PodPending, pods[i].Status.Phase == "":
			pending++
		}
	}
	return pending, up
}

// latest returns the counts of the last look.
func (o *observer) latest() counts {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.counts
}

// table returns the lines that the screen draws while jobs run.
func (o *observer) table() []string { return o.latest().rows() }

func (c counts) rows() []string {
	return []string{
		"",
		fmt.Sprintf("    jobs     %3d queued   %3d assigned   %3d running   %3d done", c.queued, c.assigned, c.running,
			c.done),
		fmt.Sprintf("    runners  %3d pending  %3d running", c.pending, c.up),
	}
}
