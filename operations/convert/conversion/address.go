package conversion

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/operations/convert/remarks"
)

// Placeholders that somebody has to replace: the values are complete with them, so that everything else can be checked.
const (
	placeholderURL    = "https://github.com/CHANGE-ME"
	placeholderSecret = "github-credentials"
)

// addresses are the fields with the place where runners register, in the order in which ARC's runners prefer them; each
// with the form that it must have, and its path below the address of GitHub.
var addresses = []struct {
	field, form string
	names       *regexp.Regexp
	below       string
}{
	{"organization", "the name of an organization", regexp.MustCompile(`^[\w.-]+$`), ""},
	{"repository", "OWNER/REPOSITORY", regexp.MustCompile(`^[\w.-]+/[\w.-]+$`), ""},
	{"enterprise", "the name of an enterprise in its address", regexp.MustCompile(`^[\w.-]+$`), "enterprises/"},
}

// address converts the place where the runners register, their credentials and their group.
func (c *conversion) address() {
	var given []string
	url, problem, isRepository := "", "", false
	for _, known := range addresses {
		path, name := c.config.Path(known.field), c.config.Text(known.field)
		if name == "" {
			continue
		}
		if given = append(given, path); len(given) > 1 {
			continue
		}
		isRepository = known.field == "repository"
		url = c.given.GitHubURL + "/" + known.below + name
		address, err := actions.ParseConfigURL(url)
		if !known.names.MatchString(name) || err != nil || string(address.Scope) != known.field {
			problem = "the " + known.field + " is not " + known.form
			continue
		}
		c.Became(path, "githubConfigUrl")
	}
	correct := remarks.Advice{
		Whose: remarks.Installer,
		Fix:   "set githubConfigUrl to the repository, organization or enterprise",
	}
	switch {
	case url == "":
		c.NeedsHand("NoAddress", "it names no repository, organization or enterprise, so githubConfigUrl is a "+
			"placeholder",
			correct, c.config.Place())
		url = placeholderURL
	case problem != "":
		c.NeedsHand("NoAddress", problem+", so githubConfigUrl is a placeholder", correct, given...)
		url = placeholderURL
	case len(given) > 1:
		c.NeedsHand("NoAddress", "it names more than one of repository, organization and enterprise, which ARC "+
			"refuses; the first one is used", correct, given...)
	}
	c.values["githubConfigUrl"] = url
	if group := c.config.Path("group"); c.config.Has("group") {
		name := c.config.Text("group")
		if isRepository {
			c.NotNeeded("a repository has no runner groups", group)
		} else if name != "" {
			c.Became(group, "runnerGroup")
			c.values["runnerGroup"] = name
		}
	}
	c.credentials()
}

func (c *conversion) credentials() {
	reference := c.config.Object("githubAPICredentialsFrom").Object("secretRef")
	secret := reference.Text("name")
	switch {
	case secret != "":
		c.Became(reference.Path("name"), "githubConfigSecret")
	case c.given.Secret != "":
		secret = c.given.Secret
	default:
		secret = placeholderSecret
		c.NeedsHand("CredentialsNeeded",
			"ARC's controller had the credentials; each scale set names a Secret in its own namespace, here "+secret,
			remarks.Advice{Whose: remarks.Installer,
				Fix: "create that Secret with the keys of ARC's Secret controller-manager (github_token, or " +
					"github_app_id, github_app_installation_id and github_app_private_key), or convert with " +
					"--github-config-secret NAME"},
			c.config.Path("githubAPICredentialsFrom"))
	}
	c.values["githubConfigSecret"] = secret
}

// Limits of labels, as the chart has them.
const (
	maxLabels      = 100
	maxLabelLength = 255
)

// labels become labels of the scale set beside its name. Those that GitHub gives every other runner by itself are none
// of a scale set's, unless they are given here, too; self-hosted never is.
func (c *conversion) labels(set *remarks.Set) {
	byItself := c.machineLabels()
	set.RunsOn = remarks.RunsOn{Old: slices.Clone(byItself), New: set.Name}
	path, given, refused := c.config.Path("labels"), c.config.Present("labels"), 0
	for _, text := range c.config.Texts("labels") {
		for label := range strings.SplitSeq(text, ",") { // ARC passes them on as one text
			label = strings.TrimSpace(label)
			if hasLabel(set.RunsOn.Labels, label) || strings.EqualFold(label, byItself[0]) {
				continue
			}
			if label == "" || len(label) > maxLabelLength || len(set.RunsOn.Labels) == maxLabels {
				refused++
				continue
			}
			if !hasLabel(set.RunsOn.Old, label) {
				set.RunsOn.Old = append(set.RunsOn.Old, label)
			}
			if !strings.EqualFold(label, set.Name) {
				set.RunsOn.Labels = append(set.RunsOn.Labels, label)
			}
		}
	}
	if refused > 0 {
		c.NeedsHand("InvalidField", fmt.Sprintf("a label has 1 to %d characters, and a scale set up to %d "+
			"labels; %d are left out", maxLabelLength, maxLabels, refused),
			remarks.Advice{Whose: remarks.Installer, Fix: "correct scaleSetLabels"}, path)
	}
	missing := slices.DeleteFunc(byItself, func(label string) bool { return hasLabel(set.RunsOn.Labels, label) })
	none := strings.Join(missing, ", ") + ", which GitHub gives legacy runners by itself: a scale set doesn't have that"
	step := remarks.Advice{Whose: remarks.Author, Fix: "write runs-on: " + set.Name}
	if len(set.RunsOn.Labels) == 0 {
		c.NeedsLook("RunsOnChanges", "jobs reach the scale set by its name, and not by "+none, step, given...)
		return
	}
	var labels []any
	for _, label := range set.RunsOn.Labels {
		labels = append(labels, label)
	}
	c.values["scaleSetLabels"] = labels
	c.Became(path, "scaleSetLabels")
	step.Fix += ", or only labels among [" + strings.Join(set.RunsOn.Labels, ", ") + "], without " +
		strings.Join(missing, ", ") + ". " +
		"To move workflows one by one, by the name alone, install without scaleSetLabels"
	c.NeedsLook("RunsOnChanges", "jobs reach the scale set by its name or its labels, and not by "+none+
		". GitHub may give it jobs that ask only for its labels as soon as it is installed", step, path)
}

// machineLabels are those that GitHub gives a runner by itself. Nodes are taken for Linux on x64 unless the pods choose
// others.
func (c *conversion) machineLabels() []string {
	selector, _ := c.pod.Peek("nodeSelector").(map[string]any)
	c.onWindows = selector["kubernetes.io/os"] == "windows"
	system, architecture := "Linux", "X64"
	if c.onWindows {
		system = "Windows"
	}
	switch selector["kubernetes.io/arch"] {
	case "arm64":
		architecture = "ARM64"
	case "arm":
		architecture = "ARM"
	}
	return []string{"self-hosted", system, architecture}
}

// hasLabel reports whether a label is among others; GitHub ignores case.
func hasLabel(labels []string, label string) bool {
	return slices.ContainsFunc(labels, func(other string) bool { return strings.EqualFold(other, label) })
}
