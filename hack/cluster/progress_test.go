package cluster

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestATransferSaysHowFarItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var progress strings.Builder
		from := io.MultiReader(strings.NewReader(strings.Repeat("x", 1e6)), strings.NewReader(strings.Repeat("x", 2e6)))
		m := &metered{from: from, what: "image a", total: 3e6, progress: &progress}
		buffer := make([]byte, 4e6)
		for range 2 {
			if _, err := m.Read(buffer); err != nil {
				t.Fatal(err)
			}
			<-time.After(reportInterval)
		}
		if _, err := m.Read(buffer); !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %v", err)
		}
		if want := "cluster: image a: 1 of 3 MB\ncluster: image a: 3 of 3 MB, unpacking\n"; progress.String() != want {
			t.Errorf("said %q, want %q", progress.String(), want)
		}
	})
}

func TestAptStatus(t *testing.T) {
	for line, want := range map[string]string{
		"dlstatus:2:41.35:Retrieving file 2 of 5 (3s remaining)": "41 %, Retrieving file 2 of 5 (3s remaining)",
		"pmstatus:runc:60:Installing runc (amd64)":               "60 %, Installing runc (amd64)",
		"pmerror:runc:60:no: such file":                          "",
		"nonsense":                                               "",
		"dlstatus:1:x:y":                                         "",
	} {
		if got := aptStatus(line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
