package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPlainScreenSaysWhatBeginsAndHowItEnds(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out}
	failure := errors.New("no")
	if err := s.step("first", func(io.Writer) error { return nil }); err != nil {
		t.Error(err)
	}
	if err := s.step("second", func(io.Writer) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("error is %v", err)
	}
	want := "demo: first\ndemo: first: done in N s\ndemo: second\ndemo: second: failed after N s\n"
	if got := regexp.MustCompile(`\d+\.\d s`).ReplaceAllString(out.String(), "N s"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A step that says nothing new must not look like one that hangs.
func TestPlainScreenSaysAgainAndAgainWhatLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := &screen{out: &out}
		_ = s.step("slow", func(progress io.Writer) error {
			<-time.After(noteEvery + time.Second)
			_, _ = fmt.Fprintln(progress, "1 of 3 packages compiled")
			<-time.After(2 * noteEvery)
			return nil
		})
		want := "demo: slow\ndemo: slow (5.0 s)\ndemo: slow (10.0 s): 1 of 3 packages compiled\n" +
			"demo: slow (15.0 s): 1 of 3 packages compiled\ndemo: slow: done in 16.0 s\n"
		if got := out.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestLiveScreenErasesWhatItDrew(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out, live: true, width: 30}
	s.enter("jobs")
	s.show(func() []string { return []string{"row one", strings.Repeat("x", 50)} })
	if _, err := fmt.Fprint(noteWriter{s}, "first\nlast note\n"); err != nil {
		t.Fatal(err)
	}
	s.draw()
	first := out.String()
	if lines := strings.Count(first, "\n"); lines != 4 || strings.Contains(first, "\x1b[") ||
		!strings.Contains(first, "last note") {
		t.Errorf("first drawing: %q", first)
	}
	for line := range strings.Lines(first) {
		if len([]rune(line)) > 30 {
			t.Errorf("line wraps: %q", line)
		}
	}
	out.Reset()
	s.leave(nil)
	if got := out.String(); !strings.HasPrefix(got, "\x1b[4A\x1b[J✓ jobs") {
		t.Errorf("end of the step: %q", got)
	}
}

func TestSqueezePutsATableIntoOneLine(t *testing.T) {
	got := squeeze(counts{queued: 1, assigned: 2, running: 3, done: 4, pending: 5, up: 6}.rows())
	want := "jobs 1 queued 2 assigned 3 running 4 done; runners 5 pending 6 running"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
