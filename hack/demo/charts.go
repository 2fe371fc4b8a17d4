package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

type values map[string]any

// controllerValues are what the demonstration sets of the controller's chart.
func controllerValues(s *site) values {
	repository, tag := splitImage(s.productImage)
	return values{
		"image": values{"repository": repository, "tag": tag, "pullPolicy": s.pullPolicy},
		"flags": values{"logLevel": "info", "healthProbeBindAddress": ":8081"},
		"metrics": values{
			"controllerManagerAddr": ":8080", "listenerAddr": ":8080", "listenerEndpoint": "/metrics",
		},
		// The demonstration leaves nothing behind; elsewhere the kinds stay, because what users wrote goes with them.
		"crds": values{"keep": false},
	}
}

// scaleSetValues are what a user of a real GitHub would set too, but for the runner's image.
func scaleSetValues(s *site) values {
	return values{
		"githubConfigUrl":    s.githubURL + "/" + organization,
		"githubConfigSecret": values{"github_token": "any-token-will-do"},
		"runnerScaleSetName": scaleSetName,
		"minRunners":         0,
		"maxRunners":         maxRunners,
		"template": values{"spec": values{
			// Runners of the demonstration run no user's code, so there is nothing to wait for.
			"terminationGracePeriodSeconds": 5,
			"containers": []values{{
				"name": "runner", "image": s.demoImage, "imagePullPolicy": s.pullPolicy,
				"command": []string{"/home/runner/run.sh"},
			}},
		}},
	}
}

// splitImage cuts off the tag; the colon of a port is not one.
func splitImage(image string) (repository, tag string) {
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		return image[:i], image[i+1:]
	}
	return image, "latest"
}

// install runs helm install and waits until what the chart starts is ready.
func (s *site) install(ctx context.Context, root, release, chart, namespace string, set values) error {
	content, err := yaml.Marshal(set)
	if err != nil {
		return fmt.Errorf("write values of %s: %w", chart, err)
	}
	file, err := os.CreateTemp("", "harrier-demo-*.yaml")
	if err != nil {
		return fmt.Errorf("write values of %s: %w", chart, err)
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.Write(content)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write values of %s: %w", chart, err)
	}
	_, err = s.helm(ctx, "install", release, filepath.Join(root, "charts", chart), "--namespace="+namespace, "--create-namespace",
		"--values="+file.Name(), "--wait", "--timeout="+helmLimit.String())
	return err
}

func (s *site) uninstall(ctx context.Context, release, namespace string) error {
	_, err := s.helm(ctx, "uninstall", release, "--namespace="+namespace, "--wait", "--timeout="+uninstallLimit.String())
	return err
}
