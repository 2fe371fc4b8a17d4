// Command docker plays the Docker daemon and its client for the container mode dind of the scale set chart, as far as
// the chart's pod depends on them. Called cp, it is the one program of the real runner's image that the pod's init
// container uses.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := play(ctx, append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...))
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func play(ctx context.Context, words []string) error {
	switch {
	case len(words) == 4 && words[0] == "cp" && words[1] == "-r":
		return os.CopyFS(words[3], os.DirFS(filepath.Clean(words[2])))
	case len(words) > 1 && words[1] == "dockerd":
		return daemon(ctx, words[2:])
	case len(words) == 2 && words[1] == "info":
		return info(ctx)
	default:
		return fmt.Errorf("nobody plays %q here", words)
	}
}
