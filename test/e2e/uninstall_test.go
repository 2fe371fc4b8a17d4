package e2e

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/hack/site"
)

func TestUninstallWithIdleRunnersTakesThemOffGitHub(t *testing.T) {
	t.Parallel()
	s := install(t, "farewell", 3, 3)
	s.awaitIdle(3)
	s.uninstall(t.Context())
}

func TestDeletedNamespaceTakesItsRunnersOffGitHub(t *testing.T) {
	t.Parallel()
	s := install(t, "namespace", 2, 2)
	s.awaitIdle(2)
	s.deleteNamespace("--timeout=" + limit.String())
	s.awaitNothing(t.Context())
}

func TestControllerIsNotUninstalledUnderAScaleSet(t *testing.T) {
	s := install(t, "guarded", 0, 1)
	output, err := place.Helm(t.Context(), "uninstall", site.ControllerName, "--namespace="+site.SystemNamespace,
		"--timeout="+limit.String())
	if err == nil {
		t.Fatal("helm uninstall succeeded")
	}
	if said := output + err.Error(); !strings.Contains(said, s.namespace+"/"+s.name) {
		t.Errorf("helm does not name the scale set that is in the way:\n%s", said)
	}
	managers(t, 1)
	keepController(t)
}

// keepController rolls the controller's release back to its present revision, and installs it again. A user who keeps
// it has to do the same: Helm upgrades no release whose uninstallation was refused.
func keepController(t *testing.T) {
	t.Helper()
	output, err := place.Helm(t.Context(), "status", site.ControllerName, "--namespace="+site.SystemNamespace,
		"--output=json")
	if err != nil {
		t.Fatal(err)
	}
	var release struct{ Version int }
	if err := json.Unmarshal([]byte(output), &release); err != nil {
		t.Fatal(err)
	}
	_, err = place.Helm(t.Context(), "rollback", site.ControllerName, strconv.Itoa(release.Version),
		"--namespace="+site.SystemNamespace, "--wait", "--timeout="+site.HelmLimit.String())
	if err != nil {
		t.Fatal(err)
	}
	if err := installController(t.Context()); err != nil {
		t.Fatal(err)
	}
}
