package rig

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube/fakenode"
)

// Names of containers in the controller's chart.
const (
	managerContainer        = "manager"
	uninstallCheckContainer = "check"
)

// logsVariable names the environment variable with the directory to which the logs of the programs are saved.
const logsVariable = "HARRIER_RIG_LOGS"

// owns reports whether the pod belongs to this rig. Pods of an earlier one may still be terminating.
func (r *Rig) owns(pod *corev1.Pod) bool { return r.ownsNamespace(pod.Namespace) }

func (r *Rig) ownsNamespace(namespace string) bool {
	return namespace == r.SystemNamespace || namespace == r.RunnerNamespace ||
		slices.Contains(r.options.FurtherNamespaces, namespace)
}

// RunRunner runs the runner container, and returns its exit code. Options.Containers may have it done otherwise.
func (r *Rig) RunRunner(ctx context.Context, container *fakenode.Container) int {
	code, err := fakegithub.RunRunner(ctx, container.Environment["ACTIONS_RUNNER_INPUT_JITCONFIG"],
		fakegithub.RunnerOptions{
			Version:                 container.Environment["RUNNER_VERSION"],
			ReturnVersionDeprecated: container.Environment["ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE"] == "1",
			Kill:                    container.Killed(),
		})
	if err != nil && ctx.Err() == nil {
		r.t.Logf("runner %s ended without a job: %v", container.Pod.Name, err)
	}
	return code
}

// Environment variables with which fakenode tells the manager's addresses. managerRun turns them into the manager's
// flags.
const (
	managerHealth  = "RIG_HEALTH_ADDRESS"
	managerMetrics = "RIG_METRICS_ADDRESS"
)

// programVariable marks the processes of the product, see Usage.
const programVariable = "RIG_PROGRAM"

// programRun runs a program of the product as a container and remembers its pods for their logs.
type programRun struct {
	fakenode.Exec
	pods *podNames
	// path returns the program's path in an image. Nil means that it is always the same.
	path func(image string) string
}

// clockVariable names the environment variable by whose duration the program's clock is ahead. Package wallclock reads
// it in programs that are built with the tag rig.
const clockVariable = "RIG_CLOCK_OFFSET"

// Run runs the program to its end.
func (p programRun) Run(ctx context.Context, container *fakenode.Container) int {
	p.pods.add(types.NamespacedName{Namespace: container.Pod.Namespace, Name: container.Pod.Name})
	if ahead := time.Duration(p.pods.ahead.Load()); ahead != 0 {
		container.Environment[clockVariable] = ahead.String()
	}
	if p.path != nil {
		p.Path = p.path(container.Spec.Image)
	}
	return p.Exec.Run(ctx, container)
}

// managerRun runs the manager with the chart's arguments and this machine's addresses.
type managerRun struct{ programRun }

// Run runs the manager to its end.
func (m managerRun) Run(ctx context.Context, container *fakenode.Container) int {
	container.Spec.Args = append(slices.Clone(container.Spec.Args),
		"--health-probe-bind-address="+container.Environment[managerHealth],
		"--metrics-addr="+container.Environment[managerMetrics])
	return m.programRun.Run(ctx, container)
}

func (r *Rig) managerRunner() fakenode.Runner {
	// The ports are those of the rig's chart values.
	exec := fakenode.Exec{Ports: map[int32]string{8081: managerHealth, 8080: managerMetrics}}
	exec.Environment = r.environment(ManagerProgram)
	return managerRun{programRun{Exec: exec, pods: &r.managers, path: r.managerIn}}
}

func (r *Rig) listenerRunner() fakenode.Runner {
	exec := fakenode.Listener("")
	exec.Environment = r.environment(ListenerProgram)
	return programRun{Exec: exec, pods: &r.listeners, path: func(image string) string {
		return r.productIn(image).Listener
	}}
}

// checkRunner runs the check before the controller's chart is uninstalled.
func (r *Rig) checkRunner() fakenode.Runner {
	return programRun{pods: &r.checks, path: r.managerIn}
}

func (r *Rig) managerIn(image string) string { return r.productIn(image).Manager }

// environment is added to that of a program's containers. With the race detector, where neither memory nor time is
// measured, garbage is collected less often than in the shipped programs.
func (r *Rig) environment(program Program) map[string]string {
	environment := map[string]string{programVariable: r.mark(program)}
	if raceEnabled && !r.options.AsShipped {
		environment["GOGC"] = "200"
	}
	return environment
}

// podNames are the names of all pods in which a program ran.
type podNames struct {
	ahead atomic.Int64 // of the program's clock, in nanoseconds, see SetClock

	mutex sync.Mutex
	names []types.NamespacedName
}

func (p *podNames) add(pod types.NamespacedName) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if !slices.Contains(p.names, pod) {
		p.names = append(p.names, pod)
	}
}

// logs returns the container's output, over all its pods.
func (p *podNames) logs(node *fakenode.Node, container string) string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var all strings.Builder
	for _, pod := range p.names {
		log, err := node.Log(pod, container)
		if err != nil {
			continue // it has not started yet
		}
		all.WriteString(log)
	}
	return all.String()
}

// ManagerLog returns the output of the managers since the rig began.
func (r *Rig) ManagerLog() string { return r.managers.logs(r.Node, managerContainer) }

// ListenerLog returns the output of the listeners since the rig began.
func (r *Rig) ListenerLog() string { return r.listeners.logs(r.Node, v1alpha1.ListenerContainerName) }

// saveLogs writes the logs of both programs to the directory in logsVariable, if it is set.
func (r *Rig) saveLogs() {
	directory := os.Getenv(logsVariable)
	if directory == "" {
		return
	}
	name := strings.ReplaceAll(r.t.Name(), "/", "-")
	logs := map[string]string{
		"manager": r.ManagerLog(), "listener": r.ListenerLog(), "ledger": r.ledgers.logs(r.Node, ledgerContainer),
	}
	for program, log := range logs {
		path := filepath.Join(directory, name+"-"+program+".log")
		if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
			r.t.Logf("save the log of %s: %v", program, err)
		}
	}
}

// races reports whether the race detector has found a data race in one of the programs.
func (r *Rig) races() bool {
	return strings.Contains(r.ManagerLog()+r.ListenerLog(), "WARNING: DATA RACE")
}
