// Command manager runs the controllers of runner scale sets.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/harrier-ci/harrier/internal/manager"
)

func main() {
	options, err := manager.ParseOptions(os.Args[1:], os.Getenv, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	log := manager.NewLogger(options, os.Stderr)
	if err := manager.Run(ctrl.SetupSignalHandler(), options, log); err != nil {
		log.Error(err, "Exiting")
		os.Exit(1)
	}
}
