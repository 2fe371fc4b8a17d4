package top

import (
	"strings"
	"testing"
)

// In the package: its other door is a terminal, from which a read can't be interrupted.
func TestKeysThatQuit(t *testing.T) {
	for keys, quits := range map[string]bool{"q": true, "xyzQ": true, "\x03": true, "j\x04": true} {
		wanted := make(chan struct{})
		rest := strings.NewReader(keys + "rest")
		awaitQuit(rest, wanted)
		if _, open := <-wanted; open || quits != (rest.Len() == len("rest")) {
			t.Errorf("%q: %d bytes are left", keys, rest.Len())
		}
	}
}
