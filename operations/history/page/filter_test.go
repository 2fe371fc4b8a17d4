package page_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/operations/history/page/pagetest"
	"github.com/harrier-ci/harrier/operations/history/question"
)

// TestAddressesHoldTimeAndFilter: each link to the API asks what the page has asked, the form repeats it, and a form's
// empty fields go away.
func TestAddressesHoldTimeAndFilter(t *testing.T) {
	s := invented(t)
	const path = "/jobs?from=7d&namespace=team-web&set=linux&result=failed&text=c%26d%2B&node=node-1"
	asked, err := url.Parse(path)
	if err != nil {
		t.Fatal(err)
	}
	parts := [][]string{question.Time, question.Place, question.OfKinds, question.OfJobs, question.Pages, question.Format}
	want, err := question.Parse(asked.Query(), noon, parts...)
	if err != nil {
		t.Fatal(err)
	}
	_, body := s.get(t, path)
	links := regexp.MustCompile(`href="(api/v1/jobs\?[^"]*)"`).FindAllStringSubmatch(body, -1)
	if len(links) != 2 {
		t.Fatalf("the tables are %q", links)
	}
	for _, link := range links {
		address, err := url.Parse(html.UnescapeString(link[1]))
		if err != nil {
			t.Fatal(err)
		}
		got, err := question.Parse(address.Query(), noon, parts...)
		if err != nil || got.Filter != want.Filter || got.CSV != strings.Contains(link[1], "csv") {
			t.Errorf("%s asks for %+v, %v", link[1], got.Filter, err)
		}
	}
	for _, field := range []string{`name="text" value="c&amp;d&#43;"`, `name="set" value="linux"`,
		`<option value="failed" selected>`, `name="from" value="7d"`, `type="hidden" name="node" value="node-1"`} {
		if !strings.Contains(body, field) {
			t.Errorf("the form lacks %s", field)
		}
	}
	answer, _ := s.get(t, "/jobs?from=24h&to=&set=linux&text=&result=")
	if got := answer.Request.URL.RequestURI(); got != "/jobs?from=24h&set=linux" {
		t.Errorf("a form leads to %s", got)
	}
}

// TestNoPageIgnoresAFilter: what doesn't apply to a page is refused, and every link of a page leads to one.
func TestNoPageIgnoresAFilter(t *testing.T) {
	s := invented(t)
	for _, path := range []string{"/?repository=acme/web", "/set?namespace=team-web&set=linux&result=failed", "/usage?runID=7",
		"/job?runnerUID=x&by=set", "/jobs?by=set", "/usage?format=csv"} {
		if answer, body := s.get(t, path); answer.StatusCode != http.StatusBadRequest || !strings.Contains(body, "does not apply") {
			t.Errorf("%s: %d", path, answer.StatusCode)
		}
	}
	seen, next := map[string]bool{}, []string{"/", "/jobs", "/usage?by=job", "/set?cluster=" + pagetest.Name +
		"&namespace=team-web&set=linux"}
	href := regexp.MustCompile(`href="([^"#]*)"`)
	for len(next) > 0 && len(seen) < 150 {
		path := next[0]
		if next = next[1:]; seen[path] {
			continue
		}
		seen[path] = true
		answer, body := s.get(t, path)
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", path, answer.StatusCode, body)
		}
		for _, link := range href.FindAllStringSubmatch(body, -1) {
			to := html.UnescapeString(link[1])
			if strings.Contains(to, "://") || strings.HasPrefix(to, "api/") {
				continue
			}
			next = append(next, "/"+strings.TrimPrefix(to, "./"))
		}
	}
}
