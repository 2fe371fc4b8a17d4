package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	redrawEvery = 100 * time.Millisecond
	// A log gets a line about the current step every noteEvery.
	noteEvery = 5 * time.Second
)

// screen shows the steps. On a terminal, finished steps stay above the current one, which is redrawn; elsewhere it
// prints plain lines.
type screen struct {
	out  io.Writer
	live bool
	// width of the terminal in columns. Longer lines are cut, because they would wrap and spoil the redrawing.
	width int

	mu      sync.Mutex
	current string
	begin   time.Time
	note    string
	// table is drawn below the current step. Nil means none.
	table func() []string
	// drawn is the number of lines to be erased before the next drawing.
	drawn     int
	lastNoted time.Time
}

// step runs do and shows its name, its duration, and the last line that it wrote to progress.
func (s *screen) step(name string, do func(progress io.Writer) error) error {
	s.enter(name)
	done := make(chan struct{})
	var drawing sync.WaitGroup
	drawing.Go(func() { s.keepDrawing(done) })
	err := do(noteWriter{s})
	close(done)
	drawing.Wait()
	s.leave(err)
	return err
}

func (s *screen) enter(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.current, s.begin, s.note, s.lastNoted = name, now, "", now
	if !s.live {
		s.print("demo: %s", name)
	}
}

func (s *screen) leave(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	elapsed := seconds(time.Since(s.begin))
	s.erase()
	s.table = nil
	switch {
	case err != nil && s.live:
		s.print("✗ %-58s %8s", s.current, elapsed)
	case err != nil:
		s.print("demo: %s: failed after %s", s.current, elapsed)
	case s.live:
		s.print("✓ %-58s %8s", s.current, elapsed)
	default:
		s.print("demo: %s: done in %s", s.current, elapsed)
	}
}

// show sets what is drawn below the current step until that ends.
func (s *screen) show(table func() []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table = table
}

// say prints a line that stays.
func (s *screen) say(format string, arguments ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	s.print(format, arguments...)
}

func (s *screen) keepDrawing(done <-chan struct{}) {
	ticker := time.NewTicker(redrawEvery)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			s.draw()
		}
	}
}

func (s *screen) draw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.live {
		s.drawPlain()
		return
	}
	lines := []string{fmt.Sprintf("… %-58s %8s", s.current, seconds(time.Since(s.begin)))}
	if s.note != "" {
		lines = append(lines, "    "+s.note)
	}
	if s.table != nil {
		lines = append(lines, s.table()...)
	}
	s.erase()
	for _, line := range lines {
		s.print("%s", cutTo(line, s.width))
	}
	s.drawn = len(lines)
}

// drawPlain writes a line about the current step every noteEvery.
func (s *screen) drawPlain() {
	if time.Since(s.lastNoted) < noteEvery {
		return
	}
	note := s.note
	if s.table != nil {
		note = squeeze(s.table())
	}
	s.lastNoted = time.Now()
	s.print("%s", strings.TrimSuffix(fmt.Sprintf("demo: %s (%s): %s", s.current, seconds(time.Since(s.begin)), note),
		": "))
}

// squeeze joins the lines of a table into one.
func squeeze(lines []string) string {
	var parts []string
	for _, line := range lines {
		if words := strings.Fields(line); len(words) > 0 {
			parts = append(parts, strings.Join(words, " "))
		}
	}
	return strings.Join(parts, "; ")
}

// erase removes what draw has drawn: the cursor goes up that many lines, and the screen is cleared from there.
func (s *screen) erase() {
	if s.drawn > 0 {
		_, _ = fmt.Fprintf(s.out, "\x1b[%dA\x1b[J", s.drawn)
		s.drawn = 0
	}
}

// print ignores errors: if the terminal is gone, nobody can be told, and the demonstration still has to clean up.
func (s *screen) print(format string, arguments ...any) {
	_, _ = fmt.Fprintf(s.out, format+"\n", arguments...)
}

func cutTo(line string, width int) string {
	if width <= 0 || utf8.RuneCountInString(line) < width {
		return line
	}
	return string([]rune(line)[:width-1])
}

// noteWriter keeps the last line that was written as the note of the current step.
type noteWriter struct{ screen *screen }

func (w noteWriter) Write(content []byte) (int, error) {
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	w.screen.mu.Lock()
	defer w.screen.mu.Unlock()
	w.screen.note = strings.TrimSpace(lines[len(lines)-1])
	return len(content), nil
}
