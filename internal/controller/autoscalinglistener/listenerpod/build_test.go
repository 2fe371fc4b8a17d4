package listenerpod_test

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/listenerpod"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
)

var update = flag.Bool("update", false, "write the golden files")

// userTemplate uses every way of merging: replace, merge by name, add, and conflict with a default.
func userTemplate() *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{"mine": "yes", v1alpha1.LabelScaleSetName: "hidden"},
			Annotations: map[string]string{"scrape": "yes"},
		},
		Spec: corev1.PodSpec{
			ServiceAccountName: "admin",
			NodeSelector:       map[string]string{"pool": "system"},
			Tolerations:        []corev1.Toleration{{Key: "system", Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{
				{
					Name: v1alpha1.ListenerContainerName,
					Env:  []corev1.EnvVar{{Name: "http_proxy", Value: "http://other"}, {Name: "MORE", Value: "1"}},
					Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
						corev1.ResourceMemory: resource.MustParse("16Mi"),
					}},
					LivenessProbe: &corev1.Probe{
						ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}},
					SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64(1000))},
				},
				{Name: "sidecar", Image: "sidecar:1"},
			},
			Volumes: []corev1.Volume{{Name: "cache",
				VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
}

var unrestricted = listenertemplate.Policy{Unrestricted: true}

func withTemplate(l *v1alpha1.AutoscalingListener) { l.Spec.Template = userTemplate() }

// labelledAsTheController gives the listener the labels by which the chart's Deployment, budget, monitors and policy
// select, and those by which a cloud and a GitOps tool do.
func labelledAsTheController(l *v1alpha1.AutoscalingListener) {
	maps.Copy(l.Labels, map[string]string{
		"app.kubernetes.io/name": "gha-rs-controller", "app.kubernetes.io/namespace": key.Namespace,
		"app.kubernetes.io/instance": "arc",
		v1alpha1.LabelPartOf:         "gha-rs-controller", v1alpha1.LabelComponent: "controller-manager",
		"argocd.argoproj.io/instance": "arc", "kustomize.toolkit.fluxcd.io/name": "arc", "helm.sh/chart": "arc",
		"azure.workload.identity/use": "true",
	})
}

func TestPodGolden(t *testing.T) {
	entrypoint := []string{listenertemplate.DefaultProgram}
	const proxy = "revision-1"
	for name, builder := range map[string]listenerpod.Builder{
		"plain":  {Listener: newListener(), Entrypoint: entrypoint, MetricsAddr: ":8080"},
		"proxy":  {Listener: newListener(), Entrypoint: entrypoint, Proxy: proxy},
		"merged": {Listener: newListener(withTemplate), Entrypoint: entrypoint, Proxy: proxy, Policy: unrestricted},
		"restricted": {
			Listener: newListener(withTemplate, labelledAsTheController), Entrypoint: entrypoint, Proxy: proxy,
			Policy: listenertemplate.Policy{SidecarImages: []string{"sidecar:1"}},
		},
		"minimal": {Listener: newListener(func(l *v1alpha1.AutoscalingListener) { l.Spec.Template = &corev1.PodTemplateSpec{} }), Entrypoint: []string{"/other"}},
	} {
		t.Run(name, func(t *testing.T) {
			pod, err := builder.Pod()
			if err != nil {
				t.Fatal(err)
			}
			got, err := yaml.Marshal(pod)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("pod (-want +got; -update accepts it):\n%s", diff)
			}
		})
	}
}

