package validation

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/addresses"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
	"github.com/harrier-ci/harrier/operations/dryrun"
	"github.com/harrier-ci/harrier/operations/finding"
	"github.com/harrier-ci/harrier/operations/validation/tenants"
)

// checks collects the problems of one object.
type checks struct {
	object string
	controller
	// urlRefused: the manager's reason to refuse githubConfigUrl has been said.
	urlRefused bool
	findings   []finding.Finding
	// notes name what is right, if somebody has asked about it, and what isn't used.
	notes []string
}

// add notes a problem if it is new: several objects may be made of one value.
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
	fields["kind"] = setKind // which items of a list may leave out
	set := &v1alpha1.AutoscalingRunnerSet{}
	unread := yaml.Unmarshal(document, set)
	if unread == nil {
		c.url(set.Spec.GitHubConfigUrl)
	}
	faults, err := c.faultsOf(fields)
	if err != nil {
		return err
	}
	for _, fault := range faults {
		c.fault("", fault)
	}
	if unread != nil {
		if len(faults) == 0 {
			c.add("InvalidManifest", unread.Error(),
				"correct the field; kubectl explain autoscalingrunnerset.spec lists the fields")
		}
		return nil
	}
	c.require(set.Spec.GitHubConfigSecret != "", v1alpha1.ReasonCredentialsMissing, "githubConfigSecret is empty",
		"name a Secret in the same namespace")
	c.secretName(set.Spec.GitHubConfigSecret, set.Spec.VaultConfig != nil && set.Spec.VaultConfig.Type != "")
	c.set(set, faults)
	return nil
}

// faultsOf returns the API server's faults of an object, without those of its address if the manager's reason to refuse
// that has been given.
func (c *checks) faultsOf(fields map[string]any) ([]dryrun.Fault, error) {
	faults, err := dryrun.CheckObject(fields)
	return slices.DeleteFunc(faults, func(fault dryrun.Fault) bool {
		return c.urlRefused &&
			fault.Path == "spec.githubConfigUrl"
	}), err
}

// set checks for what the chart and the API server let through, and the manager or the kubelet wouldn't. faults are
// those of the API server.
func (c *checks) set(set *v1alpha1.AutoscalingRunnerSet, faults []dryrun.Fault) {
	c.proxies("proxy", set.Spec.Proxy)
	if set.Spec.VaultConfig != nil {
		c.proxies("keyVault.proxy", set.Spec.VaultConfig.Proxy)
	}
	c.volumeClaims(&set.Spec)
	if runner := kube.Container(&set.Spec.Template.Spec, v1alpha1.RunnerContainerName); runner != nil {
		c.runner(runner)
	} else {
		c.add("NoRunnerContainer", "the template has no container named runner",
			`name the container that runs the runner "runner"`)
	}
	c.listener(&set.Spec)
	c.admit(tenants.Set{
		Namespace:  set.Namespace,
		URL:        set.Spec.GitHubConfigUrl,
		Group:      set.Spec.RunnerGroup,
		MaxRunners: c.capacity(&set.Spec, faults),
	})
}

func (c *checks) url(url string) {
	if _, err := actions.ParseConfigURL(url); err != nil {
		c.urlRefused = true
		c.add(v1alpha1.ReasonInvalidConfigURL, err.Error(), "correct githubConfigUrl")
	}
	c.address(c.addresses.CheckGitHub("githubConfigUrl", url))
}

// secretName notes a name that no Secret can have. It isn't quoted, because it may be a token that somebody wrote
// there. What is in a vault has names by other rules.
func (c *checks) secretName(name string, inVault bool) {
	if wrong := apivalidation.NameIsDNSSubdomain(name, false); name != "" && !inVault && len(wrong) > 0 {
		c.add(v1alpha1.ReasonCredentialsMissing,
			"no Secret can have the name that githubConfigSecret is (not shown here, as it may be a "+
				"credential): "+wrong[0],
			"name a Secret as kubectl get secrets lists it; a token belongs into the Secret, under github_token")
	}
}

// address notes an address that the manager would refuse.
func (c *checks) address(refused error) {
	if refused != nil {
		c.add(v1alpha1.ReasonAddressNotAllowed, refused.Error(),
			"use another address; if the controller allows it, pass what its flags.allowedGitHubURLs "+
				"lists as --"+addresses.Flag)
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
		c.require(server.CredentialSecretRef == "" ||
			server.Url != "", "InvalidProxy", place+"."+scheme+" has credentialSecretRef but no url",
			"add the url of the proxy, or remove the credentials")
		if server.Url != "" {
			c.address(c.addresses.CheckProxy(place+"."+scheme+".url", server.Url))
		}
	}
}

// usualImage is the last part of the name of GitHub's image for runners, and of its copies in other registries.
var usualImage = regexp.MustCompile(`(^|/)actions-runner(:|@|$)`)

