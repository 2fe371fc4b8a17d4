// Command harrier is for people who install and operate runner scale sets: `harrier doctor` explains why jobs wait,
// `harrier validate` checks values and manifests before they are applied, `harrier convert` makes values from manifests
// of ARC's legacy mode, and `harrier history` keeps what becomes of jobs. The image and `make build` put it beside the
// manager, which runs it as `manager doctor` and so on: both charts and Helm's engine in it would cost each manager 10
// MiB.
package main

import (
	"context"
	"os"

	"github.com/harrier-ci/harrier/operations/commands"
	"github.com/harrier-ci/harrier/operations/history"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "history" {
		os.Exit(history.Main(os.Args[2:], os.Stderr))
	}
	// There is nothing to clean up, so signals end it as usual.
	os.Exit(commands.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
