package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	namerules "k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
)

// values are the chart's values that are checked: those that users often get wrong, so that the chart, the API server or the
// manager refuses them. The rest of a values file is left to the chart's own schema and templates.
type values struct {
	GitHubConfigURL     string                  `json:"githubConfigUrl"`
	GitHubConfigSecret  any                     `json:"githubConfigSecret"`
	RunnerScaleSetName  any                     `json:"runnerScaleSetName"`
	RunnerGroup         any                     `json:"runnerGroup"`
	NamespaceOverride   any                     `json:"namespaceOverride"`
	MinRunners          *intstr.IntOrString     `json:"minRunners"`
	MaxRunners          *intstr.IntOrString     `json:"maxRunners"`
	PendingTimeout      any                     `json:"pendingTimeout"`
	RegistrationTimeout any                     `json:"registrationTimeout"`
	ProtectRunners      any                     `json:"protectRunners"`
	JobProtection       any                     `json:"jobProtection"`
	Template            *corev1.PodTemplateSpec `json:"template"`
	ListenerTemplate    *corev1.PodTemplateSpec `json:"listenerTemplate"`
	ScaleSetLabels      []string                `json:"scaleSetLabels"`
	Proxy               proxyValues             `json:"proxy"`
	GitHubServerTLS     struct {
		v1alpha1.TLSConfig
		RunnerMountPath string `json:"runnerMountPath"`
	} `json:"githubServerTLS"`
	ResourceMeta struct {
		AutoscalingListener    *v1alpha1.ResourceMeta `json:"autoscalingListener"`
		ListenerServiceAccount *v1alpha1.ResourceMeta `json:"listenerServiceAccount"`
		ListenerConfigSecret   *v1alpha1.ResourceMeta `json:"listenerConfigSecret"`
	} `json:"resourceMeta"`
	ContainerMode struct {
		Type            string                            `json:"type"`
		WorkVolumeClaim *corev1.PersistentVolumeClaimSpec `json:"kubernetesModeWorkVolumeClaim"`
		RoleRules       []any                             `json:"kubernetesModeAdditionalRoleRules"`
		Account         map[string]any                    `json:"kubernetesModeServiceAccount"`
		HookTemplate    map[string]any                    `json:"kubernetesModeHookTemplate"`
		HookSource      map[string]any                    `json:"kubernetesModeHookTemplateFrom"`
	} `json:"containerMode"`
	KeyVault struct {
		Type  string         `json:"type"`
		Azure map[string]any `json:"azureKeyVault"`
		// SnakeAzure is the same in ARC's spelling, which the chart uses if the other is empty.
		SnakeAzure map[string]any `json:"azure_key_vault"`
		Proxy      proxyValues    `json:"proxy"`
	} `json:"keyVault"`
}

// proxyValues are the settings of a proxy, except noProxy, which may be a list or a string.
type proxyValues struct {
	HTTP  v1alpha1.ProxyServerConfig `json:"http"`
	HTTPS v1alpha1.ProxyServerConfig `json:"https"`
}

// knownValues are the top-level keys of the chart's values. The chart's schema refuses all others, too.
var knownValues = []string{
	"annotations", "containerMode", "controllerServiceAccount", "enabled", "failedHistoryLimit", "githubConfigSecret",
	"githubConfigSecretRevision", "githubConfigUrl", "githubServerTLS", "global", "jobProtection", "keyVault", "labels", "listenerMetrics", "listenerTemplate", "maxRunners", "minRunners", "nameOverride",
	"namespaceOverride", "pendingTimeout", "protectRunners", "proxy", "registrationTimeout", "resourceMeta", "runnerGroup", "runnerScaleSetName",
	"scaleSetLabels", "template",
}

// setValues and controllerValues distinguish the values of the two charts: a scale set's values have nearly always one of
// setValues, the controller's often have one of controllerValues.
var (
	setValues        = []string{"githubConfigUrl", "githubConfigSecret", "template"}
	controllerValues = []string{"crds", "flags", "image", "metrics", "monitoring", "replicaCount", "resources", "serviceAccount", "tenants"}
)

// ofController reports whether these look like values of the controller's chart.
func ofController(fields map[string]any) bool {
	given := func(key string) bool { _, there := fields[key]; return there }
	return !slices.ContainsFunc(setValues, given) && slices.ContainsFunc(controllerValues, given)
}

