package picture

import (
	"fmt"
	"html"
	"math"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/hack/dashboards"
)

// area is the size of a panel in pixels and the time that it shows.
type area struct {
	width, height float64
	start, end    time.Time
}

// Space around the lines of a graph in pixels: title above, values at the left, times below, and names below those.
const (
	marginTop    = 34
	marginLeft   = 52
	marginRight  = 14
	timeHeight   = 20
	legendHeight = 17
	letterWidth  = 6.4 // of an average letter in a legend
)

var palette = []string{"#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#f2495c", "#b877d9", "#8ab8ff", "#ffa6b0", "#96d98d", "#ffb357", "#c0d8ff", "#de9ae7"}

// Numbers of ticks on the vertical axis and on the time axis.
const (
	valueTicks = 4
	timeTicks  = 5
)

func drawGraph(out *strings.Builder, panel *dashboards.Panel, series []Series, a area) {
	colors := colorsOf(panel, series)
	rows := legend(series, colors, a.width)
	bottom := a.height - timeHeight - legendHeight*float64(len(rows)) - 4
	step := niceStepOf(panel.FieldConfig.Defaults.Unit, highest(series), valueTicks)
	top := step * math.Max(1, math.Ceil(highest(series)/step))
	y := func(value float64) float64 { return bottom - math.Max(0, value)/top*(bottom-marginTop) }
	x := func(at time.Time) float64 {
		return marginLeft + (a.width-marginLeft-marginRight)*at.Sub(a.start).Seconds()/a.end.Sub(a.start).Seconds()
	}
	for value := 0.0; value <= top*1.001; value += step {
		fmt.Fprintf(out, `<path d="M%d %.1fH%g" stroke="#2c2f36"/>`, marginLeft, y(value), a.width-marginRight)
		fmt.Fprintf(out, `<text x="%d" y="%.1f" text-anchor="end" class="s">%s</text>`, marginLeft-6, y(value)+4, format(panel.FieldConfig.Defaults.Unit, value, step))
	}
	every := niceTime(a.end.Sub(a.start) / timeTicks)
	for at := a.start; !at.After(a.end); at = at.Add(every) {
		fmt.Fprintf(out, `<text x="%.1f" y="%.1f" text-anchor="middle" class="s">%s</text>`, x(at), bottom+15, clockTime(at.Sub(a.start)))
	}
	for i, s := range series {
		color := colors[i]
		for _, line := range lines(s.Points, x, y) {
			fmt.Fprintf(out, `<path d="%s" fill="none" stroke="%s" stroke-width="1.8" stroke-linejoin="round"/>`, line.path, color)
			fmt.Fprintf(out, `<path d="%sV%.1fH%.1fZ" fill="%s" fill-opacity="0.1"/>`, line.path, bottom, line.from, color)
		}
	}
	for i, row := range rows {
		drawLegend(out, row, bottom+timeHeight+legendHeight*(float64(i)+0.8))
	}
}

// colorsOf returns the colors that the panel gives its series by name, and those of the palette in turn for the others.
func colorsOf(panel *dashboards.Panel, series []Series) []string {
	colors := make([]string, len(series))
	for i, s := range series {
		if colors[i] = named[panel.Color(s.Name)]; colors[i] == "" {
			colors[i] = palette[i%len(palette)]
		}
	}
	return colors
}

// entry is a name below a graph.
type entry struct {
	x           float64
	color, name string
}

// legend lays the names out in rows.
func legend(series []Series, colors []string, width float64) [][]entry {
	rows, x := [][]entry{nil}, 12.0
	for i, s := range series {
		needed := 26 + letterWidth*float64(len(s.Name))
		if x > 12 && x+needed > width {
			rows, x = append(rows, nil), 12
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], entry{x, colors[i], s.Name})
		x += needed
	}
	return rows
}

func drawLegend(out *strings.Builder, row []entry, y float64) {
	for _, e := range row {
		fmt.Fprintf(out, `<rect x="%.0f" y="%.1f" width="12" height="4" rx="2" fill="%s"/><text x="%.0f" y="%.1f" class="s">%s</text>`,
			e.x, y-5, e.color, e.x+16, y, html.EscapeString(e.name))
	}
}

// line is an unbroken part of a series.
type line struct {
	path string
	from float64
}

// lines returns the parts between missing values. A point with the same value as both neighbors is left out, because most of a
// graph of counts is level.
func lines(points []Point, x func(time.Time) float64, y func(float64) float64) []line {
	var found []line
	for start := 0; start < len(points); {
		end := start
		for end < len(points) && !math.IsNaN(points[end].Value) && !math.IsInf(points[end].Value, 0) {
			end++
		}
		if end-start > 1 {
			found = append(found, line{path(points[start:end], x, y), x(points[start].At)})
		}
		start = end + 1
	}
	return found
}

func path(points []Point, x func(time.Time) float64, y func(float64) float64) string {
	out := &strings.Builder{}
	for i, p := range points {
		if i > 0 && i < len(points)-1 && points[i-1].Value == p.Value && p.Value == points[i+1].Value {
			continue
		}
		command := "L"
		if i == 0 {
			command = "M"
		}
		fmt.Fprintf(out, "%s%.1f %.1f", command, x(p.At), y(p.Value))
	}
	return out.String()
}

// highest returns the greatest value of all series, at least 0.
func highest(series []Series) float64 {
	top := 0.0
	for _, s := range series {
		for _, p := range s.Points {
			if !math.IsNaN(p.Value) && !math.IsInf(p.Value, 0) {
				top = math.Max(top, p.Value)
			}
		}
	}
	return top
}
