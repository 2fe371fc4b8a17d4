// Package picture draws a dashboard as SVG from a Prometheus' answers to its queries, with Grafana's layout. test/scrape draws
// the pictures in docs/images with it. It stands in for Grafana, which Debian does not package and which is a lot to run for a
// few pictures.
package picture

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/hack/dashboards"
)

// Point is a value at a time. NaN means that there is none.
type Point struct {
	At    time.Time
	Value float64
}

// Series is one line.
type Series struct {
	Name   string
	Points []Point
}

// Data has the series of each panel, by the panel's ID.
type Data map[int][]Series

// Grafana's grid in pixels, at a width of 1,200: 24 columns of 50, rows of 32, 8 between panels, and the title above.
const (
	columnWidth = 50
	rowHeight   = 32
	gap         = 8
	titleHeight = 48
)

const style = `<style>text{font-family:Inter,Helvetica,Arial,sans-serif;fill:#ccccdc}.s{font-size:11px;fill:#9a9aa8}</style>`

// Draw draws the board for the time from start to end.
func Draw(board *dashboards.Board, data Data, start, end time.Time) []byte {
	rows := 0
	for i := range board.Panels {
		rows = max(rows, board.Panels[i].GridPos.Y+board.Panels[i].GridPos.H)
	}
	width, height := 24*columnWidth, titleHeight+rows*rowHeight
	out := &strings.Builder{}
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s">%s`, width, height, html.EscapeString(board.Title), style)
	fmt.Fprintf(out, `<rect width="%d" height="%d" fill="#111217"/>`, width, height)
	text(out, gap, 31, `font-size="18" font-weight="600"`, board.Title)
	fmt.Fprintf(out, `<text x="%d" y="31" text-anchor="end" class="s">%s</text>`, width-gap, html.EscapeString(board.Description))
	for i := range board.Panels {
		drawPanel(out, &board.Panels[i], data[board.Panels[i].ID], start, end)
	}
	out.WriteString("</svg>\n")
	return []byte(out.String())
}

func drawPanel(out *strings.Builder, panel *dashboards.Panel, series []Series, start, end time.Time) {
	series = withValues(series)
	at := panel.GridPos
	width, height := float64(at.W*columnWidth-gap), float64(at.H*rowHeight-gap)
	fmt.Fprintf(out, `<g transform="translate(%d %d)">`, at.X*columnWidth+gap/2, titleHeight+at.Y*rowHeight)
	fmt.Fprintf(out, `<rect width="%g" height="%g" rx="3" fill="#181b1f" stroke="#2a2d33"/>`, width, height)
	text(out, 10, 20, `font-size="13" font-weight="600"`, panel.Title)
	switch {
	case len(series) == 0:
		text(out, width/2, height/2+6, `font-size="14" text-anchor="middle" fill-opacity="0.6"`, "No data")
	case panel.Type == "stat":
		drawFigures(out, panel, series, width, height)
	default:
		drawGraph(out, panel, series, area{width: width, height: height, start: start, end: end})
	}
	out.WriteString("</g>\n")
}

// drawFigures shows the last value of each series.
func drawFigures(out *strings.Builder, panel *dashboards.Panel, series []Series, width, height float64) {
	share := width / float64(len(series))
	for i, s := range series {
		value, middle := lastValue(s), share*(float64(i)+0.5)
		shown, color := figure(&panel.FieldConfig.Defaults, value)
		fmt.Fprintf(out, `<text x="%.0f" y="%.0f" font-size="36" font-weight="600" text-anchor="middle" style="fill:%s">%s</text>`,
			middle, height/2+20, color, html.EscapeString(shown))
		if len(series) > 1 {
			fmt.Fprintf(out, `<text x="%.0f" y="%.0f" text-anchor="middle" class="s">%s</text>`, middle, height-12, html.EscapeString(s.Name))
		}
	}
}

// named has Grafana's colors by the names that dashboards use.
var named = map[string]string{
	"green": "#73bf69", "red": "#f2495c", "orange": "#ff9830", "blue": "#5794f2", "yellow": "#f2cc0c", "purple": "#b877d9", "text": "#ccccdc",
}

// figure returns how a value is written, by a mapping or its unit, and its color.
func figure(field *dashboards.Field, value float64) (shown, color string) {
	for _, step := range field.Thresholds.Steps {
		if step.Value == nil || value >= *step.Value {
			color = named[step.Color]
		}
	}
	for _, mapping := range field.Mappings {
		if as, ok := mapping.Options[fmt.Sprint(value)]; ok {
			return as.Text, named[as.Color]
		}
	}
	return format(field.Unit, value, math.Abs(value)/100), color
}

// withValues leaves out series that have nothing to show.
func withValues(series []Series) []Series {
	return slices.DeleteFunc(slices.Clone(series), func(s Series) bool { return math.IsNaN(lastValue(s)) })
}

// lastValue returns the last value of a series, NaN if there is none.
func lastValue(s Series) float64 {
	for i := len(s.Points) - 1; i >= 0; i-- {
		if v := s.Points[i].Value; !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v
		}
	}
	return math.NaN()
}

func text(out *strings.Builder, x, y float64, attributes, content string) {
	fmt.Fprintf(out, `<text x="%.0f" y="%.0f" %s>%s</text>`, x, y, attributes, html.EscapeString(content))
}
