package apitypes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// runnerSet is an AutoscalingRunnerSet whose pod templates have Kubernetes' own types. The API server checks the rest
// by our CRD.
type runnerSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              runnerSetSpec `json:"spec"`
}

type runnerSetSpec struct {
	Template         corev1.PodTemplateSpec  `json:"template"`
	ListenerTemplate *corev1.PodTemplateSpec `json:"listenerTemplate"`
	// Ours.
	GitHubConfigURL      any `json:"githubConfigUrl"`
	GitHubConfigSecret   any `json:"githubConfigSecret"`
	GitHubConfigRevision any `json:"githubConfigSecretRevision"`
	GitHubServerTLS      any `json:"githubServerTLS"`
	RunnerGroup          any `json:"runnerGroup"`
	RunnerScaleSetName   any `json:"runnerScaleSetName"`
	RunnerScaleSetLabels any `json:"runnerScaleSetLabels"`
	Proxy                any `json:"proxy"`
	VaultConfig          any `json:"vaultConfig"`
	MaxRunners           any `json:"maxRunners"`
	MinRunners           any `json:"minRunners"`
	Schedules            any `json:"schedules"`
	Feedback             any `json:"feedback"`
	VolumeClaimTemplates any `json:"volumeClaimTemplates"`
	VolumeClaimPool      any `json:"volumeClaimPool"`
	RetentionPolicy      any `json:"persistentVolumeClaimRetentionPolicy"`
	Capacity             any `json:"capacity"`
	Headroom             any `json:"headroom"`
	ScaleDownDelay       any `json:"scaleDownDelay"`
	MaxIdleTime          any `json:"maxIdleTime"`
	MaxStartsPerMinute   any `json:"maxStartsPerMinute"`
	PendingTimeout       any `json:"pendingTimeout"`
	RegistrationTimeout  any `json:"registrationTimeout"`
	SidecarGracePeriod   any `json:"sidecarGracePeriod"`
	JobGracePeriod       any `json:"jobGracePeriod"`
	FailedHistoryLimit   any `json:"failedHistoryLimit"`
	ListenerMetrics      any `json:"listenerMetrics"`
	EphemeralRunner      any `json:"ephemeralRunnerMetadata"`
}

// types are the kinds that the charts render.
var types = map[string]func() any{
	"v1 ConfigMap":      func() any { return &corev1.ConfigMap{} },
	"v1 Secret":         func() any { return &corev1.Secret{} },
	"v1 ServiceAccount": func() any { return &corev1.ServiceAccount{} },
	"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy": func() any { return &admissionregistrationv1.ValidatingAdmissionPolicy{} },
	"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding": func() any {
		return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	},
	"apps/v1 DaemonSet":                          func() any { return &appsv1.DaemonSet{} },
	"apps/v1 Deployment":                         func() any { return &appsv1.Deployment{} },
	"batch/v1 Job":                               func() any { return &batchv1.Job{} },
	"policy/v1 PodDisruptionBudget":              func() any { return &policyv1.PodDisruptionBudget{} },
	"flowcontrol.apiserver.k8s.io/v1 FlowSchema": func() any { return &flowcontrolv1.FlowSchema{} },
	"flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration": func() any {
		return &flowcontrolv1.PriorityLevelConfiguration{}
	},
	"networking.k8s.io/v1 NetworkPolicy":               func() any { return &networkingv1.NetworkPolicy{} },
	"rbac.authorization.k8s.io/v1 ClusterRole":         func() any { return &rbacv1.ClusterRole{} },
	"rbac.authorization.k8s.io/v1 ClusterRoleBinding":  func() any { return &rbacv1.ClusterRoleBinding{} },
	"rbac.authorization.k8s.io/v1 Role":                func() any { return &rbacv1.Role{} },
	"rbac.authorization.k8s.io/v1 RoleBinding":         func() any { return &rbacv1.RoleBinding{} },
	"apiextensions.k8s.io/v1 CustomResourceDefinition": func() any { return &apiextensionsv1.CustomResourceDefinition{} },
	"actions.github.com/v1alpha1 AutoscalingRunnerSet": func() any { return &runnerSet{} },
}

func TestFieldsAreKnown(t *testing.T) {
	seen := map[string]bool{}
	for _, pattern := range []string{"../testdata/*.golden", "../../../apis/crds/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("nothing matches %s: %v", pattern, err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for document := range strings.SplitSeq("\n"+string(content), "\n---\n") {
				if strings.TrimSpace(document) != "" {
					seen[checkDocument(t, filepath.Base(file), document)] = true
				}
			}
		}
	}
	for name := range types {
		if !seen[name] {
			t.Errorf("no golden render has a %s: add one that does", name)
		}
	}
}

// checkDocument decodes one object strictly and returns its kind.
func checkDocument(t *testing.T, file, document string) string {
	t.Helper()
	var object metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(document), &object); err != nil {
		t.Fatalf("%s: %v\n%s", file, err, document)
	}
	name := object.APIVersion + " " + object.Kind
	newObject, known := types[name]
	if !known {
		t.Errorf("%s: this test has no type for %s", file, name)
		return name
	}
	if err := yaml.UnmarshalStrict([]byte(document), newObject()); err != nil {
		t.Errorf("%s: %s: %v", file, name, err)
	}
	return name
}
