// Command manager runs the controllers of runner scale sets. `manager doctor` explains why jobs wait, and `manager validate`
// checks values and manifests before they are applied.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/harrier-ci/harrier/internal/doctor"
	"github.com/harrier-ci/harrier/internal/manager"
)

func main() {
	if doctor.IsCommand(os.Args[1:]) { // they have nothing to clean up, so signals end them as usual
		os.Exit(doctor.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
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
