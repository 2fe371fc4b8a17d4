package report_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// burst is the number of Events with one reason about one kind of object of a set that are recorded without a pause.
const burst = 20

func TestRecordEventQuotesAndCutsNotes(t *testing.T) {
	recorder := events.NewFakeRecorder(2)
	report.RecordEvent(t.Context(), recorder, &corev1.Pod{}, nil, report.Normal("Why", "Do", "100%d\x1bdone"))
	if got, want := <-recorder.Events, "Normal Why 100%d done"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	report.RecordEvent(t.Context(), recorder, &corev1.Pod{}, nil, report.Normal("Why", "Do", strings.Repeat("ä", 1024)))
	note := strings.TrimPrefix(<-recorder.Events, "Normal Why ")
	// The API server takes 1 KiB; "…" has three bytes and each "ä" two.
	if len(note) > 1024 || len(note) < 1024-2 || !utf8.ValidString(note) || !strings.HasSuffix(note, "…") {
		t.Errorf("a long note became %d bytes, valid %t", len(note), utf8.ValidString(note))
	}
}

// Log pipelines group lines by their message, so what differs from Event to Event is in the values.
func TestEventsAreLoggedUnderOneMessage(t *testing.T) {
	var logged string
	log := funcr.New(func(_, line string) { logged = line }, funcr.Options{})
	report.RecordEvent(
		ctrl.LoggerInto(t.Context(), log), events.NewFakeRecorder(1), &corev1.Pod{}, nil,
		report.Warning("Evicted", "Run", "by node 1"),
	)
	if want := `"level"=0 "msg"="Event" "type"="Warning" "reason"="Evicted" "note"="by node 1"`; logged != want {
		t.Errorf("logged %s, want %s", logged, want)
	}
}

func TestEventsThatSayNothingNewAreLeftOut(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	recorder := events.NewFakeRecorder(1000)
	limited := report.LimitEvents(recorder, clock)
	tell := func(runner, set, reason, note string) int {
		object := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{
			UID: types.UID(runner), Labels: map[string]string{v1alpha1.LabelScaleSetName: set},
		}}
		before := len(recorder.Events)
		report.RecordEvent(t.Context(), limited, object, nil, report.Warning(reason, "Run", note))
		return len(recorder.Events) - before
	}
	for i, step := range []struct {
		runner, reason, note string
		after                time.Duration
		want                 int
	}{
		{"a", "Evicted", "by node 1", 0, 1},
		{"a", "Evicted", "by node 1", time.Minute, 0},
		{"a", "Evicted", "by node 2", 0, 1},
		{"b", "Evicted", "by node 1", 0, 1},
		{"a", "OOMKilled", "by node 1", 0, 1},
		{"a", "Evicted", "by node 1", 9 * time.Minute, 0}, // ten minutes after the first
		{"a", "Evicted", "by node 1", 1, 1},
	} {
		clock.SetTime(clock.Now().Add(step.after))
		if got := tell(step.runner, "few", step.reason, step.note); got != step.want {
			t.Errorf("step %d: %d Events, want %d", i, got, step.want)
		}
	}
	for range 2 {
		before := len(recorder.Events)
		report.RecordEvent(
			t.Context(), limited, &v1alpha1.AutoscalingRunnerSet{}, nil,
			report.Normal("ScaledUp", "Scale", "From 0 to 3 runners"),
		)
		if len(recorder.Events) == before {
			t.Error("a set that grows again is no news")
		}
	}
	told := 0
	for i := range 1000 {
		told += tell(fmt.Sprint(i), "many", "ImagePullBackOff", "no such image")
	}
	if told != burst {
		t.Errorf("%d Events of a thousand runners, want %d", told, burst)
	}
	if tell("3000", "other", "ImagePullBackOff", "no such image") != 1 {
		t.Error("one set's Events use up another's")
	}
	clock.SetTime(clock.Now().Add(time.Minute))
	if got := tell("2000", "many", "ImagePullBackOff", "no such image"); got != 1 {
		t.Errorf("%d Events a minute later, want 1", got)
	}
}

// If many sets have the same reason, as when GitHub is down, each of them has its Event. Sets created without their
// chart have no labels, and listeners of sets with the same name in many namespaces share a namespace.
func TestEventsOfOneSetTakeNoRoomFromAnother(t *testing.T) {
	recorder := events.NewFakeRecorder(1000)
	limited := report.LimitEvents(recorder, clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	const sets = 3 * burst
	for i := range sets {
		set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: "runners",
			Name:      fmt.Sprint("set-", i),
			UID:       types.UID(fmt.Sprint("set-", i)),
		}}
		listener := &v1alpha1.AutoscalingListener{ObjectMeta: metav1.ObjectMeta{
			Namespace: "arc-systems",
			Name:      fmt.Sprint("linux-", i, "-listener"),
			UID:       types.UID(fmt.Sprint("listener-", i)),
		}, Spec: v1alpha1.AutoscalingListenerSpec{
			AutoscalingRunnerSetName:      "linux",
			AutoscalingRunnerSetNamespace: fmt.Sprint("team-", i),
		}}
		report.RecordEvent(t.Context(), limited, set, nil, report.Warning("GitHubUnavailable", "Register", "no answer"))
		report.RecordEvent(t.Context(), limited, listener, nil, report.Warning("PodNameTaken", "CreatePod", "taken"))
	}
	if told := len(recorder.Events); told != 2*sets {
		t.Errorf("%d Events of %d sets and their listeners, want one of each", told, sets)
	}
}

// Whoever may create runners in one namespace chooses their labels. Labels of another namespace's set must not use up
// its Events.
func TestEventsOfAForeignLabelCountWhereTheObjectIs(t *testing.T) {
	recorder := events.NewFakeRecorder(1000)
	limited := report.LimitEvents(recorder, clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	runnerIn := func(namespace string, i int) *v1alpha1.EphemeralRunner {
		return &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprint("runner-", i), UID: types.UID(fmt.Sprint(namespace, i)),
			Labels: map[string]string{v1alpha1.LabelScaleSetName: "linux", v1alpha1.LabelScaleSetNamespace: "team-a"},
		}}
	}
	for i := range 3 * burst {
		report.RecordEvent(t.Context(), limited, runnerIn("team-b", i), nil, report.Warning("InvalidPod", "CreatePod", "no"))
	}
	before := len(recorder.Events)
	report.RecordEvent(t.Context(), limited, runnerIn("team-a", 1), nil, report.Warning("InvalidPod", "CreatePod", "no"))
	if got := len(recorder.Events) - before; got != 1 {
		t.Errorf("%d Events of team-a's own runner after a flood under its label, want 1", got)
	}
}
