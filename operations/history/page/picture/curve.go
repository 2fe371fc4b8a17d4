package picture

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Point is a day or a week of a curve, with a figure for each line; nil is one that nobody knows.
type Point struct {
	From, To time.Time
	Figures  []*float64
}

// Curve shows figures over time in a picture of 100 by 100, as lines or, one on top of the other, as bars.
type Curve struct {
	// Paths has one for each figure, empty if nothing of it is known.
	Paths []string
	// Top is the figure that the whole height stands for; the lowest is 0.
	Top   float64
	Ticks []Tick
	Known bool
}

// NewLines draws a line for each figure, of seconds, from the middle of a day to that of the next. Days that are not known
// interrupt it. All lines have one scale.
func NewLines(points []Point, w Window) Curve {
	c := newCurve(points, w, readableTime, func(figures []*float64) float64 {
		top := 1.0
		for _, figure := range figures {
			if figure != nil {
				top = max(top, *figure)
			}
		}
		return top
	})
	for line := range c.Paths {
		var path strings.Builder
		drawn := time.Time{}
		for i := range points {
			point := &points[i]
			if line >= len(point.Figures) || point.Figures[line] == nil {
				continue
			}
			x := w.place(point.From.Add(point.To.Sub(point.From) / 2))
			command := "L"
			if !point.From.Equal(drawn) {
				command = "M"
			}
			fmt.Fprintf(&path, "%s%.4g %.4g", command, x, c.height(*point.Figures[line]))
			if command == "M" {
				path.WriteString("h0") // a dot, if nothing follows
			}
			drawn = point.To
		}
		c.Paths[line] = path.String()
	}
	return c
}

// NewBars draws the figures of each day, percents, on top of each other.
func NewBars(points []Point, w Window) Curve {
	c := newCurve(points, w, readable, func(figures []*float64) float64 {
		sum := 0.0
		for _, figure := range figures {
			if figure != nil {
				sum += *figure
			}
		}
		return max(1, sum)
	})
	paths := make([]strings.Builder, len(c.Paths))
	for i := range points {
		point := &points[i]
		below, from, to := 0.0, w.place(point.From), w.place(point.To)
		to -= (to - from) / 8 // so that each is seen for itself
		for of, figure := range point.Figures {
			if figure == nil || *figure <= 0 {
				continue
			}
			fmt.Fprintf(&paths[of], "M%.4g %.4gV%.4gH%.4gV%.4gz", from, c.height(below), c.height(below+*figure), to, c.height(below))
			below += *figure
		}
	}
	for i := range paths {
		c.Paths[i] = paths[i].String()
	}
	return c
}

func newCurve(points []Point, w Window, round func(float64) float64, highest func([]*float64) float64) Curve {
	c := Curve{Ticks: w.ticks()}
	lines := 0
	for i := range points {
		c.Top = max(c.Top, highest(points[i].Figures))
		lines = max(lines, len(points[i].Figures))
		for _, figure := range points[i].Figures {
			c.Known = c.Known || figure != nil
		}
	}
	c.Top = round(c.Top)
	c.Paths = make([]string, lines)
	return c
}

// readable returns the next number that is easy to read: 1, 2 or 5 and zeros.
func readable(top float64) float64 {
	if !(top > 0) || math.IsInf(top, 0) { // not a number is no more than 0, either
		return 1
	}
	size := math.Pow(10, math.Floor(math.Log10(top)))
	for _, times := range []float64{1, 2, 5} {
		if top <= times*size {
			return times * size
		}
	}
	return 10 * size
}

// readableTime returns the next number of seconds that is easy to read.
func readableTime(top float64) float64 {
	const minute, hour, day = 60, 3600, 86400
	for _, seconds := range []float64{1, 2, 5, 10, 20, 30, minute, 2 * minute, 5 * minute, 10 * minute, 20 * minute,
		30 * minute, hour, 2 * hour, 4 * hour, 8 * hour, 12 * hour, day, 2 * day} {
		if top <= seconds {
			return seconds
		}
	}
	return readable(top/day) * day
}

func (c *Curve) height(figure float64) float64 {
	if math.IsNaN(figure) {
		figure = 0
	}
	return math.Round((100-100*max(0, min(figure, c.Top))/c.Top)*100) / 100
}
