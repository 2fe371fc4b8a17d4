package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/harrier-ci/harrier/hack/installation"
	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/operations/plugin/ledger"
)

// demo is one run of the demonstration on a site.
type demo struct {
	screen   *screen
	settings settings
	site     *site.Site
	observer *observer
	past     past
	// emptied is the time from the end of the last job until no runner was left anywhere.
	emptied time.Duration
}

// run shows the product's whole life cycle: installed, under a burst of jobs, idle again, uninstalled. Its error names
// the first thing that was not as expected.
func (d *demo) run(ctx context.Context) error {
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"helm install of the controller", d.installController},
		{"helm install of a scale set", d.installScaleSet},
		{"listener holds a session on GitHub", d.awaitSession},
		{fmt.Sprintf("%d jobs", jobCount), d.runJobs},
		{"no runner is left", d.awaitNoRunners},
		{"the ledger knows how each job ended", d.askLedger},
	} {
		if err := d.screen.step(step.name, func(io.Writer) error { return step.do(ctx) }); err != nil {
			return err
		}
	}
	if err := d.report(ctx); err != nil {
		return err
	}
	if d.settings.keep {
		return nil
	}
	if err := d.screen.step("helm uninstall of both", func(io.Writer) error { return d.uninstall(ctx) }); err != nil {
		return err
	}
	d.screen.say("  left after helm uninstall: nothing on GitHub, nothing in the cluster")
	return nil
}

func (d *demo) installController(ctx context.Context) error {
	values := d.site.ControllerValues()
	// A cluster for a demonstration may have no storage, and nothing is to be left.
	values["history"] = site.Values{"enabled": true, "storage": site.Values{"emptyDir": true, "size": "100Mi"}}
	return d.site.Install(ctx, site.ControllerName, site.ControllerChart, site.SystemNamespace, values)
}

func (d *demo) installScaleSet(ctx context.Context) error {
	values := d.site.ScaleSetValues(scaleSetName, 0, maxRunners)
	if err := d.site.Install(ctx, scaleSetName, site.ScaleSetChart, runnerNamespace, values); err != nil {
		return err
	}
	var err error
	d.observer, err = observe(ctx, d.site)
	return err
}

func (d *demo) awaitSession(ctx context.Context) error {
	return d.site.Await(ctx, "the listener to hold a session", sessionLimit, func() (string, error) {
		snapshot, err := d.observer.look(ctx)
		if err != nil {
			return "", err
		}
		switch {
		case len(snapshot.ScaleSets) == 0:
			return "the scale set is not on GitHub", nil
		case len(snapshot.Sessions) == 0 || !snapshot.Sessions[0].Polling:
			return "nobody polls the scale set's messages", nil
		default:
			return "", nil
		}
	})
}

// runJobs queues all jobs together and waits for the last one to complete.
func (d *demo) runJobs(ctx context.Context) error {
	d.screen.show(d.observer.table)
	_, err := d.site.Control.QueueJobs(ctx, fakegithub.JobRequest{
		Count: jobCount, ScaleSet: scaleSetName, Durations: durations(jobCount), Name: "demo",
	})
	if err != nil {
		return fmt.Errorf("queue jobs: %w", err)
	}
	err = d.site.Await(ctx, "all jobs to complete", jobsLimit, func() (string, error) {
		if _, err := d.observer.look(ctx); err != nil {
			return "", err
		}
		if counts := d.observer.latest(); counts.done < jobCount {
			return fmt.Sprintf("%d of %d are done, %d run, %d wait", counts.done, jobCount, counts.running,
				counts.queued+counts.assigned), nil
		}
		return "", nil
	})
	if err != nil {
		return err
	}
	jobs, err := d.site.Control.Jobs(ctx, "")
	if err != nil {
		return fmt.Errorf("ask GitHub for the jobs: %w", err)
	}
	if bad := badJobs(jobs); len(bad) > 0 {
		return fmt.Errorf("%d jobs did not succeed: %s", len(bad), installation.Shorten(bad, 5))
	}
	return nil
}

