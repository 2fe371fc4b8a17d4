package e2e

import (
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/hack/site"
)

func TestUninstallWithIdleRunnersTakesThemOffGitHub(t *testing.T) {
	s := install(t, "farewell", 3, 3)
	s.awaitIdle(3)
	s.uninstall(t.Context())
}

func TestDeletedNamespaceTakesItsRunnersOffGitHub(t *testing.T) {
	s := install(t, "namespace", 2, 2)
	s.awaitIdle(2)
	s.installed = false
	_, err := place.Kubectl(t.Context(), "delete", "namespace", s.namespace, "--timeout="+limit.String())
	if err != nil {
		t.Fatal(err)
	}
	s.awaitNothing(t.Context())
}

func TestControllerIsNotUninstalledUnderAScaleSet(t *testing.T) {
	s := install(t, "guarded", 0, 1)
	output, err := place.Helm(t.Context(), "uninstall", site.ControllerName, "--namespace="+site.SystemNamespace, "--timeout="+limit.String())
	if err == nil {
		t.Fatal("helm uninstall succeeded")
	}
	if said := output + err.Error(); !strings.Contains(said, s.namespace+"/"+s.name) {
		t.Errorf("helm does not name the scale set that is in the way:\n%s", said)
	}
	s.podOf("controller-manager")
}
