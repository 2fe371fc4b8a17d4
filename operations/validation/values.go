package validation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/charts"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/operations/dryrun"
	"github.com/harrier-ci/harrier/operations/finding"
)

// source is values for one of the charts.
type source struct {
	place, chart string
	values       map[string]any
	release      dryrun.Release
	// more names other sources of values, which can't be read; "" if there are none.
	more string
	// guessed: nothing but what they have says that they are for the chart.
	guessed bool
}

// valuesOf checks what the chart, the API server and the manager would refuse.
func (c *checks) valuesOf(from *source) error {
	urlRefused := false
	if from.chart == charts.ScaleSet {
		url := asText(from.values["githubConfigUrl"])
		c.url(url)
		urlRefused = len(c.findings) > 0
		vault, _ := from.values["keyVault"].(map[string]any)
		c.secret(from.values["githubConfigSecret"], url, asText(vault["type"]) != "")
	}
	ofAccess := c.findings
	rendered, faults, err := dryrun.Render(from.chart, from.values, from.release)
	if stops(faults) && len(ofAccess) > 0 {
		// The templates stop at the first fault. If that has been said, with a reason of its own, there may be more
		// behind it.
		rendered, faults, err = c.renderWithAccess(from, urlRefused)
	}
	if stops(faults) && from.chart == charts.ScaleSet && !urlRefused && err == nil {
		// as at an address that only the chart refuses
		var more []dryrun.Fault
		rendered, more, err = c.renderWithAccess(from, true)
		faults = append(faults, slices.DeleteFunc(more,
			func(fault dryrun.Fault) bool { return slices.Contains(faults, fault) })...)
	}
	if err != nil {
		return err
	}
	c.findings = nil
	for _, fault := range faults {
		c.fault(from.chart, fault)
	}
	c.findings = append(c.findings, ofAccess...)
	if rendered != nil {
		c.notes = append(c.notes, rendered.Notes...)
		for _, object := range rendered.Objects {
			if err := c.rendered(from, object); err != nil {
				return err
			}
		}
	}
	c.discount(from)
	return nil
}

// stops reports whether a chart's templates stop at these faults.
func stops(faults []dryrun.Fault) bool {
	return slices.ContainsFunc(faults, func(fault dryrun.Fault) bool { return !fault.Warning && fault.Path == "" })
}

// renderWithAccess renders values with a Secret that no chart refuses, and if asked to with such an address.
func (c *checks) renderWithAccess(from *source, withURL bool) (*dryrun.Rendered, []dryrun.Fault, error) {
	accepted := map[string]any{"githubConfigSecret": "example"}
	if withURL {
		accepted["githubConfigUrl"] = "https://github.com/example"
		c.tenants = nil // which address is meant isn't known
	}
	return dryrun.Render(from.chart, loader.MergeMaps(from.values, accepted), from.release)
}

// discount makes warnings of problems that may be none: values of another place may solve them, or the values may be
// another chart's. An unknown field is a problem whatever else there is.
func (c *checks) discount(from *source) {
	for i := range c.findings {
		if from.guessed || (from.more != "" && c.findings[i].Reason != "UnknownValue") {
			c.findings[i].Severity = finding.Warning
		}
	}
	if from.more != "" {
		c.notes = append(c.notes, c.object+": not checked: "+from.more)
	}
	if from.guessed {
		c.notes = append(c.notes, c.object+": taken for values of "+from.chart+
			", because it has a githubConfigUrl or a githubConfigSecret; "+
			"what is wrong is a problem if a Chart.yaml beside the file says so")
	}
}

// fault notes a fault of values by a chart, or of an object by the API server, for which chart is "".
func (c *checks) fault(chart string, fault dryrun.Fault) {
	invalid, unknown, list := "InvalidValues", "UnknownValue", "helm show values lists all values"
	if chart == "" {
		invalid, unknown, list = "InvalidManifest", "InvalidManifest", "kubectl explain lists the fields"
	}
	switch belongs := dryrun.Belongs(chart, fault.Path); {
	case fault.Warning && fault.Unknown:
		c.findings = append(c.findings, finding.Finding{
			Severity: finding.Warning,
			Object:   c.object,
			Reason:   unknown,
			Message:  fault.String(),
			Fix:      "remove it to keep what runs, or write it as " + belongs,
		})
	case fault.Warning:
		c.findings = append(c.findings, finding.Finding{
			Severity: finding.Warning,
			Object:   c.object,
			Reason:   invalid,
			Message:  fault.String(),
			Fix:      "give a map there, as the chart's values.yaml does, or nothing",
		})
	case !fault.Unknown:
		c.add(invalid, fault.String(), "change it as the message says")
	case belongs != "":
		c.add(unknown, fault.String(), "write it as "+belongs)
	default:
		c.add(unknown, fault.String(), "correct the spelling, or remove it; "+list)
	}
}

