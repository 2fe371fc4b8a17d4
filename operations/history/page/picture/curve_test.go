package picture_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/operations/history/page/picture"
)

// days are points of one day each, with figures by line.
func days(figures ...[]*float64) (points []picture.Point, w picture.Window) {
	begin := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for i, of := range figures {
		if of != nil {
			points = append(points, picture.Point{From: begin.AddDate(0, 0, i), To: begin.AddDate(0, 0, i+1), Figures: of})
		}
	}
	return points, picture.Window{From: begin, To: begin.AddDate(0, 0, len(figures))}
}

func TestALineIsInterruptedWhereNothingIsKnown(t *testing.T) {
	c := picture.NewLines(days([]*float64{new(30.0), nil}, []*float64{new(60.0), nil}, nil, []*float64{new(15.0), nil}))
	if c.Top != 60 || len(c.Paths) != 2 || c.Paths[1] != "" || !c.Known ||
		c.Paths[0] != "M12.5 50h0L37.5 0M87.5 75h0" {
		t.Errorf("the curve is %+v", c)
	}
}

func TestBarsStandOnEachOther(t *testing.T) {
	c := picture.NewBars(days([]*float64{new(4.0), new(1.0)}, []*float64{nil, nil}))
	if c.Top != 5 || c.Paths[0] != "M0 100V20H43.75V100z" || c.Paths[1] != "M0 20V0H43.75V20z" {
		t.Errorf("the bars are %+v", c)
	}
}

// No figure leaves the picture, whatever is drawn.
func TestAbsurdFiguresMakeAPicture(t *testing.T) {
	for _, figure := range []float64{0, -5, 1e-9, 1e18, math.Inf(1), math.NaN()} {
		for _, draw := range []func([]picture.Point, picture.Window) picture.Curve{picture.NewLines, picture.NewBars} {
			c := draw(days([]*float64{&figure}))
			for _, path := range c.Paths {
				if strings.Contains(path, "NaN") || strings.Contains(path, "Inf") || math.IsInf(c.Top, 0) || math.IsNaN(c.Top) {
					t.Errorf("%f makes %+v", figure, c)
				}
			}
		}
	}
	if c := picture.NewLines(nil, picture.Window{}); c.Known || len(c.Paths) > 0 {
		t.Errorf("of nothing there is %+v", c)
	}
}
