package report

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestRecordEventQuotesAndCutsNotes(t *testing.T) {
	recorder := events.NewFakeRecorder(2)
	RecordEvent(t.Context(), recorder, &corev1.Pod{}, nil, Normal("Why", "Do", "100%d done"))
	if got, want := <-recorder.Events, "Normal Why 100%d done"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	note := Truncate(strings.Repeat("ä", maxNote), maxNote)
	if len(note) > maxNote || !utf8.ValidString(note) || !strings.HasSuffix(note, "…") {
		t.Errorf("a long note became %d bytes, valid %t", len(note), utf8.ValidString(note))
	}
}

// Log pipelines group lines by their message, so what differs from Event to Event is in the values.
func TestEventsAreLoggedUnderOneMessage(t *testing.T) {
	var logged string
	log := funcr.New(func(_, line string) { logged = line }, funcr.Options{})
	RecordEvent(ctrl.LoggerInto(t.Context(), log), events.NewFakeRecorder(1), &corev1.Pod{}, nil, Warning("Evicted", "Run", "by node 1"))
	if want := `"level"=0 "msg"="Event" "type"="Warning" "reason"="Evicted" "note"="by node 1"`; logged != want {
		t.Errorf("logged %s, want %s", logged, want)
	}
}
