package charts

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

var modes = []string{"none", "dind", "kubernetes", "kubernetes-novolume"}

func TestCertificateInRunner(t *testing.T) {
	t.Parallel()
	volume := corev1.Volume{Name: "github-server-tls-cert", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "ca"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
	}}}
	for _, containerMode := range modes {
		for _, path := range []string{"/certificates", "/certificates/"} {
			pod := runnerPod(t, mode(containerMode), "githubServerTLS: {runnerMountPath: "+path+", certificateFrom: {configMapKeyRef: {name: ca, key: ca.crt}}}")
			runner := pod.Containers[0]
			check(t, "first volume in mode "+containerMode, pod.Volumes[0], volume)
			check(t, "last mount in mode "+containerMode, runner.VolumeMounts[len(runner.VolumeMounts)-1], corev1.VolumeMount{
				Name: "github-server-tls-cert", MountPath: "/certificates/ca.crt", SubPath: "ca.crt",
			})
			check(t, "last variables in mode "+containerMode, runner.Env[len(runner.Env)-2:], []corev1.EnvVar{
				{Name: "NODE_EXTRA_CA_CERTS", Value: "/certificates/ca.crt"}, {Name: "RUNNER_UPDATE_CA_CERTS", Value: "1"},
			})
		}
	}
}

// Without a mount path the certificate is for controller and listener alone.
func TestCertificateNotInRunner(t *testing.T) {
	t.Parallel()
	for _, containerMode := range modes {
		without := runnerPod(t, mode(containerMode))
		with := runnerPod(t, mode(containerMode), `githubServerTLS: {certificateFrom: {configMapKeyRef: {name: ca, key: ca.crt}}}`)
		if !cmp.Equal(with, without) {
			t.Errorf("mode %s: the certificate changes the pod: %s", containerMode, cmp.Diff(without, with))
		}
	}
}

// Several containers, the runner not first: only the runner gets the certificate.
func TestCertificateInRunnerAlone(t *testing.T) {
	t.Parallel()
	pod := runnerPod(t, `
githubServerTLS: {runnerMountPath: /ca, certificateFrom: {configMapKeyRef: {name: ca, key: ca.crt}}}
template: {spec: {containers: [{name: other, image: i}, {name: runner, image: r}]}}
`)
	index := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return len(c.Env) > 0 })
	check(t, "container with the certificate", pod.Containers[index].Name, "runner")
	check(t, "the other", pod.Containers[0], corev1.Container{Name: "other", Image: "i"})
}
