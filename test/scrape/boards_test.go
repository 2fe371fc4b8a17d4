package scrape

import (
	"flag"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/harrier-ci/harrier/hack/dashboards"
	"github.com/harrier-ci/harrier/hack/dashboards/picture"
	"github.com/harrier-ci/harrier/test/rig"
)

var pictures = flag.String("pictures", "", "directory to draw the dashboards to, after four minutes of jobs")

func boards(t *testing.T) []dashboards.Board {
	t.Helper()
	found, err := dashboards.Load(chart + "/dashboards")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// empty are parts of queries about what does not happen where all is well.
var empty = []string{"gha_listener_dropped_reports_total", "gha_controller_scale_set_trouble", `gha_controller_runners{state="pending", reason!=""`}

// askAll has Prometheus answer all queries of the dashboards, each for the default set, once what they are about was scraped.
// A rate needs two scrapes.
func (p *observer) askAll(t *testing.T, namespace string) {
	t.Helper()
	variables := map[string]string{"__rate_interval": "1m", "name": rig.DefaultSet, "namespace": namespace}
	var queries []string
	for _, board := range boards(t) {
		for _, panel := range board.Panels {
			for _, target := range panel.Targets {
				queries = append(queries, dashboards.Resolve(target.Expr, variables))
			}
		}
	}
	NewWithT(t).Eventually(func() ([]string, error) { return p.unanswered(queries) }).WithTimeout(rig.Patience).WithPolling(time.Second).
		Should(BeEmpty(), "queries that find no series")
}

// unanswered are the queries that find nothing and should.
func (p *observer) unanswered(queries []string) (unanswered []string, err error) {
	for _, query := range queries {
		found, err := p.Query(query)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 && !slices.ContainsFunc(empty, func(part string) bool { return strings.Contains(query, part) }) {
			unanswered = append(unanswered, query)
		}
	}
	return unanswered, nil
}

// span is the time that pictures show.
type span struct{ start, end time.Time }

// step divides it into 150: a graph is 400 pixels wide.
func (s span) step() time.Duration { return s.end.Sub(s.start) / 150 }

// draw writes pictures of all dashboards to the directory.
func (p *observer) draw(t *testing.T, directory string, shown span, variables map[string]string) {
	t.Helper()
	for _, board := range boards(t) {
		data := picture.Data{}
		for _, panel := range board.Panels {
			for _, target := range panel.Targets {
				data[panel.ID] = append(data[panel.ID], p.series(t, target, shown, variables)...)
			}
		}
		file := filepath.Join(directory, "dashboard-"+board.Name+".svg")
		if err := os.WriteFile(file, picture.Draw(&board, data, shown.start, shown.end), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// series are what a query finds in that time, with gaps where it finds nothing.
func (p *observer) series(t *testing.T, target dashboards.Target, shown span, variables map[string]string) (found []picture.Series) {
	t.Helper()
	unix := func(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
	results, err := p.Get("query_range", url.Values{
		"query": {dashboards.Resolve(target.Expr, variables)},
		"start": {unix(shown.start)}, "end": {unix(shown.end)}, "step": {fmt.Sprint(shown.step().Seconds())},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range results {
		series := picture.Series{Name: target.Legend(result.Metric)}
		var before time.Time
		for _, pair := range result.Values {
			value, err := strconv.ParseFloat(fmt.Sprint(pair[1]), 64)
			if err != nil {
				t.Fatal(err)
			}
			at := time.UnixMilli(int64(pair[0].(float64) * 1000))
			if !before.IsZero() && at.Sub(before) > shown.step()*3/2 {
				series.Points = append(series.Points, picture.Point{At: before.Add(shown.step()), Value: math.NaN()})
			}
			series.Points, before = append(series.Points, picture.Point{At: at, Value: value}), at
		}
		found = append(found, series)
	}
	return found
}
