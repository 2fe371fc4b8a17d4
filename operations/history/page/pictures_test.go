package page_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/page/pagetest"
)

var runs = regexp.MustCompile(`<rect class="run (\w+)" x="([\d.]+)%" y="(\d+)" width="([\d.]+)%"`)

// TestALaneHasOneRunnerAtATime reads the timeline as a browser does.
func TestALaneHasOneRunnerAtATime(t *testing.T) {
	s := invented(t)
	_, body := s.get(t, "/set?cluster="+pagetest.Name+"&namespace=team-web&set=linux&from=12h")
	type run struct{ from, to float64 }
	lanes := map[string][]run{}
	classes := map[string]int{}
	for _, rect := range runs.FindAllStringSubmatch(body, -1) {
		x, _ := strconv.ParseFloat(rect[2], 64)
		width, _ := strconv.ParseFloat(rect[4], 64)
		lanes[rect[3]] = append(lanes[rect[3]], run{x, x + width})
		classes[rect[1]]++
		if x < 0 || x+width > 100.5 {
			t.Errorf("a run is from %f to %f", x, x+width)
		}
	}
	if len(lanes) < 5 || classes["running"] == 0 || classes["lost"] == 0 || classes["failed"] == 0 {
		t.Fatalf("lanes are %v, classes %v", lanes, classes)
	}
	const rounding = 0.2 // a run is as wide as can be seen
	for lane, runs := range lanes {
		slices.SortFunc(runs, func(a, b run) int { return int(1000 * (a.from - b.from)) })
		for i := 1; i < len(runs); i++ {
			if runs[i].from < runs[i-1].to-rounding {
				t.Errorf("lane %s has %v and %v", lane, runs[i-1], runs[i])
			}
		}
	}
}

// TestPhasesAddUp: the parts of a job's bar are its whole wait, one after the other.
func TestPhasesAddUp(t *testing.T) {
	s := empty(t)
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	job := ledger.Job{RunnerUID: "uid", Cluster: "c", Namespace: "n", Set: "s", Runner: "r", At: at(100), Queued: at(0),
		Assigned: at(10), Created: at(20), Registered: at(21), Placed: at(60), ImagePulled: at(90), ContainerUp: at(95),
		Started: at(100), Finished: at(300), Result: "failed"}
	if err := s.ledger.Put(t.Context(), []ledger.Job{job}); err != nil {
		t.Fatal(err)
	}
	_, body := s.get(t, "/job?runnerUID=uid")
	for _, want := range []string{"2 GitHub 10 s", "3 queue 10 s", "4 registration 1 s", "5 node 39 s", "6 image 30 s",
		"7 container 5 s", "8 start 5 s", "run 3 min 20 s", "Waited 1 min 40 s", "Most of it for node, 39 s"} {
		if !strings.Contains(text(body), want) {
			t.Errorf("the page lacks %q: %s", want, text(body))
		}
	}
	end := 0.0
	parts := regexp.MustCompile(`<rect class="step\d" x="([\d.]+)%" width="([\d.]+)%"`)
	for _, rect := range parts.FindAllStringSubmatch(body, -1) {
		x, _ := strconv.ParseFloat(rect[1], 64)
		width, _ := strconv.ParseFloat(rect[2], 64)
		if x < end-0.01 || x > end+0.01 {
			t.Errorf("a part begins at %f, behind %f", x, end)
		}
		end = x + width
	}
	if end < 99.9 || end > 100.1 {
		t.Errorf("the parts end at %f", end)
	}
}

func TestStripsShowTheLargestNumbers(t *testing.T) {
	s := empty(t)
	var samples []ledger.Sample
	for minute, numbers := range map[int][2]int64{0: {1, 0}, 10: {3, 0}, 11: {7, 5}, 12: {2, 0}, 600: {4, 1}} {
		samples = append(samples, ledger.Sample{Cluster: "c", Namespace: "n", Set: "s",
			At: noon.Add(-24 * time.Hour).Add(time.Duration(minute) * time.Minute), Running: numbers[0], Waiting: numbers[1]})
	}
	last := ledger.Sample{Cluster: "c", Namespace: "n", Set: "s", At: noon}
	if err := s.ledger.PutSamples(t.Context(), append(samples, last)); err != nil {
		t.Fatal(err)
	}
	_, body := s.get(t, "/")
	if want := fmt.Sprintf("At most %d running and %d waiting jobs", 7, 5); !strings.Contains(body, want) {
		t.Errorf("the strip does not say %q: %s", want, body)
	}
	// A sample that nothing follows holds for no longer than the ledger lets a set be silent: two areas are apart.
	areas := regexp.MustCompile(`<path class="busy" d="([^"]*)"`).FindStringSubmatch(body)
	if areas == nil || !strings.Contains(areas[1], "M19 ") || strings.Contains(areas[1], "M10 ") {
		t.Errorf("the areas are %q", areas)
	}
}
