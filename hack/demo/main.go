// Command demo shows the product at work: it starts a Kubernetes cluster of one node on this machine (hack/cluster)
// with a simulated GitHub beside it, installs both charts, queues 20 jobs, shows how runners come and go, measures
// that, uninstalls everything and checks that nothing is left. If anything is not as expected, it prints the reason and
// exits with 1.
//
//	make demo                     needs root on Debian; installs the packages that are missing
//	make demo KEEP=1              leaves everything running and prints how to look at it; make demo-down removes it
//	make demo CLUSTER=current IMG=registry/repository:tag
//	                              uses the cluster of the current kubeconfig context; make image push IMG=… pushes
//	                              the images that it pulls: the product as IMG, GitHub and runner as IMG-demo
//
// Ctrl-C ends it and cleans up. A second one ends it immediately; make demo-down then cleans up.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"golang.org/x/term"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/hack/cluster"
	"github.com/harrier-ci/harrier/hack/site"
)

func main() {
	log.SetLogger(logr.Discard()) // controller-runtime's logs would disturb the table
	ctx, cancel := context.WithCancelCause(context.Background())
	go cancelOnSignal(cancel)
	if err := start(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// cancelOnSignal lets the first signal end the demonstration in order, and the second one end the process.
func cancelOnSignal(cancel context.CancelCauseFunc) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	received := <-signals
	signal.Reset(os.Interrupt, syscall.SIGTERM)
	cancel(fmt.Errorf("interrupted (%s)", received))
}

func start(ctx context.Context, arguments []string) error {
	set, err := readSettings()
	s := newScreen(set)
	switch {
	case err != nil:
		return err // also for down, which must not remove another cluster than the one that is meant
	case len(arguments) == 1 && arguments[0] == "down":
		return down(ctx, s, set)
	case len(arguments) > 0:
		return errors.New("usage: go run ./hack/demo [down]")
	}
	// Of the lines of hack/build.sh, the screen chooses.
	if err := os.Setenv("HARRIER_PROGRESS_SECONDS", "1"); err != nil {
		return err
	}
	d := &demo{screen: s, settings: set}
	d.introduce()
	err = d.everything(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		err = context.Cause(ctx) // says more than the error of the interrupted step
		d.settings.keep = false
		d.screen.say("Interrupted: cleaning up. A second Ctrl-C ends at once; make demo-down then removes what " +
			"is left.")
	case err != nil:
		d.diagnose()
	}
	return errors.Join(err, d.close(err != nil))
}

// everything makes the site and runs the demonstration on it. If the site could be made only in part, it is kept for
// close to remove.
func (d *demo) everything(ctx context.Context) error {
	var err error
	if d.settings.current {
		d.site, err = currentSite(ctx, d.screen, d.settings)
	} else {
		d.site, err = site.Local(ctx, d.settings.root, d.screen.step)
	}
	if err != nil {
		return err
	}
	d.site.Progress = noteWriter{d.screen}
	return d.run(ctx)
}

func down(ctx context.Context, s *screen, set settings) error {
	if set.current {
		return s.step("removing the demonstration from the current cluster", func(io.Writer) error {
			return removeCurrent(ctx)
		})
	}
	return s.step("removing the cluster on this machine", func(progress io.Writer) error {
		return cluster.Remove(ctx, cluster.Options{Progress: progress})
	})
}

func newScreen(set settings) *screen {
	s := &screen{out: os.Stdout, live: !set.plain}
	if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
		s.width = width
	}
	return s
}
