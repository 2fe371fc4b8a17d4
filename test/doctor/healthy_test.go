package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// kinds are ours, as kubectl names them. Each has the columns that may be empty while all is well: without a limit, an
// open schedule, a message or a job.
var kinds = map[string][]string{
	"autoscalingrunnersets": {"Message", "Schedules", "Numbers Until"},
	"autoscalinglisteners":  {"Message"},
	"ephemeralrunnersets":   {"Why Not More"},
	"ephemeralrunners":      {"JobRepository", "JobWorkflowRef", "WorkflowRunId", "JobDisplayName", "JobId", "JobResult", "LostCause", "Reason", "Message"},
}

// A healthy set has a value in every column of each kind, and kubectl can wait for each to be ready.
func healthyObjects(t *testing.T, cluster *testkube.Cluster) {
	r := rig.Start(t, cluster, rig.Options{MinRunners: 1})
	for kind, empty := range kinds {
		namespace := r.RunnerNamespace
		if kind == "autoscalinglisteners" {
			namespace = r.SystemNamespace
		}
		NewWithT(t).Eventually(func() error {
			_, err := r.Kubectl("wait", "-n", namespace, kind, "--all", "--for=condition=Ready", "--timeout=30s")
			return err
		}, rig.Patience, time.Second).Should(Succeed(), "kubectl wait --for=condition=Ready %s", kind)
		NewWithT(t).Eventually(func() ([]string, error) { return emptyColumns(t.Context(), r, namespace, kind, empty) },
			rig.Patience, time.Second).
			Should(BeEmpty(), "columns of %s without a value", kind)
		output, err := r.Kubectl("get", "-n", namespace, kind, "-o", "wide")
		t.Logf("%s%v", output, err)
	}
}

// emptyColumns returns the empty columns of the only line of kubectl get for a kind, without those that may be empty.
func emptyColumns(ctx context.Context, r *rig.Rig, namespace, kind string, mayBe []string) (empty []string, err error) {
	table, err := tableOf(ctx, r.Cluster.Config(), namespace, kind)
	if err != nil {
		return nil, err
	}
	if len(table.Rows) != 1 {
		return nil, fmt.Errorf("%d lines of %s, want 1", len(table.Rows), kind)
	}
	for i, column := range table.ColumnDefinitions {
		if cell := table.Rows[0].Cells[i]; (cell == nil || cell == "") && !slices.Contains(mayBe, column.Name) {
			empty = append(empty, column.Name)
		}
	}
	return empty, nil
}

// A job leads to its pod, and the pod to those who cause its costs. Runners that succeed leave no Event.
func jobsAreFound(t *testing.T, cluster *testkube.Cluster) {
	const jobs = 10
	r := rig.Start(t, cluster, rig.Options{})
	ids := r.Queue(fakegithub.JobRequest{
		Count: jobs, ScaleSet: rig.DefaultSet, Duration: fakegithub.Duration(rig.Held), Name: "test (linux)",
		Owner: "org", Repository: "web", WorkflowRef: "org/web/.github/workflows/ci.yml@refs/heads/main",
	})
	eventually := NewWithT(t).Eventually
	eventually(func() ([]string, error) { return podsOf(r, v1alpha1.LabelJobRepository+"=org_web") }, rig.Patience,
		200*time.Millisecond).
		Should(HaveLen(jobs))
	checkAnnotations(t, r)
	for _, job := range r.GitHub.Jobs("")[:2] {
		if pods, err := podsOf(r, v1alpha1.LabelJobID+"="+job.JobID); err != nil || len(pods) != 1 ||
			pods[0] != job.Runner {
			t.Errorf("job %s runs on %s; kubectl finds %v, %v", job.JobID, job.Runner, pods, err)
		}
		if pods, err := podsOf(r, v1alpha1.LabelJobRunID+"="+strconv.FormatInt(job.RunID, 10)); err != nil ||
			!slices.Contains(pods, job.Runner) {
			t.Errorf("run %d has runner %s; kubectl finds %v, %v", job.RunID, job.Runner, pods, err)
		}
	}
	r.EndJobs(ids)
	r.AwaitQuiet()
	if told, err := eventsOf(t.Context(), r, "EphemeralRunner", ""); err != nil {
		t.Error(err)
	} else if len(told) > 0 {
		t.Errorf("%d Events about runners that succeeded, the first: %s %s", len(told), told[0].Reason, told[0].Message)
	}
	// Registered, ready, and at most one Event a minute about scaling.
	most := 4 + int(time.Since(r.Started)/time.Minute)
	if told, err := eventsOf(t.Context(), r, "AutoscalingRunnerSet", rig.DefaultSet); err != nil || len(told) > most {
		t.Errorf("%d Events about a set that had one burst: %v %v", len(told), told, err)
	}
}

// podsOf returns the names of the pods that kubectl finds by a label.
func podsOf(r *rig.Rig, selector string) ([]string, error) {
	output, err := r.Kubectl("get", "pods", "-A", "-l", selector, "-o", "name")
	return strings.Fields(strings.ReplaceAll(output, "pod/", "")), err
}

// checkAnnotations looks at the pods while their jobs run.
func checkAnnotations(t *testing.T, r *rig.Rig) {
	t.Helper()
	for _, pod := range r.RunnerPods() {
		for key, want := range map[string]string{
			v1alpha1.AnnotationJobRepository: "org/web", v1alpha1.AnnotationJobWorkflow: "org/web/.github/workflows/ci.yml",
			v1alpha1.AnnotationJobRef: "refs/heads/main", v1alpha1.AnnotationJobName: "test (linux)",
			v1alpha1.AnnotationDoNotDisrupt: "true", v1alpha1.AnnotationSafeToEvict: "false",
		} {
			if got := pod.Annotations[key]; got != want {
				t.Errorf("pod %s: %s is %q, want %q", pod.Name, key, got, want)
			}
		}
		for _, key := range []string{v1alpha1.AnnotationJobRunID, v1alpha1.AnnotationJobID} {
			if pod.Annotations[key] == "" {
				t.Errorf("pod %s lacks %s", pod.Name, key)
			}
		}
	}
}
