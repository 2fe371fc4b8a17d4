package rig

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube/fakenode"
)

// logsVariable names the environment variable with a directory that gets the logs of the programs.
const logsVariable = "HARRIER_RIG_LOGS"

// owns says that the pod is the rig's: an earlier rig's may still be going away.
func (r *Rig) owns(pod *corev1.Pod) bool {
	return pod.Namespace == r.SystemNamespace || pod.Namespace == r.RunnerNamespace
}

// run is the runner container.
func (r *Rig) run(ctx context.Context, container *fakenode.Container) int {
	code, err := fakegithub.RunRunner(ctx, container.Environment["ACTIONS_RUNNER_INPUT_JITCONFIG"], fakegithub.RunnerOptions{
		Version:                 container.Environment["RUNNER_VERSION"],
		ReturnVersionDeprecated: container.Environment["ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE"] == "1",
		Kill:                    container.Killed(),
	})
	if err != nil && ctx.Err() == nil {
		r.t.Logf("runner %s ended without a job: %v", container.Pod.Name, err)
	}
	return code
}

// managerExec maps the ports that the rig's chart values name to ports of this machine.
func managerExec(path string) fakenode.Exec {
	return fakenode.Exec{Path: path, Ports: map[int32]string{8081: managerHealth, 8080: managerMetrics}}
}

// Environment variables by which fakenode says where the manager is to listen. The manager has flags for that.
const (
	managerHealth  = "RIG_HEALTH_ADDRESS"
	managerMetrics = "RIG_METRICS_ADDRESS"
)

// managerProgram runs the manager with the chart's arguments and this machine's addresses.
type managerProgram struct {
	fakenode.Exec
	managers *managers
}

// Run runs it to its end.
func (m managerProgram) Run(ctx context.Context, container *fakenode.Container) int {
	m.managers.add(types.NamespacedName{Namespace: container.Pod.Namespace, Name: container.Pod.Name})
	container.Spec.Args = append(slices.Clone(container.Spec.Args),
		"--health-probe-bind-address="+container.Environment[managerHealth],
		"--metrics-addr="+container.Environment[managerMetrics])
	return m.Exec.Run(ctx, container)
}

// managers remembers the pods that ran a manager.
type managers struct {
	mutex sync.Mutex
	pods  []types.NamespacedName
}

func (m *managers) add(pod types.NamespacedName) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if !slices.Contains(m.pods, pod) {
		m.pods = append(m.pods, pod)
	}
}

// logs returns what all managers have written.
func (m *managers) logs(node *fakenode.Node) string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	var all strings.Builder
	for _, pod := range m.pods {
		log, err := node.Log(pod, "manager")
		if err != nil {
			continue // it has not started yet
		}
		all.WriteString(log)
	}
	return all.String()
}

func (m *managers) raced(node *fakenode.Node) bool {
	return strings.Contains(m.logs(node), "WARNING: DATA RACE")
}

// ManagerLog returns what the managers have written since the rig began.
func (r *Rig) ManagerLog() string { return r.managers.logs(r.Node) }

// ListenerLog returns what the default set's present listener pod has written over its restarts.
func (r *Rig) ListenerLog() string {
	pod := r.ListenerPod()
	if pod == nil {
		return ""
	}
	log, err := r.Node.Log(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, "listener")
	if err != nil {
		return ""
	}
	return log
}

func (r *Rig) saveLogs(directory string) {
	name := strings.ReplaceAll(r.t.Name(), "/", "-")
	for program, log := range map[string]string{"manager": r.ManagerLog(), "listener": r.ListenerLog()} {
		path := filepath.Join(directory, name+"-"+program+".log")
		if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
			r.t.Logf("save the log of %s: %v", program, err)
		}
	}
}
