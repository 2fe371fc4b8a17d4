package demand_test

import (
	"encoding/xml"
	"os"
	"strconv"
	"testing"

	"github.com/harrier-ci/harrier/internal/capacity/demand"
)

// hour is a bar of the picture of a day in docs/diagrams/day.svg: runners with a job, idle ones, those whose pods have
// no node, and jobs that stay on GitHub.
type hour struct{ busy, idle, unplaced, onGitHub int }

// readDay reads the bars: an hour is 32 wide, from 60 on, and a runner is 4 high.
func readDay(t *testing.T) (hours [24]hour) {
	t.Helper()
	content, err := os.ReadFile("../../../docs/diagrams/day.svg")
	if err != nil {
		t.Fatal(err)
	}
	var picture struct {
		Bars []struct {
			Class  string `xml:"class,attr"`
			X      string `xml:"x,attr"`
			Height string `xml:"height,attr"`
			Width  string `xml:"width,attr"`
		} `xml:"rect"`
	}
	if err := xml.Unmarshal(content, &picture); err != nil {
		t.Fatal(err)
	}
	for _, bar := range picture.Bars {
		if bar.Width != "26" {
			continue
		}
		h := &hours[(number(t, bar.X)-60)/32]
		height := number(t, bar.Height)
		of := map[string]*int{"busy": &h.busy, "idle": &h.idle, "wait": &h.unplaced, "bad": &h.onGitHub}[bar.Class]
		if of == nil || height%4 != 0 {
			t.Fatalf("a bar %+v", bar)
		}
		*of = height / 4
	}
	return hours
}

// The documentation's picture of a day shows the runners that the rule gives, in a cluster with room for 40 pods that
// announces one job more than it runs when it is full.
func TestThePictureOfADayFollowsTheRule(t *testing.T) {
	const room, most = 40, 60
	for at, h := range readDay(t) {
		asked := demand.Asked{Assigned: h.busy, Running: h.busy, Min: 2, Max: most,
			Headroom: demand.Headroom{Percent: 25}}
		if at >= 8 && at < 18 {
			asked.Min = 5
		}
		if h.busy == room {
			asked.Assigned++
		}
		placed := h.busy + h.idle
		early := (h.unplaced > 0 && placed < room) || (h.onGitHub > 0 && h.busy < room)
		if placed+h.unplaced != asked.Wanted() || placed > room || early {
			t.Errorf("at %d o'clock it shows %+v, and the rule gives %d runners", at, h, asked.Wanted())
		}
	}
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