// ownPrefix is the prefix of keys that the chart leaves to users, for YAML anchors for example.
const ownPrefix = "x-"

// containerModes are the types that the chart knows; "" and "none" mean the same.
var containerModes = []string{"", "none", dindMode, kubernetesMode, noVolumeMode}

const (
	// kubernetesMode is the mode in which job pods work on the runner's volume, workVolume.
	kubernetesMode = "kubernetes"
	workVolume     = "work"
)

func (c *checks) values(document []byte, fields map[string]any) {
	experimental := c.experimental(fields)
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		c.require(slices.Contains(knownValues, key) || strings.HasPrefix(key, ownPrefix) || slices.Contains(experimental, key),
			"UnknownValue", fmt.Sprintf("the chart has no value %q", key), "correct the spelling; helm show values lists all values")
	}
	v := values{}
	if err := yaml.Unmarshal(document, &v); err != nil {
		c.add("InvalidValues", err.Error(), "correct the type of the value")
		return
	}
	maxRunners := c.number("maxRunners", v.MaxRunners)
	c.spec(v.GitHubConfigURL, c.number("minRunners", v.MinRunners), maxRunners)
	c.admit(limited{namespace: text(v.NamespaceOverride), url: v.GitHubConfigURL, group: text(v.RunnerGroup), maxRunners: maxRunners})
	c.secret(v.GitHubConfigSecret, v.GitHubConfigURL)
	c.name(v.RunnerScaleSetName)
	c.timeout("pendingTimeout", v.PendingTimeout)
	c.timeout("registrationTimeout", v.RegistrationTimeout)
	c.protection(text(v.ProtectRunners), text(v.JobProtection))
	for _, label := range v.ScaleSetLabels {
		c.require(label != "" && len(label) < maxLabel, "InvalidLabel", fmt.Sprintf("scaleSetLabels has %q", label),
			fmt.Sprintf("use 1 to %d characters for a label", maxLabel-1))
	}
	c.proxy("proxy", v.Proxy)
	c.proxy("keyVault.proxy", v.KeyVault.Proxy)
	c.certificate(&v)
	c.vault(&v)
	c.containerMode(&v)
	c.containers(document, v.ContainerMode.Type)
	c.listener(&v1alpha1.AutoscalingRunnerSetSpec{
		ListenerTemplate: v.ListenerTemplate, AutoscalingListenerMetadata: v.ResourceMeta.AutoscalingListener,
		ListenerServiceAccountMetadata: v.ResourceMeta.ListenerServiceAccount, ListenerConfigSecretMetadata: v.ResourceMeta.ListenerConfigSecret,
	})
	if v.Template != nil {
		c.volumeClaims(&v.Template.Spec)
	}
}

// number reads a number, which may be in quotes. It returns nil if there is none, or none that can be read.
func (c *checks) number(name string, value *intstr.IntOrString) *int {
	if value == nil || value.Type == intstr.String && value.StrVal == "" { // to the chart, an empty string is no value
		return nil
	}
	number, err := strconv.Atoi(value.String())
	if err != nil {
		c.add("InvalidValues", fmt.Sprintf("%s is %q", name, value.StrVal), "use a number")
		return nil
	}
	return &number
}

// maxLabel is the length in bytes at which GitHub refuses a label.
const maxLabel = 256

// secret checks the name of a Secret, or credentials that are given as keys and values.
func (c *checks) secret(secret any, url string) {
	const fix = "name a Secret, or set github_token, or set github_app_id, github_app_installation_id and github_app_private_key"
	switch given := secret.(type) {
	case string:
		c.require(given != "", v1alpha1.ReasonCredentialsMissing, "githubConfigSecret is empty", fix)
	case map[string]any:
		has := func(key string) bool { return strings.TrimSpace(text(given[key])) != "" }
		app := has(credentials.KeyAppID) && has(credentials.KeyAppInstallationID) && has(credentials.KeyAppPrivateKey)
		part := has(credentials.KeyAppID) || has(credentials.KeyAppInstallationID) || has(credentials.KeyAppPrivateKey)
		c.require(has(credentials.KeyToken) || app, v1alpha1.ReasonCredentialsMissing, "githubConfigSecret has neither a token nor a complete App", fix)
		c.require(!has(credentials.KeyToken) || !part, v1alpha1.ReasonCredentialsInvalid, "githubConfigSecret has a token and an App", "keep one of the two")
		if app {
			c.app(given, url)
		}
	default:
		c.add(v1alpha1.ReasonCredentialsMissing, "githubConfigSecret is missing", fix)
	}
}

