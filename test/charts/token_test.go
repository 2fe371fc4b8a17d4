package charts

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// templated has the pod template of any kind that has one, and what an account says of its token.
type templated struct {
	Kind      string `json:"kind"`
	Automount *bool  `json:"automountServiceAccountToken"`
	Spec      struct {
		Template struct {
			Spec corev1.PodSpec `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

// withoutToken takes the mounted token, and that nobody else mounts one, out of a pod of which other tests look at the rest.
func withoutToken(pod *corev1.PodSpec) *corev1.PodSpec {
	const name = "service-account-token"
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			mounts := &containers[i].VolumeMounts
			ours := slices.IndexFunc(*mounts, func(m corev1.VolumeMount) bool { return m.Name == name })
			if ours < 0 {
				continue
			}
			if *mounts = slices.Delete(*mounts, ours, ours+1); len(*mounts) == 0 {
				*mounts = nil
			}
		}
	}
	pod.Volumes = slices.DeleteFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	if !ptr.Deref(pod.AutomountServiceAccountToken, true) {
		pod.AutomountServiceAccountToken = nil
	}
	return pod
}

// tokens returns the names of a pod's containers that have the token of its account: those that mount it themselves, if
// nobody mounts it for them.
func tokens(t *testing.T, what string, pod *corev1.PodSpec) (names []string) {
	t.Helper()
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Errorf("%s: automountServiceAccountToken is not false, which common policies refuse", what)
	}
	for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, mount := range container.VolumeMounts {
			volume := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
			if mount.MountPath != tokenPath || volume < 0 || pod.Volumes[volume].Projected == nil {
				continue
			}
			sources := pod.Volumes[volume].Projected.Sources
			if len(sources) != 3 || sources[0].ServiceAccountToken.Path != "token" ||
				sources[1].ConfigMap.Name != "kube-root-ca.crt" || sources[1].ConfigMap.Items[0].Path != "ca.crt" ||
				sources[2].DownwardAPI.Items[0].Path != "namespace" || !mount.ReadOnly {
				t.Errorf("%s: %s mounts %+v", what, container.Name, sources)
			}
			names = append(names, container.Name)
		}
	}
	return names
}

// Accounts and pods say that nobody mounts a token for them, and who needs one mounts it.
func TestTokensAreMountedByWhoNeedsThem(t *testing.T) {
	t.Parallel()
	const everything = "history: {enabled: true}\nmetrics: {controllerManagerAddr: ':8080', listenerAddr: ':8080', listenerEndpoint: /metrics}"
	const sidecar = "\ntemplate: {spec: {initContainers: [{name: first, image: i}], containers: [{name: runner, image: i, command: [run]}, {name: beside, image: i}]}}"
	for _, test := range []struct {
		chart  chart
		values string
		want   map[string][]string
	}{
		{controller, everything, map[string][]string{
			"deployment.yaml": {"manager"}, "history.yaml": {"history"}, "uninstall_check.yaml": {"check"}}},
		{scaleSet, mode("none") + sidecar + "\nprepull: {enabled: true}", map[string][]string{
			"autoscalingrunnerset.yaml": nil, "prepull.yaml": nil}},
		{scaleSet, mode("dind"), map[string][]string{"autoscalingrunnerset.yaml": nil}},
		{scaleSet, mode("kubernetes-novolume") + sidecar, map[string][]string{
			"autoscalingrunnerset.yaml": {"first", "runner", "beside"}}},
		{scaleSet, hookTemplate, map[string][]string{"autoscalingrunnerset.yaml": {"runner"}}},
		{scaleSet, mode("kubernetes-novolume") + "\ntemplate: {spec: {volumes: [{name: own, emptyDir: {}}], containers: " +
			"[{name: runner, image: i, command: [run], volumeMounts: [{name: own, mountPath: " + tokenPath + "/}]}]}}",
			map[string][]string{"autoscalingrunnerset.yaml": nil}},
	} {
		pods := 0
		required := map[string]string{scaleSet.name: minimal}[test.chart.name]
		for file, documents := range render(t, test.chart, required, test.values) {
			for _, document := range documents {
				of := templated{}
				if err := yaml.Unmarshal([]byte(document), &of); err != nil {
					t.Fatal(err)
				}
				switch {
				case of.Kind == "ServiceAccount":
					check(t, file+": mounted for the account's pods", *of.Automount, false)
				case len(of.Spec.Template.Spec.Containers) > 0:
					pods++
					check(t, file+": containers with a token", tokens(t, file, &of.Spec.Template.Spec), test.want[file])
				}
			}
		}
		check(t, "pods of\n"+test.values, pods, len(test.want))
	}
}

// Whoever names an account, or says something of the token, has what he says.
func TestTokensAreMountedAsTheTemplateSays(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]any{
		"template: {spec: {serviceAccountName: own}}":                                      nil,
		"template: {spec: {automountServiceAccountToken: true}}":                           true,
		"template: {spec: {automountServiceAccountToken: false}}":                          false,
		"template: {spec: {automountServiceAccountToken: null}}":                           false,
		"template: {spec: {serviceAccountName: own, automountServiceAccountToken: false}}": false,
	} {
		for _, of := range []string{"none", "kubernetes-novolume"} {
			pod := runnerSet(t, scaleSet, mode(of), values).Spec.Template.Spec
			said := any(nil)
			if pod.AutomountServiceAccountToken != nil {
				said = *pod.AutomountServiceAccountToken
			}
			check(t, of+" with "+values, said, want)
			mounts := values == "template: {spec: {automountServiceAccountToken: null}}" && of == "kubernetes-novolume"
			check(t, "volumes of "+of+" with "+values, len(pod.Volumes) == 1, mounts)
		}
	}
}
