package metrics_test

import (
	"fmt"
	"testing"

	"github.com/go-logr/logr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/metrics"
)

func TestWorkflowReferences(t *testing.T) {
	for reference, want := range map[string][2]string{
		"":                                 {"", ""},
		"o/r/.github/workflows/ci":         {"", ""},
		"o/r/w/ci.yml@refs/heads/m":        {"ci", "heads/m"},
		"o/r/w/ci.yaml@refs/heads/a/b/c":   {"ci", "heads/a/b/c"},
		"o/r/w/ci.yml@refs/tags/v1.2":      {"ci", "tags/v1.2"},
		"o/r/w/ci.yml@refs/pull/17/merge":  {"ci", "pull/17"},
		"o/r/w/ci.yml@0123abcd":            {"ci", ""},
		"o/r/w/ci.yml@refs/notes/x":        {"ci", ""},
		"o/r/w/ci.yml@refs/heads/":         {"ci", ""},
		"o/r/w/ci.yml@refs/heads/user@box": {"", ""},
	} {
		m := metrics.New(settings(&v1alpha1.MetricsConfig{Counters: map[string]*v1alpha1.CounterMetric{
			"gha_started_jobs_total": {Labels: []string{"job_workflow_name", "job_workflow_target"}},
		}}), logr.Discard())
		job := actions.JobMessageBase{JobWorkflowRef: reference}
		m.Message(&actions.Message{JobsStarted: []actions.JobStarted{{JobMessageBase: job}}})
		expect(t, scrape(t, m, "/metrics"), fmt.Sprintf(
			"gha_started_jobs_total{job_workflow_name=%q,job_workflow_target=%q} 1", want[0], want[1]))
	}
}

func TestResultsAreFromAClosedSet(t *testing.T) {
	for result, want := range map[string]string{
		"succeeded": "succeeded",
		"canceled":  "canceled",
		"":          "",
		"forged":    "other",
	} {
		m := metrics.New(settings(&v1alpha1.MetricsConfig{Counters: map[string]*v1alpha1.CounterMetric{
			"gha_completed_jobs_total": {Labels: []string{"job_result"}},
		}}), logr.Discard())
		message := messageOfJobs()
		message.JobsCompleted[0].Result = result
		m.Message(message)
		expect(t, scrape(t, m, "/metrics"), fmt.Sprintf("gha_completed_jobs_total{job_result=%q} 1", want))
	}
}
