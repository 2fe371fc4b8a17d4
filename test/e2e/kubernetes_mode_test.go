package e2e

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/hack/images/recipe"
	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// A program in the place of the container hook (test/standin/hook) makes a Secret and a pod, executes a command in it, reads its
// log and deletes it, under the runner pod's ServiceAccount. Where that fails the runner takes no job. The Secret it leaves
// is for the controller to find.
func TestHooksMayRunJobPodsInKubernetesMode(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]string{"job-pods": "kubernetes", "job-pods-novolume": "kubernetes-novolume"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := prepare(t, serve(t, fakegithub.Options{}), name, 0, 2)
			s.values["containerMode"] = site.Values{"type": mode}
			s.useStandIn()
			s.container()["env"] = []site.Values{{"name": "JOB_IMAGE", "value": recipe.LocalName + recipe.StandInSuffix}}
			if mode == "kubernetes" {
				// There is nobody here to provide the volume that the chart would claim.
				s.podSpec()["volumes"] = []site.Values{{"name": "work", "emptyDir": site.Values{}}}
			}
			s.install()
			s.awaitSuccess(s.queue(2, time.Second))
			s.awaitNoRunners()
			s.uninstall(t.Context())
		})
	}
}
