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
	volume := corev1.Volume{Name: "github-server-tls-cert",
		VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "ca"},
			Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
		}}}
	for _, containerMode := range modes {
		for _, path := range []string{"/certificates", "/certificates/"} {
			pod := runnerPod(t, mode(containerMode),
				"githubServerTLS: {runnerMountPath: "+path+", certificateFrom: {configMapKeyRef: {name: ca, key: "+
					"ca.crt}}}")
			runner := pod.Containers[0]
			check(t, "first volume in mode "+containerMode, pod.Volumes[0], volume)
			check(t, "last mount in mode "+containerMode, runner.VolumeMounts[len(runner.VolumeMounts)-1],
				corev1.VolumeMount{
					Name: "github-server-tls-cert", MountPath: "/certificates/ca.crt", SubPath: "ca.crt",
				})
			check(t, "last variables in mode "+containerMode, runner.Env[len(runner.Env)-2:], []corev1.EnvVar{
				{Name: "NODE_EXTRA_CA_CERTS", Value: "/certificates/ca.crt"}, {Name: "RUNNER_UPDATE_CA_CERTS", Value: "1"},
			})
		}
	}
}

// certificateAt returns values that mount the certificate in the runner.
func certificateAt(path string) string {
	return "githubServerTLS: {runnerMountPath: '" + path +
		"', certificateFrom: {configMapKeyRef: {name: ca, key: ca.crt}}}"
}

// Windows mounts no single file, and its paths have a drive and backslashes. Several values may say that runners are on
// Windows.
func TestCertificateInRunnerOnWindows(t *testing.T) {
	t.Parallel()
	const system = "template: {spec: {os: {name: windows}}}"
	for _, test := range []struct{ path, template, directory string }{
		{`C:\ca\`, system, `C:\ca`},
		{`C:\ca`, "", `C:\ca`},
		{`d:/certificates/ca/`, "", `d:\certificates\ca`},
		{`C:\\ca\\sub`, system, `C:\ca\sub`},
		{`\ca`, "", `C:\ca`},
		{"/ca/", system, `C:\ca`},
		{"/ca", "template: {spec: {nodeSelector: {kubernetes.io/os: windows}}}", `C:\ca`},
		{"/ca", "template: {spec: {nodeSelector: {node.kubernetes.io/windows-build: 10.0.20348}}}", `C:\ca`},
		{"/ca", "template: {spec: {securityContext: {windowsOptions: {runAsUserName: ContainerAdministrator}}}}", `C:\ca`},
		{"/ca", "template: {spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: " +
			"{nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/os, operator: In, values: [windows]}]}]}}}}}",
			`C:\ca`},
	} {
		pod := runnerPod(t, test.template, certificateAt(test.path))
		what := test.path + " " + test.template
		check(t, "mounts with "+what, pod.Containers[0].VolumeMounts,
			[]corev1.VolumeMount{{Name: "github-server-tls-cert", MountPath: test.directory}})
		check(t, "variable with "+what, pod.Containers[0].Env[0], corev1.EnvVar{
			Name:  "NODE_EXTRA_CA_CERTS",
			Value: test.directory + `\ca.crt`,
		})
		check(t, "key in the directory", pod.Volumes[0].ConfigMap.Items,
			[]corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}})
	}
	for _, linux := range []string{"os: {name: linux}", "nodeSelector: {kubernetes.io/os: linux}",
		"tolerations: [{key: os, value: windows}]"} {
		pod := runnerPod(t, "template: {spec: {"+linux+"}}", certificateAt("/ca"))
		check(t, "mount with "+linux, pod.Containers[0].VolumeMounts[0].MountPath, "/ca/ca.crt")
	}
}

// Without a mount path the certificate is for controller and listener alone.
func TestCertificateNotInRunner(t *testing.T) {
	t.Parallel()
	for _, containerMode := range modes {
		without := runnerPod(t, mode(containerMode))
		with := runnerPod(t, mode(containerMode),
			`githubServerTLS: {certificateFrom: {configMapKeyRef: {name: ca, key: ca.crt}}}`)
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
