// Command runner is the binary of the simulated runner image that clusters run against fakegithub: it takes the place
// of /home/runner/run.sh, reads its JIT config from the environment, runs one job and exits as the real container
// would. SIGTERM ends it: immediately if idle, otherwise with its job canceled. Before 2.299, and with an empty
// RUNNER_MANUALLY_TRAP_SIG, which GitHub's image sets, SIGTERM does nothing. While a job runs, a process is called
// Runner.Worker: this one.
//
// Like the real image it trusts the authority in NODE_EXTRA_CA_CERTS, needs the Docker daemon of DOCKER_HOST and a
// writable work folder, takes its tools from RUNNER_TOOL_CACHE, and calls its container hooks and those of a job's
// start and end.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/harrier-ci/harrier/internal/fakegithub"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	if !trapsSignals() {
		signal.Ignore(syscall.SIGTERM)
	}
	code, err := run(ctx)
	stop()
	if err != nil {
		log.Printf("no job was run to its end: %v", err)
	}
	os.Exit(code)
}

// run returns the exit code, and an error if no job was run to its end.
func run(ctx context.Context) (int, error) {
	config := os.Getenv("ACTIONS_RUNNER_INPUT_JITCONFIG")
	if config == "" {
		return fakegithub.ExitBadCommand, errors.New("ACTIONS_RUNNER_INPUT_JITCONFIG is not set")
	}
	// A real runner keeps the config from the processes it starts.
	if err := os.Unsetenv("ACTIONS_RUNNER_INPUT_JITCONFIG"); err != nil {
		return fakegithub.ExitBadCommand, fmt.Errorf("hide the JIT config: %w", err)
	}
	client, err := clientTrusting(os.Getenv("NODE_EXTRA_CA_CERTS"))
	if err != nil {
		return fakegithub.ExitBadCommand, err
	}
	if err := needWork(workFolder); err != nil {
		return fakegithub.ExitDone, err
	}
	if err := useTools(ctx, os.Getenv("RUNNER_TOOL_CACHE")); err != nil {
		return fakegithub.ExitBadCommand, err
	}
	if err := callHook(ctx); err != nil {
		return fakegithub.ExitBadCommand, err
	}
	if err := needDocker(); err != nil {
		return fakegithub.ExitBadCommand, fmt.Errorf("before the job: %w", err)
	}
	code, err := fakegithub.RunRunner(ctx, config, fakegithub.RunnerOptions{
		Client:                  client,
		Version:                 os.Getenv("RUNNER_VERSION"),
		ReturnVersionDeprecated: os.Getenv("ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE") == "1",
		Started:                 startedHook.in(workFolder),
		Completed:               completedHook.in(workFolder),
		Works:                   showWorker,
		Log:                     func(line string) { log.Print(line) },
	})
	if gone := needDocker(); gone != nil {
		return fakegithub.ExitBadCommand, fmt.Errorf("after the job: %w", gone)
	}
	return code, err
}