// rendered checks an object that a chart has rendered from values.
func (c *checks) rendered(from *source, object map[string]any) error {
	faults, err := c.faultsOf(object)
	if err != nil {
		return err
	}
	if data, _ := object["data"].(map[string]any); object["kind"] == "ConfigMap" && data[hookTemplateKey] != nil {
		var template any
		if err := yaml.Unmarshal([]byte(asText(data[hookTemplateKey])), &template); err != nil {
			return err
		}
		if faults, err = dryrun.CheckPodTemplate(template); err != nil {
			return err
		}
	}
	for _, fault := range faults {
		if path := dryrun.Locate(fault.Path, from.of(object)...); path != "" {
			fault.Path = path
		} else {
			fault.Message = fmt.Sprintf("%v that the chart makes: %s", object["kind"], fault)
			fault.Path = ""
		}
		c.fault(from.chart, fault)
	}
	if object["kind"] != setKind {
		return nil
	}
	content, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	set := &v1alpha1.AutoscalingRunnerSet{}
	if err := yaml.Unmarshal(content, set); err != nil {
		if len(faults) == 0 {
			c.add("InvalidValues", err.Error(), "correct the type of the value")
		}
		return nil
	}
	c.set(set, faults)
	return nil
}

// of returns the values of which an object is made, in the order in which they win: for an object of a variant the
// variant's own, at their place among all, and then the common ones.
func (s *source) of(object map[string]any) (all []map[string]any) {
	set, _, _ := unstructured.NestedString(object, "metadata", "labels", "app.kubernetes.io/instance")
	variants, _ := s.values["variants"].([]any)
	for i := range variants {
		variant, _ := variants[i].(map[string]any)
		if set == cmp.Or(asText(s.values["runnerScaleSetName"]), s.release.Name)+"-"+asText(variant["name"]) {
			alone := make([]any, len(variants))
			alone[i] = variant
			all = append(all, map[string]any{"variants": alone})
		}
	}
	common := maps.Clone(s.values)
	delete(common, "variants")
	return append(all, common)
}

// hookTemplateKey is the key below which the ConfigMap of the scale set's chart has the template of job pods.
const hookTemplateKey = "extension"

// secret checks the name of a Secret, or of something in a vault, or credentials that are given as keys and values.
func (c *checks) secret(secret any, url string, inVault bool) {
	const fix = "name a Secret, or set github_token, or set github_app_id, github_app_installation_id and " +
		"github_app_private_key"
	switch given := secret.(type) {
	case string:
		c.require(given != "", v1alpha1.ReasonCredentialsMissing, "githubConfigSecret is empty", fix)
		c.secretName(given, inVault)
	case map[string]any:
		has := func(key string) bool { return strings.TrimSpace(asText(given[key])) != "" }
		app := has(credentials.KeyAppID) && has(credentials.KeyAppInstallationID) && has(credentials.KeyAppPrivateKey)
		part := has(credentials.KeyAppID) || has(credentials.KeyAppInstallationID) || has(credentials.KeyAppPrivateKey)
		c.require(has(credentials.KeyToken) ||
			app, v1alpha1.ReasonCredentialsMissing, "githubConfigSecret has neither a token nor a complete App", fix)
		c.require(!has(credentials.KeyToken) ||
			!part, v1alpha1.ReasonCredentialsInvalid, "githubConfigSecret has a token and an App",
			"keep one of the two")
		if app {
			c.app(given, url)
		}
	default:
		c.add(v1alpha1.ReasonCredentialsMissing, "githubConfigSecret is missing", fix)
	}
}

// app checks the credentials of an App.
func (c *checks) app(given map[string]any, url string) {
	installation, err := strconv.ParseInt(strings.TrimSpace(asText(given[credentials.KeyAppInstallationID])), 10, 64)
	if err != nil || installation <= 0 {
		c.add(v1alpha1.ReasonCredentialsInvalid, "githubConfigSecret."+credentials.KeyAppInstallationID+
			" is not a positive whole number",
			"take it from the end of the installation's URL on GitHub")
		return
	}
	err = actions.Credentials{App: &actions.AppCredentials{
		ID: asText(given[credentials.KeyAppID]), InstallationID: installation,
		PrivateKey: asText(given[credentials.KeyAppPrivateKey]),
	}}.Validate()
	c.require(err == nil, v1alpha1.ReasonCredentialsInvalid, fmt.Sprintf("githubConfigSecret: %v", err),
		"give the App's key as GitHub generated it")
	address, err := actions.ParseConfigURL(url)
	c.require(err != nil || address.Scope != actions.ScopeEnterprise, v1alpha1.ReasonCredentialsInvalid,
		"githubConfigSecret has a GitHub App, which can't register runners of an enterprise",
		"give a classic personal access token with the scope manage_runners:enterprise, or register at an "+
			"organization of the enterprise")
}

// asText returns a value as the chart renders it, or "" if there is none.
func asText(value any) string {
	switch given := value.(type) {
	case nil:
		return ""
	case float64: // all numbers of a file are read as such; an ID has no exponent
		return strconv.FormatFloat(given, 'f', -1, 64)
	}
	return fmt.Sprint(value)
}
