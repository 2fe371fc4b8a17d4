package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// clientTrusting returns a client that trusts the certificates of the file too; nil, for the default, without a file.
func clientTrusting(file string) (*http.Client, error) {
	if file == "" {
		return nil, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read NODE_EXTRA_CA_CERTS: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, err
	}
	if !roots.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("read NODE_EXTRA_CA_CERTS: no certificate in %s", file)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return &http.Client{Transport: transport}, nil
}

// callHook runs the container hooks if there are any. The real runner does so when a job has come; this one does
// before: no job succeeds unless they do.
func callHook(ctx context.Context) error {
	program := os.Getenv("ACTIONS_RUNNER_CONTAINER_HOOKS")
	if program == "" {
		return nil
	}
	output, err := exec.CommandContext(ctx, program).CombinedOutput()
	if err != nil {
		return fmt.Errorf("container hook: %w: %s", err, output)
	}
	return nil
}

// errUnwritable has the real runner's words for an unwritable work folder. Its script turns that into exit code 0.
var errUnwritable = errors.New("access to the path '" + workFolder + "/_tool' is denied")

// Container modes mount the volume for the job's files at workFolder.
const workFolder = "/home/runner/_work"

// needWork fails with errUnwritable if there is a work folder that can't be written.
func needWork(folder string) error {
	if _, err := os.Stat(folder); err != nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(folder, "_tool"), 0o755); err != nil {
		return fmt.Errorf("%w: %w", errUnwritable, err)
	}
	return nil
}

// A runner takes toolDownload to get a tool that its cache lacks.
const toolDownload = 2 * time.Second

// useTools plays a step that sets up a tool. It takes the tool from the folder or, if it isn't there, downloads it
// first, and leaves it to later runners with the folder. Their list has a line for each runner: its name, and the time
// that it took, in milliseconds.
func useTools(ctx context.Context, folder string) error {
	if folder == "" {
		return nil
	}
	began, tool := time.Now(), filepath.Join(folder, "tool")
	if _, err := os.Stat(tool); err != nil {
		timer := time.NewTimer(toolDownload)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := os.WriteFile(tool, []byte("tool"), 0o600); err != nil {
			return fmt.Errorf("fill RUNNER_TOOL_CACHE: %w", err)
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	list, err := os.OpenFile(filepath.Join(folder, "users"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("list the users of RUNNER_TOOL_CACHE: %w", err)
	}
	_, err = fmt.Fprintf(list, "%s %d\n", host, time.Since(began).Milliseconds())
	return errors.Join(err, list.Close())
}

// needDocker fails if there should be a Docker daemon and it does not answer immediately: the chart's pod starts it
// before the runner and ends it after.
func needDocker() error {
	if os.Getenv("DOCKER_HOST") == "" {
		return nil
	}
	// Asked after the runner was told to end too, so not bound to its context; docker has a deadline of its own.
	output, err := exec.CommandContext(context.Background(), "docker", "info").CombinedOutput()
	if err != nil {
		return fmt.Errorf("docker info: %w: %s", err, output)
	}
	return nil
}

// trapsSignals reports whether the start script passes signals on to the runner, which then cancels its job.
func trapsSignals() bool {
	if value, set := os.LookupEnv("RUNNER_MANUALLY_TRAP_SIG"); set && value == "" {
		return false
	}
	var major, minor int
	_, err := fmt.Sscanf(os.Getenv("RUNNER_VERSION"), "%d.%d", &major, &minor)
	return err != nil || major > 2 || minor >= 299
}

// showWorker has this process be called like the real runner's while a job runs. Its name is that of its first thread.
func showWorker(works bool) {
	name := "run.sh"
	if works {
		name = "Runner.Worker"
	}
	if err := os.WriteFile("/proc/self/comm", []byte(name), 0o600); err != nil {
		log.Printf("call this process %s: %v", name, err)
	}
}
