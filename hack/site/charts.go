package site

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/harrier-ci/harrier/hack/installation"
)

// Names of the charts.
const (
	ControllerChart = "gha-runner-scale-set-controller"
	ScaleSetChart   = "gha-runner-scale-set"
)

// Values are a chart's values.
type Values = installation.Values

// ControllerValues returns the values that a site sets for the controller's chart.
func (s *Site) ControllerValues() Values {
	repository, tag := splitImage(s.ProductImage)
	return Values{
		"image": Values{"repository": repository, "tag": tag, "pullPolicy": s.PullPolicy},
		"flags": Values{"logLevel": "info", "healthProbeBindAddress": ":8081"},
		"metrics": Values{
			"controllerManagerAddr": ":8080", "listenerAddr": ":8080", "listenerEndpoint": "/metrics",
		},
		// A site leaves nothing behind. By default the CRDs stay, because users' objects would be deleted with them.
		"crds": Values{"keep": false},
	}
}

// ScaleSetValues returns values that a user of the real GitHub would set as well, except for the runner's image and the
// short grace period.
func (s *Site) ScaleSetValues(name string, minRunners, maxRunners int) Values {
	return Values{
		"githubConfigUrl":    s.GitHubURL + "/" + Organization,
		"githubConfigSecret": Values{"github_token": "any-token-will-do"},
		"runnerScaleSetName": name,
		"minRunners":         minRunners,
		"maxRunners":         maxRunners,
		"template": Values{"spec": Values{
			// These runners run no user's code that would need time to stop.
			"terminationGracePeriodSeconds": 5,
			"containers": []Values{{
				"name": "runner", "image": s.DemoImage, "imagePullPolicy": s.PullPolicy,
				"command": []string{"/home/runner/run.sh"},
			}},
		}},
	}
}

// splitImage separates the tag from an image's name, in which a colon may also precede a port.
func splitImage(image string) (repository, tag string) {
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		return image[:i], image[i+1:]
	}
	return image, "latest"
}

// Install runs helm upgrade --install and waits until what the chart starts is ready: for the controller, that is its
// pod; for a scale set, its condition Ready, but only if it exists already when Helm looks.
func (s *Site) Install(ctx context.Context, release, chart, namespace string, values Values) error {
	s.Report("helm waits until all of %s is ready, for at most %s", release, HelmLimit)
	return s.Apply(ctx, release, chart, namespace, values, "--wait", "--timeout="+HelmLimit.String())
}

// Apply is Install with the given options of helm instead of those for waiting.
func (s *Site) Apply(ctx context.Context, release, chart, namespace string, values Values, options ...string) error {
	_, err := s.HelmWith(ctx, values, append([]string{
		"upgrade", "--install", release, filepath.Join(s.Root, "charts", chart), "--namespace=" +
			namespace, "--create-namespace",
	}, options...)...)
	return err
}

// Uninstall runs helm uninstall and waits until the chart's objects are gone.
func (s *Site) Uninstall(ctx context.Context, release, namespace string) error {
	s.Report("helm waits until all of %s is gone, for at most %s", release, UninstallLimit)
	_, err := s.Helm(ctx, "uninstall", release, "--namespace="+namespace, "--wait",
		"--timeout="+UninstallLimit.String())
	return err
}
