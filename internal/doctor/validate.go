package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
)

// values are what is checked of the chart's values. Everything else in a values file is left to the chart's own schema,
// which `helm lint` and `helm template` go by.
type values struct {
	GitHubConfigURL    string                  `json:"githubConfigUrl"`
	GitHubConfigSecret any                     `json:"githubConfigSecret"`
	MinRunners         *intstr.IntOrString     `json:"minRunners"`
	MaxRunners         *intstr.IntOrString     `json:"maxRunners"`
	Template           *corev1.PodTemplateSpec `json:"template"`
	ScaleSetLabels     []string                `json:"scaleSetLabels"`
	ContainerMode      *struct {
		Type string `json:"type"`
	} `json:"containerMode"`
	KeyVault *struct {
		Type string `json:"type"`
	} `json:"keyVault"`
}

// knownValues are the first level of the chart's values. A misspelt one would be a setting that is silently not made.
var knownValues = []string{
	"annotations", "containerMode", "controllerServiceAccount", "enabled", "failedHistoryLimit", "githubConfigSecret", "githubConfigUrl",
	"githubServerTLS", "global", "keyVault", "labels", "listenerMetrics", "listenerTemplate", "maxRunners", "minRunners", "nameOverride",
	"namespaceOverride", "pendingTimeout", "proxy", "registrationTimeout", "resourceMeta", "runnerGroup", "runnerScaleSetName",
	"scaleSetLabels", "template",
}

// ownPrefix begins values that the chart leaves to users, such as anchors.
const ownPrefix = "x-"

// containerModes are the types that the chart knows; "none" and none at all are the same.
var containerModes = []string{"", "none", "dind", "kubernetes", "kubernetes-novolume"}

// checks collect what is wrong with one object.
type checks struct {
	object   string
	findings []Finding
}

// add notes a problem.
func (c *checks) add(reason, message, fix string) {
	c.findings = append(c.findings, Finding{Severity: Problem, Object: c.object, Reason: reason, Message: message, Fix: fix})
}

// require notes a problem unless ok holds.
func (c *checks) require(ok bool, reason, message, fix string) {
	if !ok {
		c.add(reason, message, fix)
	}
}

func validateValues(document []byte, fields map[string]any, object string) []Finding {
	c := &checks{object: object}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		c.require(slices.Contains(knownValues, key) || strings.HasPrefix(key, ownPrefix), "UnknownValue", fmt.Sprintf("the chart has no value %q", key),
			"correct its spelling; helm show values lists them")
	}
	v := values{}
	if err := yaml.Unmarshal(document, &v); err != nil {
		c.add("InvalidValues", err.Error(), "correct the type of the value")
		return c.findings
	}
	c.spec(v.GitHubConfigURL, c.number("minRunners", v.MinRunners), c.number("maxRunners", v.MaxRunners))
	c.secret(v.GitHubConfigSecret)
	if v.ContainerMode != nil {
		c.require(slices.Contains(containerModes, v.ContainerMode.Type), "UnknownContainerMode",
			fmt.Sprintf("containerMode.type is %q", v.ContainerMode.Type), "use dind, kubernetes or kubernetes-novolume, or leave it out")
	}
	const vaultType = string(v1alpha1.VaultTypeAzureKeyVault)
	c.require(v.KeyVault == nil || v.KeyVault.Type == "" || v.KeyVault.Type == vaultType,
		v1alpha1.ReasonVaultUnsupported, "keyVault.type is not "+vaultType, "use "+vaultType+", or leave keyVault out")
	for _, label := range v.ScaleSetLabels {
		c.require(label != "" && len(label) < maxLabel, "InvalidLabel", fmt.Sprintf("scaleSetLabels has %q", label),
			fmt.Sprintf("give labels 1 to %d characters", maxLabel-1))
	}
	if v.Template != nil {
		c.template(&v.Template.Spec, true)
	}
	return c.findings
}

// number reads a value that the chart takes in quotes, too. It returns nil where there is none, or none that can be read.
func (c *checks) number(name string, value *intstr.IntOrString) *int {
	if value == nil || value.Type == intstr.String && value.StrVal == "" { // the chart takes an empty one for none
		return nil
	}
	number, err := strconv.Atoi(value.String())
	if err != nil {
		c.add("InvalidValues", fmt.Sprintf("%s is %q", name, value.StrVal), "give a number")
		return nil
	}
	return &number
}

