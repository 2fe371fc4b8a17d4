package validation

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/addresses"
	"github.com/harrier-ci/harrier/internal/doctor/finding"
	"github.com/harrier-ci/harrier/internal/doctor/tenants"
	"github.com/harrier-ci/harrier/internal/dryrun"
	"github.com/harrier-ci/harrier/internal/kube"
)

// checks collect what is wrong with one object.
type checks struct {
	object string
	controller
	findings []finding.Finding
	// notes say what is right, where somebody has asked, and what isn't used.
	notes []string
}

// add notes a problem, once: several objects may be made of one value.
func (c *checks) add(reason, message, fix string) {
	problem := finding.Finding{Severity: finding.Problem, Object: c.object, Reason: reason, Message: message, Fix: fix}
	if !slices.Contains(c.findings, problem) {
		c.findings = append(c.findings, problem)
	}
}

// require notes a problem unless ok holds.
func (c *checks) require(ok bool, reason, message, fix string) {
	if !ok {
		c.add(reason, message, fix)
	}
}

// manifest checks an AutoscalingRunnerSet that somebody has written.
func (c *checks) manifest(document []byte) error {
	var fields map[string]any
	if err := yaml.UnmarshalStrict(document, &fields); err != nil {
		c.add("InvalidManifest", err.Error(), "correct the manifest")
		return nil
	}
	faults, err := dryrun.CheckObject(fields)
	if err != nil {
		return err
	}
	for _, fault := range faults {
		c.fault("", fault)
	}
	set := &v1alpha1.AutoscalingRunnerSet{}
	if err := yaml.Unmarshal(document, set); err != nil {
		if len(faults) == 0 {
			c.add("InvalidManifest", err.Error(), "correct the field; kubectl explain autoscalingrunnerset.spec lists the fields")
		}
		return nil
	}
	c.url(set.Spec.GitHubConfigUrl)
	c.require(set.Spec.GitHubConfigSecret != "", v1alpha1.ReasonCredentialsMissing, "githubConfigSecret is empty", "name a Secret in the same namespace")
	c.secretName(set.Spec.GitHubConfigSecret, set.Spec.VaultConfig != nil && set.Spec.VaultConfig.Type != "")
	c.set(set, "InvalidManifest")
	return nil
}

// set checks what chart and schema let through, and the API server, the manager or the kubelet wouldn't. invalid is the reason of what the kind's
// own rules refuse.
func (c *checks) set(set *v1alpha1.AutoscalingRunnerSet, invalid string) {
	c.rules(&set.Spec, invalid)
	c.proxies("proxy", set.Spec.Proxy)
	if set.Spec.VaultConfig != nil {
		c.proxies("keyVault.proxy", set.Spec.VaultConfig.Proxy)
	}
	c.volumeClaims(&set.Spec.Template.Spec)
	if runner := kube.Container(&set.Spec.Template.Spec, v1alpha1.RunnerContainerName); runner != nil {
		c.runner(runner)
	} else {
		c.add("NoRunnerContainer", "the template has no container named runner", `name the container that runs the runner "runner"`)
	}
	c.listener(&set.Spec)
	c.admit(tenants.Set{Namespace: set.Namespace, URL: set.Spec.GitHubConfigUrl, Group: set.Spec.RunnerGroup, MaxRunners: c.capacity(&set.Spec)})
}

// acceptedURL is how the kind takes an address: with one or two names, and with nothing else but slashes at its ends.
var acceptedURL = regexp.MustCompile(`^/*https?://[^/?#]+(/[^/?#]+){1,2}/*$`)

func (c *checks) url(url string) {
	if parsed, err := actions.ParseConfigURL(url); err != nil {
		c.add(v1alpha1.ReasonInvalidConfigURL, err.Error(), "correct githubConfigUrl")
	} else if !acceptedURL.MatchString(url) {
		c.add(v1alpha1.ReasonInvalidConfigURL, "the API server refuses githubConfigUrl: it is more than an address",
			"write it as "+parsed.URL.Scheme+"://"+parsed.URL.Host+"/"+strings.Trim(parsed.URL.Path, "/"))
	}
	c.address(c.addresses.CheckGitHub("githubConfigUrl", url))
}

