package kube

import (
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
)

func TestTellQuotesAndCutsNotes(t *testing.T) {
	recorder := events.NewFakeRecorder(2)
	RecordEvent(t.Context(), recorder, &corev1.Pod{}, nil, Normal("Why", "Do", "100%d done"))
	if got, want := <-recorder.Events, "Normal Why 100%d done"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	note := shortNote(strings.Repeat("ä", maxNote))
	if len(note) > maxNote || !utf8.ValidString(note) || !strings.HasSuffix(note, "…") {
		t.Errorf("a long note became %d bytes, valid %t", len(note), utf8.ValidString(note))
	}
}
