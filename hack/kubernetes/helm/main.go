// Command helm is Helm, of the same Kubernetes libraries as command kubernetes. It is not part of that binary because
// the tests of the charts start it more than a thousand times, and half of such a start would be spent on the packages
// of the others.
package main

import (
	"errors"
	"os"

	helm "helm.sh/helm/v4/pkg/cmd"
	helmkube "helm.sh/helm/v4/pkg/kube"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
)

func main() { os.Exit(run()) }

// run returns the exit code.
func run() int {
	helmkube.ManagedFieldsManager = "helm"
	command, err := helm.NewRootCmd(os.Stdout, os.Args[1:], helm.SetupLogging)
	if err == nil {
		err = command.Execute()
	}
	var coded helm.CommandError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &coded):
		return coded.ExitCode
	default:
		return 1
	}
}