// runner checks the runner's container. Without a command the usual image is a shell, which ends immediately. Other
// images may start the runner by themselves.
func (c *checks) runner(container *corev1.Container) {
	c.require(container.Image != "", "NoImage", "the container named runner has no image",
		"use ghcr.io/actions/actions-runner or an image based on it")
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

// volumeClaims checks the claims of ephemeral volumes, and those that outlive a runner.
func (c *checks) volumeClaims(spec *v1alpha1.AutoscalingRunnerSetSpec) {
	for i := range spec.Template.Spec.Volumes {
		if volume := &spec.Template.Spec.Volumes[i]; volume.Ephemeral != nil {
			claim := corev1.PersistentVolumeClaimSpec{}
			if given := volume.Ephemeral.VolumeClaimTemplate; given != nil {
				claim = given.Spec
			}
			c.claim("volumeClaimTemplate of volume "+volume.Name, &claim)
		}
	}
	for i := range spec.VolumeClaimTemplates {
		mode := spec.VolumeClaimTemplates[i].Spec.VolumeMode
		c.require(mode == nil || *mode != corev1.PersistentVolumeBlock, "InvalidVolumeClaim",
			fmt.Sprintf("volumeClaimTemplates[%d] has a volumeMode that containers can't mount", i), "leave it out")
	}
	if c.classes != nil {
		for _, claim := range volumeclaims.WithoutClass(spec, c.classes) {
			c.add(v1alpha1.ReasonVolumeUnbound, "runners will wait for a volume unless somebody makes it by hand: "+claim,
				meaning.OfRunner(v1alpha1.ReasonVolumeUnbound))
		}
	}
	for _, name := range volumeclaims.UnmountedTemplates(spec) {
		c.findings = append(c.findings, finding.Finding{
			Severity: finding.Warning, Object: c.object, Reason: "VolumeClaimUnmounted",
			Message: "no container mounts volume " + name + " of volumeClaimTemplates: each runner's claim is paid for, and no " +
				"job has it",
			Fix: "add volumeMounts with that name to the container that needs it, or remove the template",
		})
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
	c.require(len(missing) == 0, "InvalidVolumeClaim", place+" lacks "+
		strings.Join(missing, " and "),
		"complete the spec of the volume claim; the chart makes that of volume work from "+
			"containerMode.kubernetesModeWorkVolumeClaim")
}

// maxRefusals limits the fields refused by the policy that have a finding of their own.
const maxRefusals = 20

// listener reports what the manager's policy leaves out of what a scale set says about its listener.
func (c *checks) listener(spec *v1alpha1.AutoscalingRunnerSetSpec) {
	refused := c.listeners.Accept(spec).Refused
	shown := refused.First[:min(maxRefusals, len(refused.First))]
	for i, refusal := range shown {
		same := func(other listenertemplate.Refusal) bool {
			return other.Reason == refusal.Reason && metadataKey(other.Path) == metadataKey(refusal.Path)
		}
		if slices.ContainsFunc(shown[:i], same) {
			continue
		}
		paths, verb := refusal.Path, "is"
		for _, other := range shown[i+1:] {
			if same(other) {
				paths, verb = paths+", "+other.Path, "are"
			}
		}
		c.add(v1alpha1.ReasonFieldsRefused, fmt.Sprintf("%s %s left out: %s", paths, verb, refusal.Reason), checkByPolicy)
	}
	if more := len(refused.First) - len(shown) + refused.More; more > 0 {
		c.add(v1alpha1.ReasonFieldsRefused, fmt.Sprintf("%d more fields are left out", more), checkByPolicy)
	}
}

// metadataKey returns the end of the path of a label or an annotation, which several objects may have, and of other
// fields the whole path.
func metadataKey(path string) string {
	return path[max(strings.Index(path, ".labels["), strings.Index(path, ".annotations["), 0):]
}

const checkByPolicy = "remove it; or, if the controller's chart allows it by flags.listenerTemplatePolicy, " +
	"listenerSidecarImages, listenerMetadataKeys or listenerPriorityClasses, validate with the flags of these names, " +
	"such as --listener-template-policy"

// admit notes what the tenants entries decide about a scale set. Without a controller's values it does nothing.
func (c *checks) admit(set tenants.Set) {
	if len(c.tenants) == 0 {
		return
	}
	set.Namespace = cmp.Or(set.Namespace, c.namespace)
	if set.Namespace == "" {
		c.add("NamespaceUnknown", "it has no namespace, so it isn't known which entries of tenants apply",
			"add -n NAMESPACE")
		return
	}
	number, refusal := c.tenants.Decide(set)
	if refusal != "" {
		c.add("TenantsRefuse", refusal,
			"use what an entry allows, or ask whoever administers the controller's release for an entry")
		return
	}
	c.notes = append(c.notes, fmt.Sprintf("%s: entry %d of tenants allows it in namespace %s", c.object, number+1,
		set.Namespace))
}
