package picture

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/hack/dashboards"
)

var start = time.Unix(1700000000, 0)

// curve is a series of one value a second.
func curve(name string, values ...float64) Series {
	s := Series{Name: name}
	for i, value := range values {
		s.Points = append(s.Points, Point{start.Add(time.Duration(i) * time.Second), value})
	}
	return s
}

func TestPictureIsWellFormedWhateverTheData(t *testing.T) {
	boards, err := dashboards.Load("../../../charts/gha-runner-scale-set-controller/dashboards")
	if err != nil {
		t.Fatal(err)
	}
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewSource(seed))
	odd := []float64{math.NaN(), math.Inf(1), 0, -3, 1e-9, 1e12}
	for _, board := range boards {
		data := Data{}
		for _, panel := range board.Panels {
			for range random.Intn(4) {
				values := make([]float64, random.Intn(30))
				for i := range values {
					values[i] = random.Float64() * 100
					if random.Intn(5) == 0 {
						values[i] = odd[random.Intn(len(odd))]
					}
				}
				data[panel.ID] = append(data[panel.ID], curve(`<&">`, values...))
			}
		}
		drawn := string(Draw(&board, data, start, start.Add(30*time.Second)))
		decoder := xml.NewDecoder(strings.NewReader(drawn))
		for err == nil {
			_, err = decoder.Token()
		}
		if !errors.Is(err, io.EOF) || strings.Contains(drawn, "NaN") || strings.Contains(drawn, "Inf") {
			t.Errorf("%s: %v", board.Name, err)
		}
		err = nil
	}
}

func TestLinesBreakWhereValuesAreMissing(t *testing.T) {
	x := func(at time.Time) float64 { return at.Sub(start).Seconds() }
	same := func(v float64) float64 { return v }
	got := lines(curve("", 5, 5, 5, 7, math.NaN(), 1, math.NaN(), 2, 3).Points, x, same)
	if len(got) != 2 || got[0].path != "M0.0 5.0L2.0 5.0L3.0 7.0" || got[1].from != 7 {
		t.Errorf("lines %+v", got)
	}
}

func TestFormat(t *testing.T) {
	for want, c := range map[string]struct {
		unit        string
		value, step float64
	}{
		"0": {"s", 0, 1}, "0.5 ms": {"s", 0.0005, 0.0005}, "250 ms": {"s", 0.25, 0.05}, "1.5 s": {"s", 1.5, 0.5}, "90 s": {"s", 90, 10},
		"30 min": {"s", 1800, 600}, "30 d": {"s", 30 * 86400, 86400}, "64 MiB": {"bytes", 64 << 20, 1 << 20}, "12": {"short", 12, 2},
		"1.5 k": {"short", 1500, 500}, "0.2 /s": {"ops", 0.2, 0.1},
	} {
		if got := format(c.unit, c.value, c.step); got != want {
			t.Errorf("%g in %s is %q, want %q", c.value, c.unit, got, want)
		}
	}
}

func TestNiceStepOfAUnit(t *testing.T) {
	if got := niceStepOf("bytes", 50<<20, 4) / (1 << 20); got != 20 {
		t.Errorf("steps of %g MiB up to 50, want 20", got)
	}
	if got := niceStepOf("s", 30*86400, 4) / 86400; got != 10 {
		t.Errorf("steps of %g days up to 30, want 10", got)
	}
}

func TestNiceStep(t *testing.T) {
	for top, want := range map[float64]float64{0: 1, 1: 0.5, 4: 1, 7: 2, 100: 50, 0.03: 0.01, 35: 10} {
		if got := niceStep(top, 4); math.Abs(got-want) > want/1000 {
			t.Errorf("steps of %g up to %g, want %g", got, top, want)
		}
	}
}
