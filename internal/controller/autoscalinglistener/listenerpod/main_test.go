package listenerpod_test

import (
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
)

func TestMain(m *testing.M) { os.Exit(testkube.Main(m, testkube.Options{})) }

var key = types.NamespacedName{Namespace: "arc-systems", Name: "set-listener"}

func newListener(change ...func(*v1alpha1.AutoscalingListener)) *v1alpha1.AutoscalingListener {
	listener := &v1alpha1.AutoscalingListener{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, UID: "listener-uid",
			Labels: map[string]string{v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: "arc-runners",
				"team": "build"},
			Annotations: map[string]string{v1alpha1.AnnotationRunnerGroupName: "Default",
				v1alpha1.AnnotationIntegrityHash: "written"},
		},
		Spec: v1alpha1.AutoscalingListenerSpec{
			GitHubConfigUrl: "https://github.com/my-org", GitHubConfigSecret: "github", RunnerScaleSetID: 7,
			AutoscalingRunnerSetNamespace: "arc-runners", AutoscalingRunnerSetName: "set",
			EphemeralRunnerSetName: "set",
			MaxRunners:             10, Image: "controller:1",
		},
	}
	for _, c := range change {
		c(listener)
	}
	return listener
}
