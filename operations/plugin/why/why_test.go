package why

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
)

// The job of all these tests was queued at this time.
var began = metav1.NewTime(time.Now().Add(-10 * time.Minute).Truncate(time.Second))

func after(seconds int) *metav1.Time {
	return new(metav1.NewTime(began.Add(time.Duration(seconds) * time.Second)))
}

const (
	runner = "linux-x7k2p-runner-8fzqd"
	job    = "0b0bd3c5-7b3f-4d5b-9a61-0f3f1a2b3c4d"
	run    = 1234567890
)

// runnerWith returns a runner whose job runs, changed.
func runnerWith(change func(*v1alpha1.EphemeralRunner)) *v1alpha1.EphemeralRunner {
	r := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: runner,
		CreationTimestamp: *after(12), Labels: ofSet}}
	r.Spec.GitHubConfigUrl = "https://github.com/acme"
	r.Spec.PodSpec.Containers = []corev1.Container{{Name: "runner", Image: "ghcr.io/acme/runner:1"}}
	r.Status = v1alpha1.EphemeralRunnerStatus{
		Phase: v1alpha1.EphemeralRunnerPhaseRunning, JobID: job, JobRequestID: 77, JobDisplayName: "build (linux)",
		JobRepositoryName: "acme/app", Event: "push",
		JobWorkflowRef: "acme/app/.github/workflows/ci.yml@refs/heads/main", WorkflowRunID: run,
		Phases: &v1alpha1.RunnerPhases{Queued: &began, Assigned: after(10), Created: after(12), Registered: after(13),
			Placed: after(73), ImagePulled: after(93), ContainerUp: after(94), Started: after(100)},
	}
	if change != nil {
		change(r)
	}
	return r
}

var ofSet = map[string]string{v1alpha1.LabelScaleSetName: "linux", v1alpha1.LabelScaleSetNamespace: "runners"}

// podWith returns the pod of that runner, changed.
func podWith(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: runner, CreationTimestamp: *after(13),
		Labels: map[string]string{
			v1alpha1.LabelRunner: "True", v1alpha1.LabelScaleSetName: "linux", v1alpha1.LabelJobRunID: "1234567890",
			v1alpha1.LabelJobID: job,
		}, Annotations: map[string]string{
			v1alpha1.AnnotationJobID: job, v1alpha1.AnnotationJobRunID: "1234567890",
			v1alpha1.AnnotationJobName: "build (linux)", v1alpha1.AnnotationJobRepository: "acme/app",
			v1alpha1.AnnotationPhases: "queued=" + unix(&began) + " assigned=" + unix(after(10)) + " created=" +
				unix(after(12)) + " registered=" + unix(after(13)) + " started=" + unix(after(100)),
		}}}
	pod.Spec.NodeName = "node-7"
	pod.Spec.Containers = []corev1.Container{{Name: "runner", Image: "ghcr.io/acme/runner:1"}}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: *after(73)}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "runner", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: *after(94)}}}}
	if change != nil {
		change(pod)
	}
	return pod
}

func unix(at *metav1.Time) string { return strings.Trim(jsonOf(at.Unix()), `"`) }

func jsonOf(value any) string {
	text, _ := json.Marshal(value)
	return string(text)
}

func lost(cause v1alpha1.LostCause, message string, rerun *v1alpha1.RerunStatus) func(*v1alpha1.EphemeralRunner) {
	return func(r *v1alpha1.EphemeralRunner) {
		r.Status.Phase, r.Status.LostCause, r.Status.Message, r.Status.Rerun = v1alpha1.EphemeralRunnerPhaseFailed,
			cause, message, rerun
	}
}

// scaleSet returns a set that works, with its runner set, whose listener knows a job that waits.
func scaleSet(assigned, most int, waiting ...v1alpha1.WaitingJob) []client.Object {
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: "linux"}}
	set.Spec.GitHubConfigUrl, set.Spec.MaxRunners, set.Spec.VaultConfig = "https://github.com/acme", &most,
		&v1alpha1.VaultConfig{}
	set.Status.AssignedJobs = assigned
	for _, about := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionScaleSetRegistered,
		v1alpha1.ConditionCredentialsValid, v1alpha1.ConditionListenerReady} {
		set.Status.Conditions = append(set.Status.Conditions,
			metav1.Condition{Type: about, Status: metav1.ConditionTrue, Reason: "Fine"})
	}
	switch {
	case most == 0:
		set.Status.LimitedBy = &v1alpha1.Limit{Kind: "NoJobs", Reason: v1alpha1.ReasonMaxRunnersZero,
			Message: "maxRunners is 0"}
	case assigned >= most:
		set.Status.LimitedBy = &v1alpha1.Limit{Kind: "Maximum", Reason: v1alpha1.ReasonMaxRunnersReached,
			Message: fmt.Sprintf("maxRunners of %d is reached", most)}
	}
	runnerSet := &v1alpha1.EphemeralRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: "linux-x7k2p",
		Labels: ofSet}}
	runnerSet.Spec.AssignedJobs, runnerSet.Spec.MaxRunners = assigned, &most
	runnerSet.Status.Listener = &v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateListening, Waiting: waiting}
	return []client.Object{set, runnerSet}
}

