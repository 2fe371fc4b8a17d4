// Command hook plays the container hooks by which a runner in the container modes kubernetes and kubernetes-novolume
// runs a job's containers as pods. It makes the same requests to the API server, with the rights of the runner pod's
// ServiceAccount. Under a path without "novolume" it acts as version 0.7: runner and job share a volume. Under the
// other it acts as 0.8: files are copied. Called with "job" and "step" it runs in such a pod.
//
// Variables stand for the workflow: JOB_IMAGE is the image of its containers, and with STEP_SLEEPS, a duration, a step
// "uses: docker://" still works when the hook ends, as when a runner dies.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := play(ctx, os.Args[1:])
	stop()
	if err != nil {
		log.Fatalf("hook: %v", err)
	}
}

func play(ctx context.Context, words []string) error {
	switch {
	case len(words) == 0:
		return runJob(ctx)
	case words[0] == "job":
		log.Print(jobLine)
		<-ctx.Done()
		return nil
	case words[0] == "step":
		log.Print(stepLine)
		return sleep(ctx, words[1:])
	default:
		return fmt.Errorf("nobody plays %q here", words)
	}
}

// sleep waits as long as the word says, or not at all.
func sleep(ctx context.Context, words []string) error {
	if len(words) == 0 {
		return nil
	}
	long, err := time.ParseDuration(words[0])
	if err != nil {
		return err
	}
	select {
	case <-time.After(long):
	case <-ctx.Done():
	}
	return nil
}