// askLedger reads what the ledger knows, as soon as it knows how all jobs ended: it learns that from the same status of
// runners that the cluster forgets with them.
func (d *demo) askLedger(ctx context.Context) error {
	from, err := ledger.Find(ctx, d.observer.client, d.observer.config, ledger.Wanted{Namespace: site.SystemNamespace})
	if err != nil {
		return err
	}
	return d.site.Await(ctx, "the ledger to know how each job ended", ledgerLimit, func() (string, error) {
		jobs, _, err := from.Jobs(ctx, nil)
		if err != nil {
			return err.Error(), nil // its pod may be busy
		}
		if d.past = pastOf(jobs); d.past.ended < jobCount {
			return fmt.Sprintf("it knows that of %d of %d", d.past.ended, jobCount), nil
		}
		return "", nil
	})
}

// durations returns the durations of count jobs, from the shortest to the longest in equal steps, so that every run has
// the same work.
func durations(count int) []fakegithub.Duration {
	spread := make([]fakegithub.Duration, count)
	for i := range spread {
		spread[i] = fakegithub.Duration(shortestJob +
			(longestJob-shortestJob)*time.Duration(i)/time.Duration(max(count-1, 1)))
	}
	return spread
}

func (d *demo) awaitNoRunners(ctx context.Context) error {
	d.screen.show(d.observer.table)
	begin := time.Now()
	err := d.site.Await(ctx, "every runner to be gone", emptyLimit, func() (string, error) {
		snapshot, err := d.observer.look(ctx)
		if err != nil {
			return "", err
		}
		left, err := site.RunnersLeft(ctx, d.observer.client, runnerNamespace)
		return installation.Shorten(append(installation.LeftOnGitHub(snapshot, false), left...), 5), err
	})
	d.emptied = time.Since(begin)
	return err
}

// report prints what the ledger says. It fails if GitHub saw something that must never happen, such as a job that was
// cut short.
func (d *demo) report(ctx context.Context) error {
	snapshot, err := d.observer.look(ctx)
	if err != nil {
		return err
	}
	if len(snapshot.Anomalies) > 0 {
		var anomalies []string
		for _, anomaly := range snapshot.Anomalies {
			anomalies = append(anomalies, anomaly.String())
		}
		return fmt.Errorf("GitHub saw what must never happen: %s", installation.Shorten(anomalies, 5))
	}
	for _, line := range d.past.lines() {
		d.screen.say("%s", line)
	}
	d.screen.say("  last job completed → no runner left: %s", seconds(d.emptied))
	d.screen.say("  left after the jobs: on GitHub the scale set %s and no runner; in the cluster no "+
		"EphemeralRunner, runner pod or JIT Secret", scaleSetName)
	d.screen.say("")
	return nil
}

// uninstall removes the scale set first, because the controller removes it from GitHub.
func (d *demo) uninstall(ctx context.Context) error {
	if err := d.site.Uninstall(ctx, scaleSetName, runnerNamespace); err != nil {
		return err
	}
	if err := d.site.AwaitNoScaleSets(ctx, d.observer.client); err != nil {
		return err
	}
	if err := d.site.Uninstall(ctx, site.ControllerName, site.SystemNamespace); err != nil {
		return err
	}
	return d.site.AwaitUninstalled(ctx, d.observer.client, site.SystemNamespace, runnerNamespace)
}

// close removes the site, or gives it up if it is to stay. It works after an interruption as well, because it has a
// deadline of its own.
func (d *demo) close(failed bool) error {
	if d.site == nil {
		return nil
	}
	if d.settings.keep {
		d.explain(failed)
		d.site.Leave()
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpLimit)
	defer cancel()
	return d.screen.step("tear down", func(io.Writer) error {
		if err := d.site.Down(ctx); err != nil {
			return errors.Join(err, errors.New("make demo-down removes what is left"))
		}
		return nil
	})
}
