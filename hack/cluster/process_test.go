package cluster

import (
	"os"
	"strings"
	"testing"
	"time"
)

func started(t *testing.T, program string, arguments ...string) (*processes, layout) {
	t.Helper()
	l := layout{dir: t.TempDir()}
	for _, directory := range []string{l.state(), l.path("log")} {
		if err := os.MkdirAll(directory, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p := newProcesses(l)
	if err := p.start("program", program, arguments...); err != nil {
		t.Fatal(err)
	}
	return p, l
}

func TestRecordedProcessIsKilledByAnotherRun(t *testing.T) {
	p, l := started(t, "sleep", "600")
	p.expectEnd()
	recorded, err := readRecord(l)
	if err != nil {
		t.Fatal(err)
	}
	if len(recorded) != 1 || !recorded[0].running() {
		t.Fatalf("record is %+v", recorded)
	}
	if err := kill(t.Context(), recorded); err != nil {
		t.Fatal(err)
	}
	p.reaped.Wait()
	if recorded[0].running() || p.err() != nil {
		t.Errorf("running %t, failure %v", recorded[0].running(), p.err())
	}
}

func TestReusedIDsAreNotOurs(t *testing.T) {
	p, l := started(t, "sleep", "600")
	p.expectEnd()
	recorded, err := readRecord(l)
	if err != nil {
		t.Fatal(err)
	}
	later := recorded[0]
	later.Started++
	otherBoot := recorded[0]
	otherBoot.Boot = "another"
	if later.running() || otherBoot.running() {
		t.Error("a process with another start is taken for ours")
	}
	if err := kill(t.Context(), recorded); err != nil {
		t.Fatal(err)
	}
	p.reaped.Wait()
}

func TestUnexpectedEndIsAFailureWithTheLog(t *testing.T) {
	// The program ends only when told to, because a process that has ended can't be recorded.
	p, l := started(t, "sh", "-c", "until [ -e told ]; do sleep 0.01; done; echo out of luck; exit 3")
	if err := os.WriteFile(l.in("told"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		t.Fatal("the end was not noticed")
	}
	for _, want := range []string{"program", "exit status 3", "out of luck"} {
		if !strings.Contains(p.err().Error(), want) {
			t.Errorf("failure %q lacks %q", p.err(), want)
		}
	}
}

func TestParseStartTime(t *testing.T) {
	fields := "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20"
	for stat, want := range map[string]uint64{
		"12 (sleep) " + fields:          4711,
		"12 (odd ) name (x)) " + fields: 4711,
		"12 (zombie) Z" + fields[1:]:    0,
		"12 (short) S 1 2":              0,
		"":                              0,
	} {
		got, err := parseStartTime(stat)
		if got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: %d, %v", stat, got, err)
		}
	}
}
