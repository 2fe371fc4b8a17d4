package ephemeralrunner_test

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/launch"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/testkube/runnerpods"
)

// Pods and their states, as the tests name them.
var (
	noon, running                 = runnerpods.Noon, runnerpods.Running
	podWith, unscheduled          = runnerpods.With, runnerpods.Unscheduled
	exited, unstarted, waitingFor = runnerpods.Exited, runnerpods.Unstarted, runnerpods.WaitingFor
	initWaits                     = runnerpods.InitWaits
)

// Keys of the Secret that holds a runner's registration.
const (
	secretKeyJITConfig  = "jitToken"
	secretKeyRunnerName = "runnerName"
	secretKeyRunnerID   = "runnerId"
)

// newPod returns the pod that a manager creates for a runner with that id on GitHub.
func newPod(runner *v1alpha1.EphemeralRunner, id int, version string) *corev1.Pod {
	pod := launch.SamplePod(runner, version)
	pod.Annotations[v1alpha1.AnnotationRunnerID] = strconv.Itoa(id)
	return pod
}

// newSecret returns the Secret that a manager creates for a runner with that id on GitHub.
func newSecret(runner *v1alpha1.EphemeralRunner, id int, config string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: runner.Namespace, Name: runner.Name, OwnerReferences: kube.OwnedBy(runner),
			Labels: map[string]string{v1alpha1.LabelScaleSetName: "set",
				v1alpha1.LabelScaleSetNamespace: runner.Namespace},
		},
		Data: map[string][]byte{
			secretKeyJITConfig: []byte(config), secretKeyRunnerName: []byte(runner.Name),
			secretKeyRunnerID: []byte(strconv.Itoa(id)),
		},
	}
}
