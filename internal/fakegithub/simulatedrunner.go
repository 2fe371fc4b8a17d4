package fakegithub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/internal/fakegithub/releases"
	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// Exit codes of a runner container (not of the listener process inside it, most
// of whose codes run.sh turns into 0).
const (
	ExitDone       = 0
	ExitOutdated   = 7
	ExitKilled     = 137 // 128 + SIGKILL
	ExitBadCommand = 2
)

// Why a runner ended without having run a job to its end.
var (
	// ErrRunnerRefused: the service did not accept the JIT config, or has deleted
	// the registration.
	ErrRunnerRefused = errors.New("the service refused the runner")
	// ErrRunnerOutdated: the runner's version is deprecated.
	ErrRunnerOutdated = errors.New("the runner's version is deprecated")
	// ErrRunnerTerminated: the context ended; a job under way was canceled.
	ErrRunnerTerminated = errors.New("the runner was terminated")
	// ErrRunnerKilled: Kill was closed; the service learns nothing.
	ErrRunnerKilled = errors.New("the runner was killed")
)

// DefaultRunnerVersion is the version that a simulated runner says it has.
const DefaultRunnerVersion = "2.337.0"

// RunnerOptions are the settings of a simulated runner.
type RunnerOptions struct {
	// Client defaults to http.DefaultClient. Its timeout must exceed the poll length.
	Client *http.Client
	// Clock serves the pauses between retries; default the real one.
	Clock clock.Clock
	// Version defaults to DefaultRunnerVersion.
	Version string
	// ReturnVersionDeprecated lets a deprecated runner exit with 7 instead of 0, as
	// ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE=1 does, if its version knows that variable.
	ReturnVersionDeprecated bool
	// Windows plays run.cmd instead of run.sh.
	Windows bool
	// Kill, when closed, ends the runner without a farewell, like SIGKILL.
	Kill <-chan struct{}
	// Started and Completed, if set, are steps of the job that the runner adds by itself before all others and after
	// them.
	Started, Completed JobHook
	// Works, if set, is told when a job begins, and when it is over or given up.
	Works func(bool)
	// Log, if set, gets one line for each thing that happens.
	Log func(line string)
}

// JobHook runs such a step with what the job's workflow run says in variables. The end of ctx asks it to end.
type JobHook func(ctx context.Context, environment map[string]string) Step

// RunRunner behaves as the container of an ephemeral runner: it connects with
// the JIT config, waits for one job, runs it and returns. Ending ctx is SIGTERM.
// It returns the container's exit code, and an error when no job was run to its end.
func RunRunner(ctx context.Context, encodedJITConfig string, opts RunnerOptions) (int, error) {
	file, credentials, err := decodeJITConfig(encodedJITConfig)
	if err != nil {
		return ExitBadCommand, err
	}
	id, err := strconv.Atoi(file.AgentID)
	if err != nil {
		return ExitBadCommand, ErrBadJITConfig
	}
	opts.setDefaults()
	r := &simulatedRunner{
		opts: opts, base: file.ServerURL + "/_runner/",
		call: runnerCall{
			RunnerID: id, Instance: uuid.NewString(), ClientID: credentials.Data.ClientID, Version: opts.Version,
			HoldsEnd: opts.Completed != nil,
		},
	}
	living, end := context.WithCancelCause(ctx)
	defer end(nil)
	stopWatching := r.watchKill(living, end)
	defer stopWatching()
	err = r.run(living)
	if opts.killed() {
		return ExitKilled, ErrRunnerKilled
	}
	if living.Err() != nil && err != nil {
		r.leave(ctx)
		return ExitDone, ErrRunnerTerminated
	}
	if errors.Is(err, ErrRunnerOutdated) && opts.ReturnVersionDeprecated {
		return opts.refusedCode(), err
	}
	return ExitDone, err
}

// refusedCode returns the exit code of the container of a runner whose version is refused and that is asked to tell.
func (o *RunnerOptions) refusedCode() int {
	release := releases.Of(o.Version)
	if o.Windows {
		return release.Cmd
	}
	return release.Sh
}

