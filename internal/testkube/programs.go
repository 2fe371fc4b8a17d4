package testkube

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// programsVariable names the environment variable with the directory that holds etcd, kube-apiserver and
// kube-controller-manager.
const programsVariable = "HARRIER_KUBERNETES"

var errNoModule = errors.New("no hack/kubernetes.sh in this directory or above it")

// Programs returns the directory with the programs of a cluster, kubectl and helm among them. If they have not been
// built yet, it builds them, which takes 6 to 9 minutes on two cores.
func Programs() (string, error) {
	if directory := os.Getenv(programsVariable); directory != "" {
		return directory, nil
	}
	root, err := moduleRoot()
	if err != nil {
		return "", fmt.Errorf("find the programs of a cluster (or set %s): %w", programsVariable, err)
	}
	var output bytes.Buffer
	script := exec.Command(filepath.Join(root, "hack", "kubernetes.sh"))
	script.Stdout, script.Stderr = &output, os.Stderr
	if err := script.Run(); err != nil {
		return "", fmt.Errorf("build the programs of a cluster with hack/kubernetes.sh: %w", err)
	}
	return strings.TrimSpace(output.String()), nil
}

// moduleRoot finds the project's directory by going up from the working directory, which go test sets to that of the
// package.
func moduleRoot() (string, error) {
	directory, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(directory, "hack", "kubernetes.sh")); err == nil {
			return directory, nil
		}
		parent := filepath.Dir(directory)
		if parent == directory {
			return "", errNoModule
		}
		directory = parent
	}
}
