package metrics

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/config"
)

// labelsOfSet returns the label values that identify the scale set. A URL that can't be parsed leaves its labels empty:
// the client refuses it with a better message.
func labelsOfSet(settings *config.Config) prometheus.Labels {
	// The EphemeralRunnerSet has the same name, unless ARC created it.
	name := cmp.Or(settings.RunnerScaleSetName, settings.EphemeralRunnerSetName)
	namespace := settings.EphemeralRunnerSetNamespace
	labels := prometheus.Labels{
		labelName: name, labelNamespace: namespace,
		labelPodScaleSetName: name, labelPodScaleSetNamespace: namespace,
	}
	if parsed, err := actions.ParseConfigURL(settings.ConfigureURL); err == nil {
		labels[labelEnterprise] = parsed.Enterprise
		labels[labelOrganization] = parsed.Organization
		labels[labelRepository] = parsed.Repository
	}
	return labels
}

// labelsOfJob returns the label values of a job's metrics. Organization and repository are the job's, unless the labels
// are the default few: then they are the scale set's, and empty where its jobs may come from several.
func labelsOfJob(
	ofSet prometheus.Labels, defaultFew bool, job *actions.JobMessageBase, result string,
) prometheus.Labels {
	labels := maps.Clone(ofSet)
	labels[labelJobResult] = knownResult(result)
	if defaultFew {
		return labels
	}
	labels[labelOrganization] = job.OwnerName
	labels[labelRepository] = job.RepositoryName
	labels[labelJobName] = job.JobDisplayName
	labels[labelEventName] = job.EventName
	labels[labelJobWorkflowRef] = job.JobWorkflowRef
	labels[labelJobWorkflowName], labels[labelJobWorkflowTarget] = splitWorkflowRef(job.JobWorkflowRef)
	return labels
}

// results are GitHub's words for the end of a job.
var results = []string{"", "succeeded", "succeededWithIssues", "failed", "canceled", "skipped", "abandoned"}

// knownResult returns one of results, or "other": each creates as many series as a histogram has buckets.
func knownResult(result string) string {
	if slices.Contains(results, result) {
		return result
	}
	return "other"
}

// splitWorkflowRef parses OWNER/REPO/PATH/FILE@refs/TARGET. It returns the file's name without its extension, and the
// target as heads/BRANCH, tags/TAG or pull/NUMBER. Both are empty if the text is not such a reference; only the target
// is empty if it is of another kind.
func splitWorkflowRef(reference string) (name, target string) {
	file, ref, found := strings.Cut(reference, "@")
	if !found || strings.Contains(ref, "@") {
		return "", ""
	}
	name = strings.TrimSuffix(strings.TrimSuffix(path.Base(file), ".yml"), ".yaml")
	kind, rest, _ := strings.Cut(strings.TrimPrefix(ref, "refs/"), "/")
	if !strings.HasPrefix(ref, "refs/") || rest == "" {
		return name, ""
	}
	switch kind {
	case "heads", "tags":
		return name, kind + "/" + rest
	case "pull":
		number, _, _ := strings.Cut(rest, "/") // refs/pull/7/merge
		return name, kind + "/" + number
	}
	return name, ""
}

// pick returns the values of the named labels, empty for labels without a value.
func pick(values prometheus.Labels, names []string) prometheus.Labels {
	picked := make(prometheus.Labels, len(names))
	for _, name := range names {
		picked[name] = shortened(values[name])
	}
	return picked
}

// maxValue is the length of a label's value in bytes. References of workflows have some 100.
const maxValue = 512

// shortened returns a value that somebody has chosen, cut if it is longer than a label shows.
func shortened(value string) string {
	if len(value) <= maxValue {
		return value
	}
	return strings.ToValidUTF8(value[:maxValue], "")
}
