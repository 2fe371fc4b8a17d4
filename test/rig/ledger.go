package rig

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/testkube/fakenode"
)

// Ports of the ledger's pod: of its page and API, and of its probes and metrics.
const (
	LedgerPort        = 8090
	LedgerMetricsPort = 8091
)

// ledgerContainer is the name of the ledger's container in the controller's chart.
const ledgerContainer = "history"

// ledgerAddresses are the flags with an address, and the variable by which fakenode tells the port on this machine.
var ledgerAddresses = map[string]string{"address": "RIG_LEDGER_ADDRESS", "metrics-address": "RIG_LEDGER_METRICS"}

// ledgerRun runs the ledger with the chart's arguments. Of its addresses only the ports are this machine's: where the
// chart or the program says that the loopback address is meant, 127.0.0.1 is the pod itself and 127.0.0.2 its address
// in the cluster.
type ledgerRun struct{ programRun }

// Run runs the ledger to its end.
func (l ledgerRun) Run(ctx context.Context, container *fakenode.Container) int {
	arguments := slices.Clone(container.Spec.Args)
	for flag, variable := range ledgerAddresses {
		_, port, err := net.SplitHostPort(container.Environment[variable])
		host, known := hostOfFlag(l.Path, flag, container.Spec.Args)
		if err == nil && known {
			arguments = append(arguments, fmt.Sprintf("--%s=%s", flag, net.JoinHostPort(host, port)))
		}
	}
	// The default, of which the node has to know that it is a path.
	container.Spec.Args = append(arguments, "--file", "/data/history.db")
	return l.programRun.Run(ctx, container)
}

// hostOfFlag returns the host of an address that the arguments have, or else the program's default. It returns false if
// the program doesn't know the flag.
func hostOfFlag(program, flag string, arguments []string) (host string, known bool) {
	help, _ := exec.Command(program, "history", "--help").CombinedOutput() // it exits as after a wrong command line
	address := regexp.MustCompile(`(?s)-` + flag + ` string\n[^\n]*\(default "([^"]*)"\)`).FindSubmatch(help)
	if address == nil {
		return "", false
	}
	chosen := string(address[1])
	for _, argument := range arguments {
		if value, ok := strings.CutPrefix(strings.TrimLeft(argument, "-"), flag+"="); ok {
			chosen = value
		}
	}
	host, _, err := net.SplitHostPort(chosen)
	return host, err == nil
}

// ledgerProgram builds the program with the ledger, a single time per test binary.
var ledgerProgram = sync.OnceValues(func() (string, error) {
	directory, err := filepath.Abs(filepath.Join(root, "bin", "rig"))
	if err != nil {
		return "", fmt.Errorf("find the directory of the programs: %w", err)
	}
	program := filepath.Join(directory, "harrier")
	command := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "./operations/cmd/harrier")
	command.Dir = root
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the ledger: %w\n%s", err, output)
	}
	return program, nil
})

func (r *Rig) ledgerRunner(t testing.TB) fakenode.Runner {
	t.Helper()
	program, err := ledgerProgram()
	if err != nil {
		t.Fatal(err)
	}
	exec := fakenode.Exec{
		Path: program, Args: []string{"history"},
		Ports: map[int32]string{
			LedgerPort: ledgerAddresses["address"], LedgerMetricsPort: ledgerAddresses["metrics-address"],
		},
	}
	exec.Environment = map[string]string{programVariable: r.mark(LedgerProgram)}
	return ledgerRun{programRun{Exec: exec, pods: &r.ledgers}}
}

// ledgerValues have the chart install the ledger.
func (r *Rig) ledgerValues() Values {
	return Values{"enabled": true, "storage": Values{"emptyDir": true}}
}

// LedgerPod returns the ledger's pod, nil if it doesn't run.
func (r *Rig) LedgerPod() *corev1.Pod {
	r.t.Helper()
	for _, pod := range r.pods(r.SystemNamespace) {
		if len(pod.Spec.Containers) > 0 && pod.Spec.Containers[0].Name == ledgerContainer {
			return &pod
		}
	}
	return nil
}

// LedgerAddress returns the address on loopback by which whoever is in the ledger's pod, or has forwarded a port, asks.
func (r *Rig) LedgerAddress(pod *corev1.Pod, port int32) (string, error) {
	return r.Node.Address(client.ObjectKeyFromObject(pod), port)
}