// maxLabel is the length in bytes from which GitHub refuses a label.
const maxLabel = 256

// secret takes the name of a Secret, or the credentials themselves as keys and values.
func (c *checks) secret(secret any) {
	const fix = "name a Secret, or give github_token, or github_app_id, github_app_installation_id and github_app_private_key"
	switch given := secret.(type) {
	case string:
		c.require(given != "", v1alpha1.ReasonCredentialsMissing, "githubConfigSecret is empty", fix)
	case map[string]any:
		has := func(key string) bool { return given[key] != nil && given[key] != "" }
		app := has(credentials.KeyAppID) && has(credentials.KeyAppInstallationID) && has(credentials.KeyAppPrivateKey)
		part := has(credentials.KeyAppID) || has(credentials.KeyAppInstallationID) || has(credentials.KeyAppPrivateKey)
		c.require(has(credentials.KeyToken) || app, v1alpha1.ReasonCredentialsMissing, "githubConfigSecret has neither a token nor a whole App", fix)
		c.require(!has(credentials.KeyToken) || !part, v1alpha1.ReasonCredentialsInvalid, "githubConfigSecret has a token and an App", "keep one of the two")
	default:
		c.add(v1alpha1.ReasonCredentialsMissing, "githubConfigSecret is missing", fix)
	}
}

func validateSet(document []byte, place string) []Finding {
	set := &v1alpha1.AutoscalingRunnerSet{}
	c := &checks{object: nameOf(document, place)}
	if err := yaml.UnmarshalStrict(document, set); err != nil {
		c.add("InvalidManifest", err.Error(), "correct the field; kubectl explain autoscalingrunnerset.spec lists them")
		return c.findings
	}
	c.spec(set.Spec.GitHubConfigUrl, set.Spec.MinRunners, set.Spec.MaxRunners)
	c.require(set.Spec.GitHubConfigSecret != "", v1alpha1.ReasonCredentialsMissing, "githubConfigSecret is empty", "name a Secret in the same namespace")
	c.template(&set.Spec.Template.Spec, false)
	c.require(kube.Container(&set.Spec.Template.Spec, v1alpha1.RunnerContainerName) != nil, "NoRunnerContainer", "the template has no container named runner", "name the container with the runner so")
	return c.findings
}

// nameOf is the name of a scale set, of which anything but the name may be wrong; without a name it is the place.
func nameOf(document []byte, place string) string {
	object := &metav1.PartialObjectMetadata{}
	if _ = yaml.Unmarshal(document, object); object.Name == "" {
		return place
	}
	return setKind + " " + object.Namespace + "/" + object.Name
}

// spec checks what values and manifests have in common.
func (c *checks) spec(url string, least, most *int) {
	if _, err := actions.ParseConfigURL(url); err != nil {
		c.add(v1alpha1.ReasonInvalidConfigURL, err.Error(), "correct githubConfigUrl")
	}
	for name, limit := range map[string]*int{"minRunners": least, "maxRunners": most} {
		c.require(limit == nil || *limit >= 0, "InvalidLimits", name+" is negative", "use 0 or more")
	}
	c.require(least == nil || most == nil || *least <= *most, "InvalidLimits", "minRunners is greater than maxRunners", "raise maxRunners or lower minRunners")
}

// template checks the runner's pod. In values the chart gives a runner without an image the usual one, and the command for it.
func (c *checks) template(spec *corev1.PodSpec, inValues bool) {
	for i := range spec.Containers {
		container := &spec.Containers[i]
		if completed := inValues && container.Image == ""; container.Name == v1alpha1.RunnerContainerName && !completed {
			c.require(container.Image != "", "NoImage", "the container runner has no image", "use ghcr.io/actions/actions-runner or one made from it")
			c.require(len(container.Command) > 0 || len(container.Args) > 0, "NoCommand",
				"the container runner has no command, and the usual image starts nothing by itself", `add command: ["/home/runner/run.sh"]`)
		}
	}
}