func TestHashChangesWithWhatNeedsANewPod(t *testing.T) {
	base := func() listenerpod.Builder {
		return listenerpod.Builder{Listener: newListener(), Entrypoint: []string{listenertemplate.DefaultProgram}}
	}
	template := func(spec corev1.PodSpec) func(*listenerpod.Builder) {
		return func(b *listenerpod.Builder) { b.Listener.Spec.Template = &corev1.PodTemplateSpec{Spec: spec} }
	}
	for name, test := range map[string]struct {
		change func(*listenerpod.Builder)
		want   bool
	}{
		"image":          {func(b *listenerpod.Builder) { b.Listener.Spec.Image = "controller:2" }, true},
		"template":       {template(corev1.PodSpec{NodeSelector: map[string]string{"a": "b"}}), true},
		"refused change": {func(b *listenerpod.Builder) { b.Listener.Spec.Template.Spec.NodeName = "n" }, false},
		"policy":         {func(b *listenerpod.Builder) { b.Policy = unrestricted }, true},
		"other sidecars": {func(b *listenerpod.Builder) { b.Policy.SidecarImages = []string{"sidecar:1"} }, false}, // none is used
		"proxy":          {func(b *listenerpod.Builder) { b.Proxy = "revision-1" }, true},
		"address":        {func(b *listenerpod.Builder) { b.Listener.Spec.GitHubConfigUrl += "2" }, true},
		"group":          {func(b *listenerpod.Builder) { b.Listener.Annotations[v1alpha1.AnnotationRunnerGroupName] = "large" }, true},
		"scale set":      {func(b *listenerpod.Builder) { b.Listener.Spec.RunnerScaleSetID++ }, true},
		"runner set":     {func(b *listenerpod.Builder) { b.Listener.Spec.EphemeralRunnerSetName = "other" }, true},
		"pull secrets": {func(b *listenerpod.Builder) {
			b.Listener.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
		}, true},
		"bounds":     {func(b *listenerpod.Builder) { b.Listener.Spec.MinRunners, b.Listener.Spec.MaxRunners = 1, 2 }, false},
		"secret":     {func(b *listenerpod.Builder) { b.Listener.Spec.GitHubConfigSecret = "other" }, false},
		"CA":         {func(b *listenerpod.Builder) { b.Listener.Spec.GitHubServerTLS = &v1alpha1.TLSConfig{} }, false},
		"metrics":    {func(b *listenerpod.Builder) { b.Listener.Spec.Metrics = &v1alpha1.MetricsConfig{} }, false},
		"metrics on": {func(b *listenerpod.Builder) { b.MetricsAddr = ":8080" }, true}, // monitors go by the name of the port
		"labels":     {func(b *listenerpod.Builder) { b.Listener.Labels["helm.sh/chart"] = "2" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := base(), base()
			template(corev1.PodSpec{})(&before)
			template(corev1.PodSpec{})(&after)
			test.change(&after)
			if changed := before.Hash() != after.Hash(); changed != test.want {
				t.Errorf("hash changed: %t, want %t", changed, test.want)
			}
		})
	}
}

// TestTemplateLeavesDefaults: an absent field never removes what makes the pod safe.
func TestTemplateLeavesDefaults(t *testing.T) {
	builder := listenerpod.Builder{Listener: newListener(withTemplate), Policy: unrestricted}
	pod, err := builder.Pod()
	if err != nil {
		t.Fatal(err)
	}
	listener := pod.Spec.Containers[0]
	if *pod.Spec.TerminationGracePeriodSeconds != 60 || !*pod.Spec.SecurityContext.RunAsNonRoot ||
		pod.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		t.Errorf("pod defaults are gone: %+v", pod.Spec)
	}
	if listener.Image != "controller:1" || listener.ReadinessProbe == nil ||
		!*listener.SecurityContext.ReadOnlyRootFilesystem || *listener.SecurityContext.RunAsUser != 1000 {
		t.Errorf("container defaults are gone: %+v", listener)
	}
	if pod.Spec.ServiceAccountName != key.Name || pod.Labels[v1alpha1.LabelScaleSetName] != "set" {
		t.Errorf("the template changed the pod's identity: account %s, labels %v", pod.Spec.ServiceAccountName,
			pod.Labels)
	}
}

// A listener whose template an earlier manager let through with ARC's image gets a pod with ours.
func TestPodNeverHasARCImage(t *testing.T) {
	const mirror = "registry.example.com/harrier/gha-runner-scale-set-controller:1"
	for image, want := range map[string]string{"ghcr.io/actions/gha-runner-scale-set-controller:0.14.2": "controller:1",
		mirror: mirror} {
		listener := newListener(func(l *v1alpha1.AutoscalingListener) {
			l.Spec.Template = &corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{Containers: []corev1.Container{
					{Name: v1alpha1.ListenerContainerName, Image: image}}}}
		})
		pod, err := listenerpod.Builder{Listener: listener, Policy: unrestricted}.Pod()
		if err != nil {
			t.Fatal(err)
		}
		if got := pod.Spec.Containers[0].Image; got != want {
			t.Errorf("template with %s: image %s, want %s", image, got, want)
		}
	}
}

func TestPodFollowsTheMetricsPortOnly(t *testing.T) {
	for address, want := range map[string]bool{":8080": false, "127.0.0.1:8080": false, ":9090": true, "": true} {
		before, after := listenerpod.Builder{Listener: newListener(), MetricsAddr: ":8080"},
			listenerpod.Builder{Listener: newListener(), MetricsAddr: address}
		if changed := before.Hash() != after.Hash(); changed != want {
			t.Errorf("from :8080 to %q: hash changed: %t, want %t", address, changed, want)
		}
	}
}

func TestMetricsPort(t *testing.T) {
	for address, want := range map[string]int{":8080": 2, "0.0.0.0:9090": 2, "": 1, "0": 1, "nonsense": 1, ":8081": 1,
		":99999999999": 1} {
		pod, err := listenerpod.Builder{Listener: newListener(), MetricsAddr: address}.Pod()
		if err != nil {
			t.Fatal(err)
		}
		if got := len(pod.Spec.Containers[0].Ports); got != want {
			t.Errorf("address %q: %d ports, want %d", address, got, want)
		}
	}
}
