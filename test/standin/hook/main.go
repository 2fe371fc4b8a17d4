// Command hook plays the hook by which a runner in the container modes kubernetes and kubernetes-novolume runs a job's
// containers as pods: it does with the rights of the runner pod's ServiceAccount what the real one does. Called with "job" and
// "step" it is what runs in such a pod.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
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
		return nil
	default:
		return fmt.Errorf("nobody plays %q here", words)
	}
}