// app checks the credentials of an App.
func (c *checks) app(given map[string]any, url string) {
	installation, err := strconv.ParseInt(strings.TrimSpace(text(given[credentials.KeyAppInstallationID])), 10, 64)
	if err != nil || installation <= 0 {
		c.add(v1alpha1.ReasonCredentialsInvalid, "githubConfigSecret."+credentials.KeyAppInstallationID+" is not a positive whole number",
			"take it from the end of the installation's URL on GitHub")
		return
	}
	err = actions.Credentials{App: &actions.AppCredentials{
		ID: text(given[credentials.KeyAppID]), InstallationID: installation, PrivateKey: text(given[credentials.KeyAppPrivateKey]),
	}}.Validate()
	c.require(err == nil, v1alpha1.ReasonCredentialsInvalid, fmt.Sprintf("githubConfigSecret: %v", err), "give the App's key as GitHub generated it")
	address, err := actions.ParseConfigURL(url)
	c.require(err != nil || address.Scope != actions.ScopeEnterprise, v1alpha1.ReasonCredentialsInvalid,
		"githubConfigSecret has a GitHub App, which can't register runners of an enterprise",
		"give a classic personal access token with the scope manage_runners:enterprise, or register at an organization of the enterprise")
}

// maxName is the length in bytes that the chart allows, so that there is room for suffixes.
const maxName = 45

// name checks the scale set's name, from which the chart derives the object's name. Without one it uses the release's name.
func (c *checks) name(value any) {
	name := text(value)
	valid := len(namerules.IsDNS1123Subdomain(strings.ReplaceAll(name, "_", "-"))) == 0
	c.require(name == "" || valid && len(name) <= maxName, "InvalidName", fmt.Sprintf("runnerScaleSetName is %q", name),
		fmt.Sprintf("use at most %d characters: lowercase letters, digits, -, _ and dots, with a letter or a digit at both ends", maxName))
}

