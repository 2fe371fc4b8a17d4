package launch

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// proxyEnv returns the variables with the scale set's proxies, which have passwords in them, from the set's Secret.
func proxyEnv(runner *v1alpha1.EphemeralRunner) (env []corev1.EnvVar) {
	proxy, secret := runner.Spec.Proxy, runner.Spec.ProxySecretRef
	if proxy == nil || secret == "" {
		return nil
	}
	if proxy.HTTP != nil {
		env = append(env, fromSecret("http_proxy", secret, "http_proxy"))
	}
	if proxy.HTTPS != nil {
		env = append(env, fromSecret("https_proxy", secret, "https_proxy"))
	}
	if len(proxy.NoProxy) > 0 {
		env = append(env, fromSecret("no_proxy", secret, "no_proxy"))
	}
	return env
}

// daemons are the names of containers, and the last parts of the names of images, of daemons that pull images for jobs:
// docker:dind, moby/buildkit and mirrors of these.
var daemons = []string{"dind", "docker", "dockerd", "buildkit", "buildkitd"}

// pullsImages reports whether a container beside the runner is a daemon that pulls the images of jobs.
func pullsImages(container *corev1.Container) bool {
	image := container.Image[strings.LastIndex(container.Image, "/")+1:]
	if end := strings.IndexAny(image, ":@"); end >= 0 {
		image = image[:end]
	}
	return container.Name != v1alpha1.RunnerContainerName &&
		(slices.Contains(daemons, container.Name) || slices.Contains(daemons, image))
}

// completeDaemons gives the proxies to the daemons that pull images for jobs. What a container says of a proxy itself, in
// small letters or capitals, stays. Other containers get nothing: they may have to reach the cluster's own services only.
// Of a daemon that can't start the kubelet keeps the end of its log, which says why.
func completeDaemons(spec *corev1.PodSpec, proxies []corev1.EnvVar) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			container := &containers[i]
			if !pullsImages(container) {
				continue
			}
			if container.TerminationMessagePolicy == "" {
				container.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
			}
			for _, variable := range proxies {
				if !slices.ContainsFunc(container.Env, func(own corev1.EnvVar) bool {
					return strings.EqualFold(own.Name, variable.Name)
				}) {
					container.Env = append(container.Env, variable)
				}
			}
		}
	}
}