// secretName notes a name that no Secret can have. It isn't quoted, because it may be a token that somebody wrote there. What is in a vault
// has names by other rules.
func (c *checks) secretName(name string, inVault bool) {
	if wrong := apivalidation.NameIsDNSSubdomain(name, false); name != "" && !inVault && len(wrong) > 0 {
		c.add(v1alpha1.ReasonCredentialsMissing, "no Secret can have the name that githubConfigSecret is (not shown here, as it may be a credential): "+wrong[0],
			"name a Secret as kubectl get secrets lists it; a token belongs into the Secret, under github_token")
	}
}

// maxTimeout is the longest that the kind allows.
const maxTimeout = 8760 * time.Hour

// rules are those that the kind's schema has in CEL, which the check of the schema leaves out.
func (c *checks) rules(spec *v1alpha1.AutoscalingRunnerSetSpec, invalid string) {
	least, most := spec.MinRunners, spec.MaxRunners
	c.require(least == nil || most == nil || *least <= *most, "InvalidLimits", "minRunners is greater than maxRunners", "raise maxRunners or lower minRunners")
	c.durations(spec, invalid)
	wait, err := time.ParseDuration(spec.JobProtection)
	c.require(slices.Contains([]string{"", "true", "false"}, spec.JobProtection) || err == nil && wait > 0, invalid,
		fmt.Sprintf("jobProtection is %q", spec.JobProtection), "use true, false, or a duration with a unit, such as 6h")
	vault := cmp.Or(spec.VaultConfig, &v1alpha1.VaultConfig{})
	c.require(vault.Type == "" || vault.Type == v1alpha1.VaultTypeAzureKeyVault, v1alpha1.ReasonVaultUnsupported,
		"vaultConfig.type is "+string(vault.Type), "use "+string(v1alpha1.VaultTypeAzureKeyVault)+", or leave vaultConfig out")
	c.require(vault.Type != v1alpha1.VaultTypeAzureKeyVault || vault.AzureKeyVault != nil, "IncompleteVault", "vaultConfig lacks azureKeyVault", "add it")
	c.claims(&spec.RunnerVolumeClaims, invalid)
}

// durations are the rules about times.
func (c *checks) durations(spec *v1alpha1.AutoscalingRunnerSetSpec, invalid string) {
	for name, wait := range map[string]*metav1.Duration{
		"pendingTimeout": spec.PendingTimeout, "registrationTimeout": spec.RegistrationTimeout,
		"scaleDownDelay": spec.ScaleDownDelay, "maxIdleTime": spec.MaxIdleTime,
	} {
		c.require(wait == nil || wait.Duration <= maxTimeout, invalid, name+" is too long", "use at most a year, 8760h")
	}
	if most := spec.MaxIdleTime; most != nil {
		c.require(most.Duration == 0 || most.Duration >= time.Minute, invalid, "maxIdleTime is "+most.Duration.String(), "use 0s for any time, or at least 1m")
	}
	if spec.Capacity != nil && spec.Capacity.PlacementTimeout != nil {
		timeout := spec.Capacity.PlacementTimeout.Duration
		c.require(timeout > 0 && timeout <= maxTimeout, invalid, "capacity.placementTimeout is "+timeout.String(), "use more than 0s, and at most a year, 8760h")
	}
	if feedback := spec.Feedback; feedback != nil && feedback.CheckAfter != nil {
		c.require(feedback.CheckAfter.Duration <= 24*time.Hour, invalid, "feedback.checkAfter is "+feedback.CheckAfter.Duration.String(), "use at most 24h, after which GitHub cancels a job that waits")
	}
}

// address notes an address that the manager would refuse.
func (c *checks) address(refused error) {
	if refused != nil {
		c.add(v1alpha1.ReasonAddressNotAllowed, refused.Error(),
			"use another address; if the controller allows it, pass what its flags.allowedGitHubURLs lists as --"+addresses.Flag)
	}
}

// proxies checks the addresses of proxies, which may be nil.
func (c *checks) proxies(place string, proxy *v1alpha1.ProxyConfig) {
	if proxy == nil {
		return
	}
	for scheme, server := range map[string]*v1alpha1.ProxyServerConfig{"http": proxy.HTTP, "https": proxy.HTTPS} {
		if server == nil {
			continue
		}
		c.require(server.CredentialSecretRef == "" || server.Url != "", "InvalidProxy", place+"."+scheme+" has credentialSecretRef but no url",
			"add the url of the proxy, or remove the credentials")
		if server.Url != "" {
			c.address(c.addresses.CheckProxy(place+"."+scheme+".url", server.Url))
		}
	}
}