// duration and maxTimeout are the API's rules for the timeouts of a scale set.
var duration = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`)

const maxTimeout = 8760 * time.Hour

func (c *checks) timeout(name string, value any) {
	given := text(value)
	wait, err := time.ParseDuration(given)
	c.require(given == "" || duration.MatchString(given) && err == nil && wait <= maxTimeout, "InvalidValues", fmt.Sprintf("%s is %q", name, given),
		"use a duration with a unit (ms, s, m or h), such as 10m; at most a year, 8760h")
}

func (c *checks) protection(runners, job string) {
	known := []string{"", string(v1alpha1.ProtectNoRunners), string(v1alpha1.ProtectBusyRunners), string(v1alpha1.ProtectAllRunners)}
	c.require(slices.Contains(known, runners), "InvalidValues", fmt.Sprintf("protectRunners is %q", runners), "use None, Busy or All")
	wait, err := time.ParseDuration(job)
	c.require(slices.Contains([]string{"", "true", "false"}, job) || duration.MatchString(job) && err == nil && wait > 0 && wait <= maxTimeout, "InvalidValues",
		fmt.Sprintf("jobProtection is %q", job), "use true, false, or a duration with a unit, such as 6h; at most a year, 8760h")
}

// text returns a value as the chart renders it, or "" if there is none.
func text(value any) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

func (c *checks) proxy(place string, proxy proxyValues) {
	c.proxyServer(place+".http", proxy.HTTP)
	c.proxyServer(place+".https", proxy.HTTPS)
	c.proxies(place, &v1alpha1.ProxyConfig{HTTP: &proxy.HTTP, HTTPS: &proxy.HTTPS})
}

func (c *checks) proxyServer(place string, server v1alpha1.ProxyServerConfig) {
	c.require(server.CredentialSecretRef == "" || server.Url != "", "InvalidProxy", place+" has credentialSecretRef but no url",
		"add the url of the proxy, or remove the credentials")
}

// certificate checks that the settings name a certificate, if they want one.
func (c *checks) certificate(v *values) {
	tls := &v.GitHubServerTLS
	if tls.CertificateFrom == nil && tls.RunnerMountPath == "" {
		return
	}
	named := tls.CertificateFrom != nil && tls.CertificateFrom.ConfigMapKeyRef != nil &&
		tls.CertificateFrom.ConfigMapKeyRef.Name != "" && tls.CertificateFrom.ConfigMapKeyRef.Key != ""
	c.require(named, "InvalidCertificate", "githubServerTLS names no certificate", "set name and key in githubServerTLS.certificateFrom.configMapKeyRef")
}

// azureSettings are the settings that a vault needs, with their names in the snake case of ARC's values.
var azureSettings = map[string]string{"url": "url", "tenantId": "tenant_id", "clientId": "client_id", "certificatePath": "certificate_path"}

func (c *checks) vault(v *values) {
	const supported = string(v1alpha1.VaultTypeAzureKeyVault)
	if v.KeyVault.Type != supported {
		c.require(v.KeyVault.Type == "", v1alpha1.ReasonVaultUnsupported, "keyVault.type is not "+supported, "use "+supported+", or leave keyVault out")
		return
	}
	azure := v.KeyVault.Azure
	if len(azure) == 0 {
		azure = v.KeyVault.SnakeAzure
	}
	var missing []string
	for _, key := range slices.Sorted(maps.Keys(azureSettings)) {
		if cmp.Or(text(azure[key]), text(azure[azureSettings[key]])) == "" {
			missing = append(missing, key)
		}
	}
	c.require(len(missing) == 0, "IncompleteVault", "keyVault.azureKeyVault lacks "+strings.Join(missing, ", "), "add what is missing")
}

func (c *checks) containerMode(v *values) {
	mode := &v.ContainerMode
	c.require(slices.Contains(containerModes, mode.Type), "UnknownContainerMode",
		fmt.Sprintf("containerMode.type is %q", mode.Type), "use dind, kubernetes or kubernetes-novolume, or leave it out")
	own := v.Template != nil && slices.ContainsFunc(v.Template.Spec.Volumes, func(volume corev1.Volume) bool { return volume.Name == workVolume })
	claim := cmp.Or(mode.WorkVolumeClaim, &corev1.PersistentVolumeClaimSpec{})
	given := !reflect.ValueOf(*claim).IsZero()
	switch {
	case mode.Type == kubernetesMode && !own:
		c.claim("containerMode.kubernetesModeWorkVolumeClaim", claim,
			" that runner and job pods share, define a volume named work in template.spec.volumes, or use the mode kubernetes-novolume")
	case given && mode.Type == kubernetesMode:
		c.notes = append(c.notes, "containerMode.kubernetesModeWorkVolumeClaim isn't used: template.spec.volumes has a volume named work of its own")
	case given:
		c.notes = append(c.notes, "containerMode.kubernetesModeWorkVolumeClaim isn't used: only containerMode.type kubernetes has such a volume")
	}
	c.hooks(v)
	if v.KeyVault.Type == "" && len(v.KeyVault.Azure)+len(v.KeyVault.SnakeAzure) > 0 {
		c.notes = append(c.notes, "keyVault isn't used: it has no type")
	}
}

// hooks checks what only the kubernetes modes use.
func (c *checks) hooks(v *values) {
	mode := &v.ContainerMode
	hooks := mode.Type == kubernetesMode || mode.Type == noVolumeMode
	makesRole := hooks && (v.Template == nil || v.Template.Spec.ServiceAccountName == "")
	unused := map[string]int{"kubernetesModeAdditionalRoleRules": len(mode.RoleRules), "kubernetesModeServiceAccount": len(mode.Account)}
	for _, key := range slices.Sorted(maps.Keys(unused)) {
		if unused[key] > 0 && !makesRole {
			c.notes = append(c.notes, "containerMode."+key+" isn't used: only the kubernetes modes have a Role and an account of the chart's, "+
				"and only without template.spec.serviceAccountName")
		}
	}
	c.require(hooks || len(mode.HookTemplate)+len(mode.HookSource) == 0, "InvalidValues",
		"containerMode.kubernetesModeHookTemplate or kubernetesModeHookTemplateFrom is given, which has an effect only in the kubernetes modes", "remove it, or set that containerMode.type")
	c.require(len(mode.HookTemplate) == 0 || len(mode.HookSource) == 0, "InvalidValues",
		"containerMode has both kubernetesModeHookTemplate and kubernetesModeHookTemplateFrom", "set one of them")
}
