package top

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// Screen is a terminal that is redrawn in place.
type Screen interface {
	// Enter takes the terminal over. quit is closed when the user wants to leave, and leave gives the terminal back as
	// it was.
	Enter() (quit <-chan struct{}, leave func(), err error)
	// Size returns the numbers of columns and lines.
	Size() (width, height int)
}

// terminal is a Screen of keys that are read from one file and a screen that is written to another.
type terminal struct{ in, out *os.File }

// TerminalOf returns the terminal that a program's input and output are, nil if they are none.
func TerminalOf(in io.Reader, out io.Writer) Screen {
	keys, isFile := in.(*os.File)
	screen, isScreen := out.(*os.File)
	if !isFile || !isScreen || !term.IsTerminal(int(keys.Fd())) || !term.IsTerminal(int(screen.Fd())) ||
		os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &terminal{keys, screen}
}

// What a terminal is told: another screen than the one with the user's commands, without a cursor; and back.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
)

// understandSequences has a terminal follow these; restore undoes that. Only consoles of Windows need something for it.
var understandSequences = func(*os.File) (restore func(), err error) { return func() {}, nil }

// Enter switches to another screen, and reads keys as they are pressed: q and Ctrl-C quit. Whoever leaves must end the
// process soon: a read from a terminal can't be interrupted.
func (t *terminal) Enter() (quit <-chan struct{}, leave func(), err error) {
	before, err := term.MakeRaw(int(t.in.Fd()))
	if err != nil {
		return nil, nil, err
	}
	restore, err := understandSequences(t.out)
	if err != nil {
		_ = term.Restore(int(t.in.Fd()), before)
		return nil, nil, err
	}
	_, _ = io.WriteString(t.out, enterScreen)
	wanted := make(chan struct{})
	go awaitQuit(t.in, wanted)
	var once sync.Once
	return wanted, func() {
		once.Do(func() {
			_, _ = io.WriteString(t.out, leaveScreen)
			restore()
			_ = term.Restore(int(t.in.Fd()), before)
		})
	}, nil
}

// awaitQuit closes wanted after q, Q, Ctrl-C or Ctrl-D, or when there is nothing more to read.
func awaitQuit(keys io.Reader, wanted chan<- struct{}) {
	defer close(wanted)
	pressed := make([]byte, 1)
	for {
		if _, err := keys.Read(pressed); err != nil || strings.IndexByte("qQ\x03\x04", pressed[0]) >= 0 {
			return
		}
	}
}

// Size returns the size of the terminal, or a usual one if it does not say.
func (t *terminal) Size() (width, height int) {
	width, height, err := term.GetSize(int(t.out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// drawn returns the sequences that draw lines from the upper left corner on, over what was there, without flicker.
func drawn(lines []string) string {
	var frame strings.Builder
	frame.WriteString("\x1b[H")
	for i, line := range lines {
		if i > 0 {
			frame.WriteString("\r\n")
		}
		fmt.Fprintf(&frame, "%s\x1b[K", line)
	}
	frame.WriteString("\x1b[J")
	return frame.String()
}
