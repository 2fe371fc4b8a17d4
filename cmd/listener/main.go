// Command listener is the process in a listener pod; in the image it is /ghalistener. It reads its configuration from
// the file that LISTENER_CONFIG_PATH names. It exits with 0 when asked to stop, and with 1 if it can't start.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/harrier-ci/harrier/internal/listener"
	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/internal/wallclock"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(output.NewWriter(os.Stderr), err)
		os.Exit(1)
	}
}

// garbagePercent lets the heap grow by a quarter between collections, because every scale set has a listener. The heap
// is 3 MiB and a message makes little garbage, so this costs hardly any CPU. GOGC in the environment takes precedence.
const garbagePercent = 25

func run() error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	kubernetes, err := kubernetesConfig()
	if err != nil {
		return fmt.Errorf("find the Kubernetes API: %w", err)
	}
	return listener.Run(ctx, listener.Options{Kubernetes: kubernetes, Clock: wallclock.System()})
}

// kubernetesConfig returns the pod's configuration, unless KUBECONFIG names a file, as it does in development.
func kubernetesConfig() (*rest.Config, error) {
	if path := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); path != "" {
		return clientcmd.BuildConfigFromFlags("", path)
	}
	return rest.InClusterConfig()
}