// server is an API server with the objects. refused decides which reads it forbids.
func server(refused func(object any, namespace string) bool, objects ...client.Object) snapshot.Cluster {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", nil)
	named := func(object client.Object) []string { return []string{object.GetName()} }
	builder := fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, "metadata.name", named).
		WithIndex(&corev1.Event{}, "type", func(object client.Object) []string {
			return []string{object.(*corev1.Event).Type}
		}).
		WithIndex(&corev1.Event{}, "involvedObject.name", func(object client.Object) []string {
			return []string{object.(*corev1.Event).InvolvedObject.Name}
		})
	return snapshot.Cluster{Host: "https://kubernetes", Reader: builder.WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
			options ...client.ListOption) error {
			asked := (&client.ListOptions{}).ApplyOptions(options)
			if refused != nil && refused(list, asked.Namespace) {
				return forbidden
			}
			return c.List(ctx, list, options...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption) error {
			if refused != nil && refused(object, key.Namespace) {
				return forbidden
			}
			return c.Get(ctx, key, object, options...)
		},
	}).Build()}
}

// asked runs the command and returns its answer as text and as JSON.
func asked(t *testing.T, cluster snapshot.Cluster, subject string) (said string, stories []Story, err error) {
	t.Helper()
	var text, document bytes.Buffer
	_ = Run(t.Context(), cluster, subject, Options{Namespace: "runners", Everywhere: true, Format: output.Text}, &text)
	err = Run(t.Context(), cluster, subject, Options{Namespace: "runners", Everywhere: true, Format: output.JSON},
		&document)
	read := answer{}
	if document.Len() > 0 {
		if failed := json.Unmarshal(document.Bytes(), &read); failed != nil {
			t.Errorf("%v: %s", failed, document.String())
		}
	}
	return text.String(), read.Jobs, err
}

// Whatever names a job leads to it.
func TestNamesOfOneJob(t *testing.T) {
	workflowPod := podWith(func(p *corev1.Pod) {
		p.Name, p.Labels, p.Annotations = runner+"-workflow", map[string]string{v1alpha1.LabelRunnerPod: runner}, nil
	})
	database := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: "database",
		Labels: map[string]string{v1alpha1.LabelScaleSetName: "linux"}}}
	cluster := server(nil, runnerWith(nil), podWith(nil), workflowPod, database)
	for _, subject := range []string{
		"1234567890", job, strings.ToUpper(job), "77", runner, "pod/" + runner,
		"ephemeralrunners.actions.github.com/" + runner, runner + "-workflow",
		"https://github.com/acme/app/actions/runs/1234567890",
		"https://GHES.example.com/Acme/App/actions/runs/1234567890/attempts/2",
		"https://github.com/acme/app/actions/runs/1234567890/job/55?pr=3#step:1:2",
	} {
		if said, stories, err := asked(t, cluster, subject); err != nil || len(stories) != 1 ||
			stories[0].Runner != runner || stories[0].Job.ID != job {
			t.Errorf("%s: %v, %+v\n%s", subject, err, stories, said)
		}
	}
	for subject, want := range map[string]string{
		"https://github.com/acme/other/actions/runs/1234567890": "Nothing is there", "9999": "Nothing is there", "no-such-runner": "Nothing is there", "database": "which is no runner's",
		"https://github.com/acme/app/pull/3": "no address of a workflow run", "https://github.com/acme/app/actions/runs/99999999999999999999": "no address",
		"": "neither", "a b": "neither", "-x": "neither", "pod/": "neither", strings.Repeat("a", 2000): "neither", "\x1b[31m": "neither",
	} {
		_, _, err := asked(t, cluster, subject)
		if err == nil || !strings.Contains(err.Error(), want) || strings.ContainsFunc(err.Error(), func(r rune) bool {
			return !unicode.IsPrint(r)
		}) {
			t.Errorf("%.50q: %v, want %q", subject, err, want)
		}
	}
}

