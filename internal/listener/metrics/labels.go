package metrics

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/config"
)

// labelsOfSet are the values that say which set it is. A URL that can't be read leaves its part empty: the client
// refuses it with a better message.
func labelsOfSet(settings *config.Config) prometheus.Labels {
	labels := prometheus.Labels{
		// The EphemeralRunnerSet has the same name, unless ARC has made it.
		labelName:      cmp.Or(settings.RunnerScaleSetName, settings.EphemeralRunnerSetName),
		labelNamespace: settings.EphemeralRunnerSetNamespace,
	}
	if parsed, err := actions.ParseConfigURL(settings.ConfigureURL); err == nil {
		labels[labelEnterprise] = parsed.Enterprise
		labels[labelOrganization] = parsed.Organization
		labels[labelRepository] = parsed.Repository
	}
	return labels
}

// ofJob are the values of a job's metrics: organization and repository are the job's, not the set's.
func (c *chosen) ofJob(job *actions.JobMessageBase, result string) prometheus.Labels {
	labels := maps.Clone(c.ofSet)
	labels[labelOrganization] = job.OwnerName
	labels[labelRepository] = job.RepositoryName
	labels[labelJobName] = job.JobDisplayName
	labels[labelEventName] = job.EventName
	labels[labelJobResult] = result
	labels[labelJobWorkflowRef] = job.JobWorkflowRef
	labels[labelJobWorkflowName], labels[labelJobWorkflowTarget] = splitWorkflowRef(job.JobWorkflowRef)
	return labels
}

// splitWorkflowRef reads OWNER/REPO/PATH/FILE@refs/TARGET: the file's name without its extension, and the target as
// heads/BRANCH, tags/TAG or pull/NUMBER. Both are empty when the text is no such reference.
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

// pick takes the labels that a metric has. One without a value is empty.
func pick(values prometheus.Labels, names []string) prometheus.Labels {
	picked := make(prometheus.Labels, len(names))
	for _, name := range names {
		picked[name] = values[name]
	}
	return picked
}

// notReserved refuses the label that a histogram's buckets have; like the order of buckets, the Prometheus library would
// panic about it.
func notReserved(labels []string) error {
	if slices.Contains(labels, "le") {
		return errors.New("label le is reserved in histograms")
	}
	return nil
}

func ascending(buckets []float64) error {
	for i := 1; i < len(buckets); i++ {
		if buckets[i] <= buckets[i-1] {
			return fmt.Errorf("buckets must ascend, but %g comes after %g", buckets[i], buckets[i-1])
		}
	}
	return nil
}
