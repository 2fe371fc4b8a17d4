package losses

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"regexp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/pass"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// What is told of a loss stands in the status first, written with the count; its Event is made from there, under a name
// of its own. So a manager that dies between the two leaves it to the next, and none is told twice.

const (
	// reasonJobLost is the reason of the Event about a lost job.
	reasonJobLost = "JobLost"
	// If many jobs are lost together, as with a zone, lostEventsAtOnce of them have an Event of their own; another Event
	// has the number of the others.
	lostEventsAtOnce = 10
	// mostLosses is the number of losses that stand in the status.
	mostLosses = 20
	// The Event about a loss is made within tellWithin of its count: it lives for an hour, and is not made again after
	// that.
	tellWithin = 30 * time.Minute
)

// teller writes losses down and makes their Events. It counts nothing.
type teller struct {
	client   client.Client
	recorder events.EventRecorder
}

// note writes lost jobs into the status of the pass's set, which is about to be counted.
func (t *teller) note(ctx context.Context, p *pass.Pass, lost []*roster.Runner) error {
	status := &p.Set.Status
	for _, r := range lost[:min(len(lost), lostEventsAtOnce)] {
		runner := &v1alpha1.EphemeralRunner{}
		err := t.client.Get(ctx, client.ObjectKey{Namespace: p.Set.Namespace, Name: r.Name}, runner)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read the runner of a lost job: %w", err)
		}
		status.LastLosses = append(status.LastLosses, recordOf(r, &runner.Status, p.Now))
	}
	status.LastLosses = status.LastLosses[max(0, len(status.LastLosses)-mostLosses):]
	return nil
}

// recordOf is what the status says of a lost job. Every text in it comes from GitHub or a user and may be long.
func recordOf(r *roster.Runner, status *v1alpha1.EphemeralRunnerStatus, now time.Time) v1alpha1.LostJob {
	record := v1alpha1.LostJob{Runner: r.Name, Cause: r.LostJob.Cause, At: metav1.NewTime(now),
		Message: report.Truncate(status.Message, 240)}
	if status.HadJob() {
		record.Job, record.Repository = report.Truncate(status.JobDisplayName, 120),
			report.Truncate(status.JobRepositoryName, 140)
		record.WorkflowRef, record.RunID = report.Truncate(status.JobWorkflowRef, 160), status.WorkflowRunID
		record.JobID = report.Truncate(cmp.Or(status.JobID, fmt.Sprint(status.JobRequestID)), 60)
	}
	return record
}

// tell makes the Events of losses that stand in the status, but for those of runners that were told, and returns the
// runners whose losses have theirs. If more are lost at once than have Events of their own, another one has the number of
// the others. It does so about the AutoscalingRunnerSet, because a user looks there.
func (t *teller) tell(
	ctx context.Context, p *pass.Pass, before sets.Set[string], lost int,
) (told sets.Set[string], err error) {
	if more := lost - lostEventsAtOnce; more > 0 {
		report.RecordEvent(ctx, t.recorder, aboutWhom(p), p.Set, report.Warning(reasonJobLost, "RunJobs", fmt.Sprintf(
			"%d more jobs were lost at the same time: kubectl get ephemeralrunners -n %s lists the latest with "+
				"their causes for an hour; run them again on GitHub", more, p.Set.Namespace)))
	}
	told = sets.New[string]()
	for i := range p.Set.Status.LastLosses {
		record := &p.Set.Status.LastLosses[i]
		if !before.Has(record.Runner) && p.Now.Before(record.At.Add(tellWithin)) {
			if err := t.tellOf(ctx, p, record); err != nil {
				return nil, err
			}
		}
		told.Insert(record.Runner)
	}
	return told, nil
}

func (t *teller) tellOf(ctx context.Context, p *pass.Pass, record *v1alpha1.LostJob) error {
	var related client.Object = p.Set
	runner := &v1alpha1.EphemeralRunner{}
	if t.client.Get(ctx, client.ObjectKey{Namespace: p.Set.Namespace, Name: record.Runner}, runner) == nil {
		related = runner
	}
	event := report.Warning(reasonJobLost, "RunJobs", lostNote(record, p.Set.Spec.EphemeralRunnerSpec.GitHubConfigUrl))
	if err := report.CreateEvent(ctx, t.client, record.Runner+".lost", aboutWhom(p), related, event,
		p.Now); err != nil {
		return fmt.Errorf("tell the lost job of runner %s: %w", record.Runner, err)
	}
	return nil
}

func aboutWhom(p *pass.Pass) client.Object {
	if p.Origin != nil {
		return p.Origin
	}
	return p.Set
}

// lostNote names a lost job, its cause and what its author can do. The advice must not be cut off.
func lostNote(record *v1alpha1.LostJob, configURL string) string {
	job := "a job that GitHub has not named"
	if record.JobID != "" {
		job = fmt.Sprintf("job %q of %s (workflow %s, run %d, job id %s)", record.Job, record.Repository,
			cmp.Or(record.WorkflowRef, "unknown"), record.RunID, record.JobID)
	}
	return fmt.Sprintf("%s was lost on runner %s: %s: %s; its author can run it again: %s", job, record.Runner,
		record.Cause, record.Message, RunPage(configURL, record.Repository, record.RunID))
}

// repositoryName matches every OWNER/REPO that GitHub allows.
var repositoryName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}$`)

// RunPage returns the address of a workflow run of a repository, or where to look for it.
func RunPage(configURL, repository string, run int64) string {
	address, err := url.Parse(configURL)
	if err != nil || address.Host == "" || run <= 0 || !repositoryName.MatchString(repository) {
		return "on the page of its workflow run on GitHub"
	}
	return fmt.Sprintf("%s://%s/%s/actions/runs/%d", address.Scheme, address.Host, repository, run)
}
