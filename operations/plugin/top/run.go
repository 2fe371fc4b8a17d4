package top

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/output"
)

// Options select the sets that are shown, and the form of the answer.
type Options struct {
	// Namespace is that of the sets, empty for all namespaces.
	Namespace string
	// Once: the first table is the only one.
	Once bool
	// Format is output.Text or output.JSON, and Order one of Orders.
	Format, Order string
	// Screen has the table redrawn in place; nil: lines are added to the output.
	Screen Screen
}

// A table changes each tick at most: a burst would change it hundreds of times a second.
const tick = 500 * time.Millisecond

// Run shows the sets until the context ends or the user leaves the screen, or a single time if options say so. It fails
// if the sets can't be read at first.
func Run(ctx context.Context, c client.WithWatch, options Options, to io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	v, feeds, err := open(ctx, c, options.Namespace)
	if err != nil {
		return err
	}
	if options.Once {
		return once(v, options, to)
	}
	ended := make(chan struct{}, len(feeds))
	for _, f := range feeds {
		go func() { f.run(ctx); ended <- struct{}{} }()
	}
	err = live(ctx, v, options, to)
	stop()
	for range feeds {
		<-ended
	}
	return err
}

// document is the answer as JSON.
type document struct {
	Sets []Row `json:"scaleSets"`
	// Waiting are the jobs that have waited longest.
	Waiting []Waiting `json:"waiting,omitempty"`
	// Unread are the kinds that could not be read, with the reason.
	Unread map[string]string `json:"notRead,omitempty"`
}

func once(v *view, options Options, to io.Writer) error {
	now := v.now(options.Order)
	if options.Format == output.JSON {
		answer := document{Sets: append([]Row{}, now.rows...), Waiting: now.waiting, Unread: map[string]string{}}
		for kind, failed := range now.unread {
			answer.Unread[kind] = output.Clean(failed.err.Error())
		}
		return output.WriteJSON(to, answer, true)
	}
	_, err := io.WriteString(to, strings.Join(page(&now, options, 0, 0), "\n")+"\n")
	return err
}

// page returns the tables and what there is to say about them, in so many columns and lines; 0 is any number. Where lines
// are few, jobs that wait give way to scale sets.
func page(now *state, options Options, width, height int) []string {
	var notes []string
	for _, line := range told(now.unread) {
		notes = append(notes, output.Clean(line))
	}
	rows := now.rows
	if len(rows) == 0 {
		where := "in any namespace"
		if options.Namespace != "" {
			where = "in namespace " + options.Namespace + "; -A shows those of all namespaces"
		}
		return append(notes, "There is no scale set "+where+".")
	}
	shown := rows
	if room := height - len(notes) - 1; height > 0 && len(rows) > room {
		shown = rows[:max(0, room-1)]
	}
	layout := layout(shown, options.Namespace == "", width)
	lines := append(notes, layout.header())
	for i := range shown {
		lines = append(lines, layout.row(&shown[i]))
	}
	if more := len(rows) - len(shown); more > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more: make the window higher, or use -n NAMESPACE", more))
	}
	if waiting := waitingLines(now.waiting, now.at); height == 0 || len(lines)+3 <= height {
		if height > 0 {
			waiting = waiting[:min(len(waiting), height-len(lines))]
		}
		lines = append(lines, waiting...)
	}
	if width > 0 {
		for i := range lines {
			lines[i] = output.Cut(lines[i], width)
		}
	}
	return lines
}

// live shows the view at each tick, if it has changed.
func live(ctx context.Context, v *view, options Options, to io.Writer) error {
	show := (&lines{options: options, to: to, last: map[string]Row{}}).show
	keys := (<-chan struct{})(nil)
	if options.Screen != nil && options.Format != output.JSON {
		quit, leave, err := options.Screen.Enter()
		if err != nil {
			return fmt.Errorf("take over the terminal: %w", err)
		}
		defer leave()
		keys, show = quit, (&frames{options: options, to: to}).show
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		if err := show(new(v.now(options.Order))); err != nil {
			return fmt.Errorf("show the scale sets: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-keys:
			return nil
		case <-ticker.C:
		}
	}
}

// lines adds a line, or a line of JSON, for each set that has changed.
type lines struct {
	options Options
	to      io.Writer
	last    map[string]Row
	notes   string
	layout  *table
}

func (l *lines) show(s *state) error {
	rows := s.rows
	var text strings.Builder
	if notes := strings.Join(told(s.unread), "\n"); notes != l.notes && l.options.Format != output.JSON {
		l.notes = notes
		for _, line := range told(s.unread) {
			text.WriteString(output.Clean(line) + "\n")
		}
	}
	if l.layout == nil && len(rows) > 0 && l.options.Format != output.JSON {
		l.layout = layout(rows, l.options.Namespace == "", 0) // a later line may be longer; what was printed stays
		text.WriteString(l.layout.header() + "\n")
	}
	now := map[string]Row{}
	for i := range rows {
		row := &rows[i]
		key := row.Namespace + "/" + row.Name
		now[key] = *row
		if before, known := l.last[key]; known && same(&before, row) {
			continue
		}
		if l.options.Format != output.JSON {
			text.WriteString(l.layout.row(row) + "\n")
		} else if err := output.WriteJSON(&text, row, false); err != nil {
			return err
		}
	}
	l.last = now
	_, err := io.WriteString(l.to, text.String())
	return err
}

// same reports whether two rows say the same.
func same(a, b *Row) bool {
	maxA, maxB := a.Max, b.Max
	first, second := *a, *b
	first.Max, second.Max = nil, nil
	return first == second && (maxA == nil) == (maxB == nil) && (maxA == nil || *maxA == *maxB)
}

// frames redraws the screen.
type frames struct {
	options Options
	to      io.Writer
	last    string
}

func (f *frames) show(s *state) error {
	width, height := f.options.Screen.Size()
	head := output.Cut(sum(s.rows)+"; q quits", width)
	frame := drawn(append([]string{head, ""}, page(s, f.options, width, height-2)...))
	if frame == f.last {
		return nil
	}
	f.last = frame
	_, err := io.WriteString(f.to, frame)
	return err
}

// sum returns the rows' figures in one line.
func sum(rows []Row) string {
	var busy, jobs, waiting, limited int
	for i := range rows {
		busy, jobs, waiting = busy+rows[i].Busy, jobs+rows[i].Jobs, waiting+rows[i].Waiting
		if rows[i].Reason != "" {
			limited++
		}
	}
	return fmt.Sprintf("scale sets %d, limited %d; jobs assigned %d, waiting %d; busy runners %d", len(rows), limited,
		jobs, waiting, busy)
}
