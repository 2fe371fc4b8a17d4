// Command manager runs the controllers of runner scale sets. With a word before its flags (`manager doctor`,
// `manager history`) it runs the program harrier, which stands beside it and has these commands.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/harrier-ci/harrier/internal/manager"
	"github.com/harrier-ci/harrier/internal/output"
)

// operatorProgram has the commands for people, in the manager's own directory. exitUnable is its exit code if it can't
// do its work.
const (
	operatorProgram = "harrier"
	exitUnable      = 2
)

func main() {
	if len(os.Args) > 1 && os.Args[1] != "" && !strings.HasPrefix(os.Args[1], "-") {
		fmt.Fprintln(os.Stderr, handOver())
		os.Exit(exitUnable)
	}
	options, err := manager.ParseOptions(os.Args[1:], os.Getenv, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(output.NewWriter(os.Stderr), err)
		os.Exit(1)
	}
	log := manager.NewLogger(options, os.Stderr)
	if err := manager.Run(ctrl.SetupSignalHandler(), options, log); err != nil {
		log.Error(err, "Exiting")
		os.Exit(1)
	}
}

// handOver replaces this process by the program for people, with the same arguments. It returns only if that fails.
func handOver() error {
	own, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program %s, which has the command %s: %w", operatorProgram, os.Args[1], err)
	}
	program := filepath.Join(filepath.Dir(own), operatorProgram)
	arguments := append([]string{program}, os.Args[1:]...)
	err = syscall.Exec(program, arguments, os.Environ()) //nolint:gosec // a program of ours, by its fixed name
	return fmt.Errorf(
		"run %s, which has the command %s: %w; make build and the image put it beside the manager",
		program, os.Args[1], err,
	)
}
