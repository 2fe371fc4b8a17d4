package page_test

import (
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/operations/history/ledger"
)

func TestPagesOfJobsHaveEachJobASingleTime(t *testing.T) {
	s := invented(t)
	row := regexp.MustCompile(`href="job\?runnerUID=([^"]*)"`)
	next := regexp.MustCompile(`<a href="([^"]*)" rel="next"`)
	seen, pages := map[string]bool{}, 0
	for path := "/jobs?set=linux"; path != ""; pages++ {
		_, body := s.get(t, path)
		for _, uid := range row.FindAllStringSubmatch(body, -1) {
			if seen[uid[1]] {
				t.Errorf("%s is there twice", uid[1])
			}
			seen[uid[1]] = true
		}
		path = ""
		if link := next.FindStringSubmatch(body); link != nil {
			path = "/" + html.UnescapeString(link[1])
		}
	}
	found, err := s.ledger.Jobs(t.Context(), ledger.Filter{Set: "linux", From: noon.Add(-24 * time.Hour)})
	if err != nil || len(found.Jobs) != len(seen) || pages < 3 {
		t.Errorf("%d jobs on %d pages of %d, %v", len(seen), pages, len(found.Jobs), err)
	}
}

func TestARareJobIsAFurtherPageAway(t *testing.T) {
	s := invented(t)
	const lookedAt = 20_000 // by the ledger, for one page
	many := make([]ledger.Job, lookedAt+1)
	for i := range many {
		many[i] = ledger.Job{RunnerUID: fmt.Sprintf("many-%d", i), Cluster: "c", Namespace: "n", Set: "s", Name: "common",
			At: noon.Add(time.Duration(i-len(many)) * time.Second)}
	}
	many[0].Name = "rare-name"
	for some := range slices.Chunk(many, 500) { // as many as the recorder writes together
		if err := s.ledger.Put(t.Context(), some); err != nil {
			t.Fatal(err)
		}
	}
	_, body := s.get(t, "/jobs?text=rare-name&from=24h")
	older := regexp.MustCompile(`<a href="([^"]*)" rel="next"`).FindStringSubmatch(body)
	if strings.Contains(body, "many-0") || strings.Contains(body, "No job in this time") ||
		!strings.Contains(body, "were not looked at yet") || older == nil {
		t.Fatalf("the first page is %s", body)
	}
	_, body = s.get(t, "/"+html.UnescapeString(older[1]))
	if !strings.Contains(body, "many-0") || strings.Contains(body, "were not looked at yet") {
		t.Errorf("the second page is %s", body)
	}
}
