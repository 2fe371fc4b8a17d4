package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/term"
)

// Sizes of the demonstration. There may be as many runners as jobs, so that the product is measured and not a queue of
// jobs.
const (
	jobCount    = 20
	maxRunners  = jobCount
	shortestJob = 2 * time.Second
	longestJob  = 15 * time.Second
)

// Names that belong to the demonstration.
const (
	runnerNamespace = "harrier-demo-runners"
	githubNamespace = "harrier-demo-github"
	scaleSetName    = "demo-runners"
)

// Deadlines, about ten times as long as what is waited for takes on two cores.
const (
	sessionLimit = 2 * time.Minute
	jobsLimit    = 4 * time.Minute // the longest job takes 15 s
	emptyLimit   = 2 * time.Minute
	ledgerLimit  = time.Minute
	// cleanUpLimit bounds everything after an interruption.
	cleanUpLimit = 3 * time.Minute
)

// settings come from environment variables, because make starts the demonstration.
type settings struct {
	// keep leaves everything running for a look around.
	keep bool
	// current uses the cluster of the current kubeconfig context instead of starting one.
	current bool
	// image is the product's, in a registry that the current cluster can pull from, or on its nodes if it is called
	// localhost/….
	image string
	// plain writes lines instead of redrawing a table.
	plain bool
	// root is the directory of go.mod.
	root string
}

func readSettings() (settings, error) {
	s := settings{
		keep:  os.Getenv("KEEP") != "" && os.Getenv("KEEP") != "0",
		image: os.Getenv("IMG"),
		plain: os.Getenv("CI") != "" || os.Getenv("TERM") == "dumb" || !term.IsTerminal(int(os.Stdout.Fd())),
	}
	switch cluster := os.Getenv("CLUSTER"); cluster {
	case "", "local":
	case "current":
		s.current = true
	default:
		return s, fmt.Errorf("CLUSTER=%q: leave it empty for a cluster on this machine, or use CLUSTER=current",
			cluster)
	}
	if s.current && s.image == "" {
		return s, errors.New("CLUSTER=current needs IMG=…, an image that the cluster can pull: make image push " +
			"IMG=registry/repository:tag pushes it; docs/quickstart.md says what it is with kind")
	}
	if !s.current && s.image != "" {
		return s, errors.New("IMG=… is for CLUSTER=current; the cluster on this machine gets images built from " +
			"this tree")
	}
	root, err := os.Getwd()
	if err != nil {
		return s, err
	}
	if _, err := os.Stat("go.mod"); err != nil {
		return s, fmt.Errorf("run this in the root of the source tree (make demo does): %w", err)
	}
	s.root = root
	return s, nil
}