func (o *RunnerOptions) setDefaults() {
	setDefault(&o.Version, DefaultRunnerVersion)
	if o.Client == nil {
		o.Client = http.DefaultClient
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Works == nil {
		o.Works = func(bool) {}
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
}

// killed reports whether Kill was closed. Whoever kills a runner may end its context as well, and the watcher sees
// either first.
func (o *RunnerOptions) killed() bool {
	select {
	case <-o.Kill:
		return true
	default:
		return false
	}
}

type simulatedRunner struct {
	opts RunnerOptions
	base string
	call runnerCall
	// environment is that of the job.
	environment map[string]string
}

// watchKill lets Kill end the runner's context with a cause of its own, so that no
// farewell is sent. The returned function must be called; it waits for the watcher.
func (r *simulatedRunner) watchKill(ctx context.Context, end context.CancelCauseFunc) (stop func()) {
	if r.opts.Kill == nil {
		return func() {}
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-r.opts.Kill:
			end(ErrRunnerKilled)
		case <-ctx.Done():
		}
	}()
	return func() { end(nil); <-over }
}

func (r *simulatedRunner) run(ctx context.Context) error {
	if _, err := r.persist(ctx, "connect"); err != nil {
		return err
	}
	r.opts.Log("connected, listening for jobs")
	for {
		event, err := r.persist(ctx, "wait")
		if err != nil {
			return err
		}
		switch event.Event {
		case state.JobEvent:
			r.opts.Log("running job: " + event.Name)
			r.opts.Works(true)
			defer r.opts.Works(false)
			r.call.KnowsJob, r.environment = true, event.Environment
			if r.opts.Started != nil {
				err = r.report(ctx, r.opts.Started(ctx, r.environment), false)
			}
		case state.EndEvent:
			r.call.KnowsEnd = true
			err = r.report(ctx, r.completed(ctx), true)
		case state.DoneEvent:
			r.opts.Log("job " + event.Name + " completed with result: " + event.Result)
			return nil
		case state.RemoveEvent:
			return fmt.Errorf("%w: its registration was deleted", ErrRunnerRefused)
		}
		if err != nil {
			return err
		}
	}
}

// completed runs the last step. If the job is canceled meanwhile, that is asked to end.
func (r *simulatedRunner) completed(ctx context.Context) Step {
	running, end := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			if event, err := r.persist(running, "wait"); err != nil || event.Event != state.NoEvent {
				end()
				return
			}
		}
	})
	step := r.opts.Completed(running, r.environment)
	end()
	watching.Wait()
	return step
}

// report tells the service of a step.
func (r *simulatedRunner) report(ctx context.Context, step Step, last bool) error {
	r.call.Step, r.call.Last = &step, last
	defer func() { r.call.Step, r.call.Last = nil, false }()
	_, err := r.persist(ctx, "report")
	return err
}

// leave tells the service that the process ends, even though its context has.
func (r *simulatedRunner) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, _ = r.ask(ctx, "leave") // a service that can't be reached finds out by itself
}

// persist asks until there is an answer that means something: like the real
// runner it does not give up on a network or a service that is down.
func (r *simulatedRunner) persist(ctx context.Context, what string) (runnerEvent, error) {
	pause := 250 * time.Millisecond
	for {
		event, err := r.ask(ctx, what)
		if err == nil || errors.Is(err, ErrRunnerRefused) || errors.Is(err, ErrRunnerOutdated) {
			return event, err
		}
		timer := r.opts.Clock.NewTimer(pause)
		select {
		case <-timer.C():
			pause = min(2*pause, 10*time.Second)
		case <-ctx.Done():
			timer.Stop()
			return event, ctx.Err()
		}
	}
}

// ask makes one call. Only ErrRunnerRefused and ErrRunnerOutdated are final.
func (r *simulatedRunner) ask(ctx context.Context, what string) (event runnerEvent, err error) {
	body, err := json.Marshal(r.call)
	if err != nil {
		return event, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.base+what, bytes.NewReader(body))
	if err != nil {
		return event, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := r.opts.Client.Do(request)
	if err != nil {
		return event, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return event, err
	}
	switch {
	case response.StatusCode == http.StatusUpgradeRequired:
		return event, ErrRunnerOutdated
	case response.StatusCode >= 500 || response.StatusCode == http.StatusTooManyRequests:
		return event, fmt.Errorf("%s: status %d", what, response.StatusCode)
	case response.StatusCode >= 400:
		return event, fmt.Errorf("%w: %s: status %d", ErrRunnerRefused, what, response.StatusCode)
	case len(answer) == 0:
		return event, nil
	}
	return event, json.Unmarshal(answer, &event)
}
