package page_test

import (
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/operations/history/ledger"
)

// TestWhatIsMissingForCostsIsNamed: prices alone make none if templates request nothing, which is the chart's default.
func TestWhatIsMissingForCostsIsNamed(t *testing.T) {
	s := empty(t)
	add := func(uid, repository string, cpu *int64) {
		t.Helper()
		job := ledger.Job{RunnerUID: uid, Cluster: "c", Namespace: "n", Set: "s", Runner: "r", At: noon.Add(-time.Hour),
			Started: noon.Add(-time.Hour), Finished: noon, Repository: repository, CPURequestMillis: cpu}
		if err := s.ledger.Put(t.Context(), []ledger.Job{job}); err != nil {
			t.Fatal(err)
		}
		if err := s.ledger.AddUp(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	add("1", "acme/app", nil)
	if _, body := s.get(t, "/usage"); !strings.Contains(text(body), "1 of 1 jobs are in rows whose pods request neither CPU nor memory") {
		t.Errorf("of jobs that request nothing it says %s", text(body))
	}
	add("2", "acme/lib", new(int64(1000)))
	if _, body := s.get(t, "/usage"); !strings.Contains(text(body), "1 of 2 jobs are in rows whose pods request neither") {
		t.Errorf("of a half that requests nothing it says %s", text(body))
	}
	if _, body := s.get(t, "/usage?repository=acme/lib"); strings.Contains(text(body), "no cost") {
		t.Errorf("of jobs that cost something it says %s", text(body))
	}
}

// TestPagesSayWhatNothingHasMeasuredOrSeen: work in Docker, and an end that nobody saw.
func TestPagesSayWhatNothingHasMeasuredOrSeen(t *testing.T) {
	s := empty(t)
	job := ledger.Job{RunnerUID: "1", Cluster: "c", Namespace: "n", Set: "s", Runner: "r", At: noon.Add(-time.Hour), Name: "image",
		Started: noon.Add(-time.Hour), Finished: noon, CPURequestMillis: new(int64(1000)), PeakMemoryBytes: new(int64(421 << 20)),
		MemoryRequestBytes: new(int64(9 << 30)), Elsewhere: ledger.ElsewhereDocker, Queued: noon.Add(-2 * time.Hour)}
	unseen := job
	unseen.RunnerUID, unseen.Elsewhere, unseen.Ending, unseen.Name = "2", "", ledger.EndingUnseen, "unseen"
	if err := s.ledger.Put(t.Context(), []ledger.Job{job, unseen}); err != nil {
		t.Fatal(err)
	}
	if err := s.ledger.AddUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/usage": "not measured", "/job?runnerUID=1": "Docker ran what the job started",
		"/job?runnerUID=2": "nobody saw its end"} {
		if _, body := s.get(t, path); !strings.Contains(text(body), want) {
			t.Errorf("%s lacks %q: %s", path, want, text(body))
		}
	}
}