func TestWithoutRights(t *testing.T) {
	objects := []client.Object{runnerWith(nil), podWith(nil)}
	nothing := func(any, string) bool { return true }
	if _, _, err := asked(t, server(nothing, objects...), job); !apierrors.IsForbidden(err) {
		t.Errorf("with no right at all: %v", err)
	}
	noSets := func(object any, _ string) bool { _, is := object.(*v1alpha1.AutoscalingRunnerSetList); return is }
	waits := v1alpha1.WaitingJob{RunID: run, JobID: job, AssignedAt: *after(0)}
	if said, stories, err := asked(t, server(noSets, scaleSet(1, 1, waits)...), job); err != nil || len(stories) != 1 ||
		!strings.Contains(said, "AutoscalingRunnerSets") {
		t.Errorf("without scale sets: %v, %+v\n%s", err, stories, said)
	}
}

// What workflows and others name reaches a terminal as text only.
func TestHostileNames(t *testing.T) {
	const evil = "a\x1b]0;owned\x07\u009b31m\u202e\nNext      nobody: relax"
	r := runnerWith(func(r *v1alpha1.EphemeralRunner) {
		lost("Evicted", evil, &v1alpha1.RerunStatus{State: "GivenUp", Message: evil})(r)
		s := &r.Status
		s.JobDisplayName, s.JobRepositoryName, s.JobWorkflowRef, s.Event = evil, evil, evil, evil
		r.Spec.GitHubConfigUrl = evil
	})
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: "e"},
		InvolvedObject: corev1.ObjectReference{Name: runner}, Type: "Warning", Reason: evil, Message: evil}
	var document bytes.Buffer
	said, _, _ := asked(t, server(nil, r, event), job)
	_ = Run(t.Context(), server(nil, r, event), job, Options{Format: output.JSON}, &document)
	for _, text := range []string{said, document.String()} {
		if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
			t.Errorf("%q", text)
		}
	}
	for line := range strings.SplitSeq(said, "\n") {
		if strings.HasPrefix(line, "Next") {
			t.Errorf("a name has made a line of its own: %s", said)
		}
	}
	if back := (answer{}); json.Unmarshal(document.Bytes(), &back) != nil || len(back.Jobs) != 1 ||
		!reflect.DeepEqual(back.Jobs[0].Job.Name, evil) {
		t.Errorf("JSON does not have the name as it is: %s", document.String())
	}
}

// Events are told by time, the newest last, and of many only the newest.
func TestEventsOfARunner(t *testing.T) {
	objects := []client.Object{runnerWith(nil)}
	for i := range 20 {
		objects = append(objects, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "runners", Name: string(rune('a' + i))},
			InvolvedObject: corev1.ObjectReference{Name: runner}, Type: "Normal", Reason: "Step",
			Message: "number " + string(rune('a'+(i+7)%20)), LastTimestamp: *after((i + 7) % 20), Count: 2,
		})
	}
	_, stories, err := asked(t, server(nil, objects...), runner)
	if err != nil || len(stories) != 1 || len(stories[0].Events) != 8 ||
		!strings.HasSuffix(stories[0].Events[7], "Normal Step (2 times): number t") ||
		!strings.HasSuffix(stories[0].Events[0], "number m") {
		t.Errorf("%v, %+v", err, stories)
	}
}

// A runner that failed has the advice of its reason, and a lost job that of its cause; each says whose step it is.
func TestNextStepsAreThoseOfTheMeaning(t *testing.T) {
	next := func(change func(*v1alpha1.EphemeralRunner), want Step) {
		t.Helper()
		if _, stories, _ := asked(t, server(nil, runnerWith(change)), runner); len(stories) != 1 ||
			!slices.Contains(stories[0].Next, want) {
			t.Errorf("%+v lacks %+v", stories, want)
		}
	}
	for _, row := range meaning.All() {
		if row.Advice == "" {
			continue
		}
		next(func(r *v1alpha1.EphemeralRunner) {
			r.Status = v1alpha1.EphemeralRunnerStatus{Phase: v1alpha1.EphemeralRunnerPhaseFailed, Reason: row.Reason}
		}, Step{row.Actor.String(), row.Advice})
	}
	for _, cause := range v1alpha1.LostCauses {
		loss := meaning.OfLoss(cause)
		next(lost(cause, "", nil), Step{loss.Actor.String(), "to lose no more jobs so, " + loss.Advice})
	}
}
