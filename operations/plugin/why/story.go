package why

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/capacity/limits"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/internal/phases"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/operations/finding"
	"github.com/harrier-ci/harrier/operations/plugin/ledger"
)

// State is the state of a job, or of a runner without one.
type State string

// States.
const (
	// Waiting: GitHub has assigned the job to a scale set, and no runner has it.
	Waiting State = "Waiting"
	// Starting: the runner is not up yet. Which job it will get, GitHub decides then.
	Starting State = "Starting"
	// Idle: the runner is up and has no job.
	Idle State = "Idle"
	// Running: the runner has a job.
	Running State = "Running"
	// Ended: the job has a result.
	Ended State = "Ended"
	// Lost: the pod ended before GitHub had a result from the runner.
	Lost State = "Lost"
	// Failed: the runner failed before it had a job.
	Failed State = "Failed"
)

// Story has what there is to tell about one job or runner.
type Story struct {
	State     State  `json:"state"`
	Namespace string `json:"namespace"`
	ScaleSet  string `json:"scaleSet,omitempty"`
	Runner    string `json:"runner,omitempty"`
	// From names the ledger that knows a job which the cluster has forgotten; empty for what the cluster knows.
	From string `json:"known,omitempty"`
	Job  Job    `json:"job,omitzero"`
	// Page is the address of the job's log on GitHub or, if that is not known, of its workflow run.
	Page string `json:"page,omitempty"`
	// The runner's container was on Node, and ran Image.
	Node  string `json:"node,omitempty"`
	Image string `json:"image,omitempty"`
	// The job waited for Phases, in this order, and WaitSeconds in all, as far as that is known.
	Phases      []Phase `json:"phases,omitempty"`
	WaitSeconds int     `json:"waitSeconds,omitempty"`
	// Limit is what the scale set was at during a part of the wait, which is in no phase.
	Limit *Limit `json:"limit,omitempty"`
	// Result is GitHub's, after the job has ended.
	Result     string    `json:"result,omitempty"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	// Reason is one word for why the job waits or was lost, and Message a text.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Rerun is the state of a lost job's rerun.
	Rerun *v1alpha1.RerunStatus `json:"rerun,omitempty"`
	// Usage is what the job requested and used, as far as the ledger knows.
	Usage string `json:"usage,omitempty"`
	Next  []Step `json:"next,omitempty"`
	// Events are Kubernetes' about the runner and its pod, the newest last.
	Events []string `json:"events,omitempty"`

	// acts is set if somebody has to act, or had to: a lost job does not come back by itself.
	acts bool
	// knowsRerun is set if it is known whether a lost job is run again: a pod doesn't say it.
	knowsRerun bool
}

// Job is the job of a story, as far as it is known.
type Job struct {
	Name       string `json:"name,omitempty"`
	ID         string `json:"id,omitempty"`
	Repository string `json:"repository,omitempty"`
	Workflow   string `json:"workflow,omitempty"`
	Run        int64  `json:"run,omitempty"`
	Event      string `json:"event,omitempty"`
}

// Phase is one phase of a job's wait: its end, and the part of the job's time that it took.
type Phase struct {
	Name    string    `json:"name"`
	At      time.Time `json:"at"`
	Seconds int       `json:"seconds"`
}

// Limit is a scale set's limit: its name, what is known of it, and the seconds that the job waited while it held.
type Limit struct {
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	Number  *int64 `json:"number,omitempty"`
	Seconds int    `json:"seconds"`

	share limits.Share
}

// Step is what to do next, and who does it.
type Step struct {
	Who string `json:"who"`
	Do  string `json:"do"`
}

// The author can run a job again.
const author = "the job's author"

// stateOf returns the state of a job or runner.
func stateOf(f *fact, now time.Time) State {
	switch {
	case f.runner != nil:
		return stateOfRunner(&f.runner.Status)
	case f.pod != nil:
		return stateOfPod(f.pod, now)
	}
	return Waiting
}

func stateOfRunner(s *v1alpha1.EphemeralRunnerStatus) State {
	switch {
	case s.LostCause != "":
		return Lost
	case s.JobCompleted():
		return Ended
	case s.JobRunning():
		return Running
	case s.Phase == v1alpha1.EphemeralRunnerPhaseRunning:
		return Idle
	case s.Phase == v1alpha1.EphemeralRunnerPhaseSucceeded:
		return Ended
	case s.Done():
		return Failed
	}
	return Starting
}

// stateOfPod is for those who may not read the runner: a pod does not say whether its job was lost.
func stateOfPod(pod *corev1.Pod, now time.Time) State {
	job := pod.Annotations[v1alpha1.AnnotationJobID] != "" || pod.Annotations[v1alpha1.AnnotationJobRunID] != ""
	switch state := podstatus.Of(pod, v1alpha1.RunnerContainerName, now); {
	case pod.Annotations[v1alpha1.AnnotationJobResult] != "", state.Phase == podstatus.Succeeded:
		return Ended
	case state.Over() && job:
		return Lost
	case state.Over():
		return Failed
	case job:
		return Running
	case state.Phase == podstatus.Running:
		return Idle
	}
	return Starting
}

// tell returns the story of a fact, as it is at a time.
func tell(f *fact, now time.Time) Story {
	story := Story{State: stateOf(f, now), Namespace: f.namespace, ScaleSet: f.scaleSet}
	var reached *v1alpha1.RunnerPhases
	switch {
	case f.runner != nil:
		status := &f.runner.Status
		story.Runner, story.Image = f.runner.Name, kube.Image(&f.runner.Spec.PodSpec, v1alpha1.RunnerContainerName)
		story.Job = Job{status.JobDisplayName, status.JobID, status.JobRepositoryName, status.JobWorkflowRef,
			status.WorkflowRunID, status.Event}
		story.Result, story.Rerun, reached = status.JobResult, status.Rerun, phases.Of(f.runner, f.pod)
		story.Page, story.knowsRerun = pageOf(f.runner), true
		if at := phases.Finished(status); at != nil {
			story.FinishedAt = at.Time
		}
	case f.pod != nil:
		story.Runner, story.Job, story.Result, reached = f.pod.Name, jobOfPod(f.pod),
			f.pod.Annotations[v1alpha1.AnnotationJobResult], phases.OfPod(f.pod)
	default:
		w := f.waiting
		story.Job = Job{Name: w.Name, ID: w.JobID, Repository: w.Repository, Workflow: w.WorkflowRef, Run: w.RunID, Event: w.Event}
		reached = &v1alpha1.RunnerPhases{Queued: w.QueuedAt, Assigned: &w.AssignedAt}
	}
	if f.pod != nil {
		story.Node, story.Image = f.pod.Spec.NodeName, kube.Image(&f.pod.Spec, v1alpha1.RunnerContainerName)
	}
	story.setPhases(reached, f.limitOf(reached, story.State, now), now)
	story.setCause(f, now)
	story.setSteps(f)
	story.setEvents(f.events)
	return story
}

// repository matches OWNER/REPO.
var repository = regexp.MustCompile(`^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$`)

// pageOf returns the address of the log of a runner's job or, if GitHub has not named that, of its run; "" if it can't be
// known.
func pageOf(runner *v1alpha1.EphemeralRunner) string {
	config, err := actions.ParseConfigURL(runner.Spec.GitHubConfigUrl)
	status := &runner.Status
	if err != nil || status.WorkflowRunID <= 0 || !repository.MatchString(status.JobRepositoryName) {
		return ""
	}
	path := fmt.Sprintf("/%s/actions/runs/%d", status.JobRepositoryName, status.WorkflowRunID)
	if status.JobNumber > 0 {
		path += fmt.Sprintf("/job/%d", status.JobNumber)
	}
	page := url.URL{Scheme: config.URL.Scheme, Host: config.URL.Host, Path: path}
	return page.String()
}

// jobOfPod returns the job as a runner's pod has it in its annotations.
func jobOfPod(pod *corev1.Pod) Job {
	run, _ := strconv.ParseInt(pod.Annotations[v1alpha1.AnnotationJobRunID], 10, 64) // 0 if there is none
	return Job{
		Name: pod.Annotations[v1alpha1.AnnotationJobName], ID: pod.Annotations[v1alpha1.AnnotationJobID],
		Repository: pod.Annotations[v1alpha1.AnnotationJobRepository],
		Workflow:   pod.Annotations[v1alpha1.AnnotationJobWorkflow], Run: run,
	}
}

// limitOf returns what the ledger says of the limit at which the scale set was while a job waited, nil if it was at none.
func limitOf(job *ledger.Job) *Limit {
	if job.LimitedReason == "" {
		return nil
	}
	return &Limit{Reason: job.LimitedReason, Number: job.LimitNumber, share: job.LimitedShare()}
}

// limitOf does the same for a job that the search has found. Without the ledger's word the present limit is known only,
// and since when it holds.
func (f *fact) limitOf(reached *v1alpha1.RunnerPhases, state State, now time.Time) *Limit {
	if f.recorded != nil {
		if known := limitOf(f.recorded); known != nil {
			return known
		}
	}
	if f.limit == nil || reached == nil {
		return nil
	}
	waited := *reached
	if state == Waiting && waited.Created == nil {
		waited.Created = &metav1.Time{Time: now}
	}
	return &Limit{Reason: f.limit.Reason, Message: f.limit.Message,
		share: limits.ShareOf(f.limit.Kind, f.limit.Since.Time, now.Add(time.Hour), &waited)}
}

// setPhases sets the phases of the job's wait, the limit at which the scale set was meanwhile, and the length of the wait.
// A job that waits has waited until now.
func (s *Story) setPhases(reached *v1alpha1.RunnerPhases, limit *Limit, now time.Time) {
	took, waits := map[string]time.Duration{}, phases.Waits(reached)
	if limit != nil {
		waits = phases.Apart(waits, limit.share.ByPhase())
	}
	whole := time.Duration(0)
	for _, wait := range waits {
		took[wait.Phase] = wait.Took
		whole += wait.Took
	}
	s.WaitSeconds = int(whole / time.Second)
	for _, phase := range phases.All(reached) {
		s.Phases = append(s.Phases, Phase{phase.Phase, phase.At.UTC(), int(took[phase.Phase] / time.Second)})
	}
	limited := took[phases.Limited]
	if s.State == Waiting && len(s.Phases) > 0 {
		s.WaitSeconds = max(0, int(now.Sub(s.Phases[0].At)/time.Second))
		if limit != nil {
			limited += limit.share.Created
		}
	}
	if limited >= time.Second {
		s.Limit = limit
		limit.Seconds = int(limited / time.Second)
	}
}

// setCause sets the reason why the job waits, or the cause that it was lost to: the runner's or, without a runner, the
// pod's. A job without either, and one that nothing of its own keeps waiting, has what keeps the scale set from running
// more.
func (s *Story) setCause(f *fact, now time.Time) {
	switch s.State {
	case Lost, Failed, Starting, Waiting:
	default:
		return
	}
	switch {
	case f.runner != nil && s.State == Lost:
		s.Reason, s.Message = string(f.runner.Status.LostCause), f.runner.Status.Message
	case f.runner != nil:
		s.Reason, s.Message = f.runner.Status.Reason, f.runner.Status.Message
	case f.pod != nil && s.State == Lost:
		ending := podstatus.EndingOf(f.pod, v1alpha1.RunnerContainerName,
			podstatus.Seen{NodeSilent: podstatus.Stuck(f.pod, now)})
		s.Reason, s.Message = string(cmp.Or(ending.Cause, v1alpha1.LostCauseUnknown)), ending.Message
	case f.pod != nil && s.State == Failed:
		state := podstatus.Of(f.pod, v1alpha1.RunnerContainerName, now)
		s.Reason, s.Message = state.Reason, state.Message
	}
	if s.State == Lost || s.State == Failed || !podstatus.IsUsual(s.Reason) {
		return
	}
	if f.pod != nil {
		s.Reason, s.Message = podstatus.WhyUnable(f.pod)
	}
	if s.Reason == "" && f.finding != nil {
		s.Reason, s.Message = f.finding.Reason, f.finding.Message
	}
}

// setSteps sets what is to be done, and who can do it.
func (s *Story) setSteps(f *fact) {
	add := func(do string, who meaning.Actor) {
		if do != "" {
			s.Next = append(s.Next, Step{who.String(), do})
		}
		s.acts = s.acts || who != meaning.Nobody
	}
	waits := s.State == Starting || s.State == Waiting
	switch {
	case s.State == Lost:
		s.Next = s.afterLoss()
		loss := meaning.OfLoss(v1alpha1.LostCause(s.Reason))
		add("to lose no more jobs so, "+loss.Advice, loss.Actor)
	case s.State == Failed, waits && !podstatus.IsUsual(s.Reason) && (f.finding == nil || f.finding.Reason != s.Reason):
		add(meaning.OfRunner(s.Reason), meaning.For(s.Reason).Actor)
	case waits && f.finding != nil:
		add(f.finding.Fix, meaning.For(s.Reason).Actor)
		s.acts = s.acts && f.finding.Severity == finding.Problem // a limit that is reached is as it was meant
	case waits:
		add("wait: nothing keeps it from starting; a new node and a large image take minutes", meaning.Nobody)
	}
}

// rerun returns what is said of a lost job's rerun.
func (s *Story) rerun() meaning.Rerun {
	if s.Rerun == nil {
		return meaning.OfRerun("", "")
	}
	return meaning.OfRerun(s.Rerun.State, s.Rerun.Reason)
}

// afterLoss returns the steps that concern the rerun of a lost job.
func (s *Story) afterLoss() (steps []Step) {
	again := Step{author, "run the job again from the page of the workflow run"}
	switch said := s.rerun(); {
	case s.Rerun != nil && s.Rerun.State == v1alpha1.RerunDone:
		return []Step{{meaning.Nobody.String(), fmt.Sprintf("it runs again in attempt %d of the workflow run",
			s.Rerun.Attempt)}}
	case s.Rerun != nil && s.Rerun.State != v1alpha1.RerunGivenUp:
		return []Step{{meaning.Nobody.String(), "it is run again when the workflow run has ended, unless its author does " +
			"that or cancels the run"}}
	case said.Advice != "" && s.knowsRerun:
		return []Step{again, {said.Actor.String(), "to have the next one run again by itself, " + said.Advice}}
	}
	return []Step{again}
}

// toldEvents Events are told at most: those of the last pods.
const toldEvents = 8

// setEvents tells the newest Events.
func (s *Story) setEvents(events []corev1.Event) {
	at := func(e *corev1.Event) time.Time {
		if _, last := kube.SaidAt(e); !last.IsZero() {
			return last
		}
		return e.CreationTimestamp.Time
	}
	slices.SortStableFunc(events, func(a, b corev1.Event) int { return at(&a).Compare(at(&b)) })
	for i := max(0, len(events)-toldEvents); i < len(events); i++ {
		e := &events[i]
		times := ""
		if e.Count > 1 {
			times = fmt.Sprintf(" (%d times)", e.Count)
		}
		s.Events = append(s.Events, fmt.Sprintf("%s %s %s%s: %s", at(e).UTC().Format(time.RFC3339), e.Type, e.Reason,
			times, strings.TrimSpace(e.Message)))
	}
}
