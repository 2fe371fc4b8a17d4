// Command apiserver is a cluster without nodes, for scripts: etcd, an API server and a controller manager (package
// testkube). It prints the path of its administrator's kubeconfig, and ends with SIGINT or SIGTERM.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/harrier-ci/harrier/internal/testkube"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "apiserver:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Without our kinds: the charts bring them.
	cluster, err := testkube.Launch(ctx, testkube.Options{ControllerManager: true, CRDs: []string{}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	fmt.Println(cluster.AdminKubeconfig())
	<-ctx.Done()
	return nil
}
