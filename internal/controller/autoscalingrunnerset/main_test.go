package autoscalingrunnerset_test

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(testkube.Main(m, testkube.Options{
		ControllerManager: true, // garbage collection is part of an uninstall
		AddToScheme:       []func(*runtime.Scheme) error{v1alpha1.AddToScheme},
	}))
}
