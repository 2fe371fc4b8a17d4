package top

import (
	"os"

	"golang.org/x/sys/windows"
)

func init() { understandSequences = processSequences }

// processSequences has a console of Windows follow what moves the cursor, which it prints otherwise. restore undoes
// that.
func processSequences(screen *os.File) (restore func(), err error) {
	console := windows.Handle(screen.Fd())
	var mode uint32
	if err := windows.GetConsoleMode(console, &mode); err != nil {
		return nil, err
	}
	if err := windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING); err != nil {
		return nil, err
	}
	return func() { _ = windows.SetConsoleMode(console, mode) }, nil
}
