package scaleset

import (
	"fmt"
	"slices"
	"strings"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/convert/report"
)

// Placeholders that somebody has to replace: the values are complete with them, so that everything else can be checked.
const (
	placeholderURL    = "https://github.com/CHANGE-ME"
	placeholderSecret = "github-credentials"
)

// address is where the runners register, with which credentials, in which group.
func (c *conversion) address() {
	places := []struct{ field, below string }{{"organization", ""}, {"repository", ""}, {"enterprise", "enterprises/"}}
	var given []string
	url, isRepository := "", false
	for _, place := range places { // in the order in which ARC's runners prefer them
		path := c.config.Path(place.field)
		name := c.config.Text(place.field)
		if name == "" {
			continue
		}
		if given = append(given, path); len(given) > 1 {
			continue
		}
		url, isRepository = c.given.GitHubURL+"/"+place.below+name, place.field == "repository"
		c.Became(path, "githubConfigUrl")
	}
	correct := report.Advice{Whose: report.Installer, Fix: "set githubConfigUrl to the repository, organization or enterprise"}
	switch _, err := actions.ParseConfigURL(url); {
	case url == "":
		c.NeedsHand("NoAddress", "it names no repository, organization or enterprise, so githubConfigUrl is a placeholder", correct, c.config.Place())
		url = placeholderURL
	case err != nil:
		c.NeedsHand("NoAddress", err.Error()+"; githubConfigUrl is a placeholder", correct, given[0])
		url = placeholderURL
	case len(given) > 1:
		c.NeedsHand("NoAddress", "it names more than one of repository, organization and enterprise, which ARC refuses; the first one is used", correct, given...)
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
		c.NeedsHand("CredentialsNeeded", "ARC's controller had the credentials; each scale set names a Secret in its own namespace, here "+secret,
			report.Advice{Whose: report.Installer, Fix: "create that Secret with the keys of ARC's Secret controller-manager (github_token, or github_app_id, " +
				"github_app_installation_id and github_app_private_key), or convert with --github-config-secret NAME"}, c.config.Path("githubAPICredentialsFrom"))
	}
	c.values["githubConfigSecret"] = secret
}

// Limits of labels, as the chart has them.
const (
	maxLabels      = 100
	maxLabelLength = 255
)

// labels become labels of the scale set beside its name. self-hosted, which GitHub gives to every other runner, is none of a scale set's.
func (c *conversion) labels(set *report.Set) {
	set.RunsOn = report.RunsOn{Old: []string{"self-hosted"}, New: set.Name}
	path, given := c.config.Path("labels"), c.config.Present("labels")
	for _, text := range c.config.Texts("labels") {
		for label := range strings.SplitSeq(text, ",") { // ARC passes them on as one text
			label = strings.TrimSpace(label)
			switch {
			case label == "" || len(label) > maxLabelLength || len(set.RunsOn.Labels) == maxLabels:
				c.NeedsHand("InvalidField", fmt.Sprintf("a label has 1 to %d characters, and a scale set up to %d labels; what is beyond is left out", maxLabelLength, maxLabels),
					report.Advice{Whose: report.Installer, Fix: "correct scaleSetLabels"}, path)
			case strings.EqualFold(label, "self-hosted") || slices.Contains(set.RunsOn.Old, label):
			default:
				set.RunsOn.Old = append(set.RunsOn.Old, label)
				if !strings.EqualFold(label, set.Name) {
					set.RunsOn.Labels = append(set.RunsOn.Labels, label)
				}
			}
		}
	}
	step := report.Advice{Whose: report.Author, Fix: "write runs-on: " + set.Name}
	if len(set.RunsOn.Labels) == 0 {
		c.NeedsLook("RunsOnChanges", "jobs reach the scale set by its name; self-hosted is no label of a scale set", step, given...)
		return
	}
	var labels []any
	for _, label := range set.RunsOn.Labels {
		labels = append(labels, label)
	}
	c.values["scaleSetLabels"] = labels
	c.Became(path, "scaleSetLabels")
	step.Fix += ", or only labels among [" + strings.Join(set.RunsOn.Labels, ", ") + "], without self-hosted. " +
		"To move workflows one by one, by the name alone, install without scaleSetLabels"
	c.NeedsLook("RunsOnChanges", "jobs reach the scale set by its name or its labels; self-hosted is none of them. GitHub may give it jobs that ask only for these labels as soon as it is installed", step, path)
}
