// Command kubectl-harrier is a plugin of kubectl: in a directory of PATH, it is `kubectl harrier`. It shows scale sets and jobs to those who
// operate them; see docs/kubectl-harrier.md.
package main

import (
	"context"
	"os"

	"github.com/harrier-ci/harrier/internal/plugin"
)

func main() {
	os.Exit(plugin.Main(context.Background(), os.Args[1:], plugin.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