// usualImage is the last part of the name of GitHub's image for runners, and of its copies in other registries.
var usualImage = regexp.MustCompile(`(^|/)actions-runner(:|@|$)`)

// runner checks the runner's container. Without a command the usual image is a shell, which ends at once. Other images may start the
// runner by themselves.
func (c *checks) runner(container *corev1.Container) {
	c.require(container.Image != "", "NoImage", "the container named runner has no image", "use ghcr.io/actions/actions-runner or an image based on it")
	if len(container.Command) > 0 || len(container.Args) > 0 {
		return
	}
	severity, fix := finding.Problem, `add command: ["/home/runner/run.sh"]`
	if container.Image != "" && !usualImage.MatchString(container.Image) {
		severity, fix = finding.Warning, fix+", unless the image has an entrypoint that starts the runner"
	}
	c.findings = append(c.findings, finding.Finding{
		Severity: severity, Object: c.object, Reason: "NoCommand", Fix: fix,
		Message: "the container named runner has no command, and the usual image does not start the runner by itself",
	})
}

// volumeClaims checks the claims of ephemeral volumes.
func (c *checks) volumeClaims(spec *corev1.PodSpec) {
	for i := range spec.Volumes {
		if volume := &spec.Volumes[i]; volume.Ephemeral != nil {
			claim := corev1.PersistentVolumeClaimSpec{}
			if given := volume.Ephemeral.VolumeClaimTemplate; given != nil {
				claim = given.Spec
			}
			c.claim("volumeClaimTemplate of volume "+volume.Name, &claim)
		}
	}
}

// claim checks the spec of a runner's volume claim. If it is incomplete, the API server rejects the pod.
func (c *checks) claim(place string, claim *corev1.PersistentVolumeClaimSpec) {
	var missing []string
	if len(claim.AccessModes) == 0 {
		missing = append(missing, "accessModes")
	}
	if _, sized := claim.Resources.Requests[corev1.ResourceStorage]; !sized {
		missing = append(missing, "resources.requests.storage")
	}
	c.require(len(missing) == 0, "InvalidVolumeClaim", place+" lacks "+strings.Join(missing, " and "), "complete the spec of the volume claim; the chart makes that of volume work from containerMode.kubernetesModeWorkVolumeClaim")
}

// maxRefusals is how many fields that the policy refuses have a finding of their own.
const maxRefusals = 20

// listener reports what the manager's policy leaves out of what a scale set says about its listener.
func (c *checks) listener(spec *v1alpha1.AutoscalingRunnerSetSpec) {
	refused := c.listeners.Accept(spec).Refused
	shown := refused.First[:min(maxRefusals, len(refused.First))]
	for _, refusal := range shown {
		c.add(v1alpha1.ReasonFieldsRefused, fmt.Sprintf("%s is left out: %s", refusal.Path, refusal.Reason), checkByPolicy)
	}
	if more := len(refused.First) - len(shown) + refused.More; more > 0 {
		c.add(v1alpha1.ReasonFieldsRefused, fmt.Sprintf("%d more fields are left out", more), checkByPolicy)
	}
}

const checkByPolicy = "remove it; or, if the controller's chart allows it by flags.listenerTemplatePolicy or flags.listenerSidecarImages, " +
	"validate with --listener-template-policy and --listener-sidecar-images"

// admit notes what the tenants entries decide about a scale set. Without a controller's values it does nothing.
func (c *checks) admit(set tenants.Set) {
	if len(c.tenants) == 0 {
		return
	}
	set.Namespace = cmp.Or(set.Namespace, c.namespace)
	if set.Namespace == "" {
		c.add("NamespaceUnknown", "it has no namespace, so it isn't known which entries of tenants apply", "add -n NAMESPACE")
		return
	}
	number, refusal := c.tenants.Decide(set)
	if refusal != "" {
		c.add("TenantsRefuse", refusal, "use what an entry allows, or ask whoever administers the controller's release for an entry")
		return
	}
	c.notes = append(c.notes, fmt.Sprintf("%s: entry %d of tenants allows it in namespace %s", c.object, number+1, set.Namespace))
}
