// Command kubectl-harrier is a plugin of kubectl: in a directory of PATH, it is `kubectl harrier`. It shows scale sets
// and jobs to those who operate them; see docs/kubectl-harrier.md.
package main

import (
	"context"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/operations/plugin"
)

func main() {
	// What libraries log would tear a table, and says nothing that an error doesn't. klog's logger is set before
	// anything can log: it has no lock.
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	os.Exit(plugin.Main(context.Background(), os.Args[1:], plugin.Streams{
		In:  os.Stdin,
		Out: os.Stdout,
		Err: os.Stderr,
	}))
}
