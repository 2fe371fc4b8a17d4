// Package histogram counts figures by their size, in few bytes and with limited precision, so that the 95th percentile
// of a million figures can be told from the histograms of the days in which they were seen. A figure counts as the
// upper end of its bucket, which is at most 5 % more than the figure.
package histogram

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Histogram has the number of figures in each bucket. Bucket i ends with growth^i; the figure zero has a bucket of its
// own. The zero value is empty.
type Histogram struct {
	// counts are those of the buckets from first on: the figures of one kind of job lie close together.
	first  int
	counts []int64
}

const (
	growth = 1.05
	// zero is the bucket of figures that are 0 or less.
	zero = -1
	// maxBucket is that of the largest int64: log(2^63) / log(1.05) is 895.03.
	maxBucket = 896
)

// Add counts a figure.
func (h *Histogram) Add(figure int64) {
	if figure <= 0 {
		h.count(zero, 1)
		return
	}
	// The subtrahend is against rounding: 1.05^i belongs to bucket i.
	h.count(int(math.Ceil(math.Log(float64(figure))/math.Log(growth)-1e-9)), 1)
}

func (h *Histogram) count(bucket int, figures int64) {
	if len(h.counts) == 0 {
		h.first = bucket
	}
	if before := h.first - bucket; before > 0 {
		h.counts = slices.Concat(make([]int64, before), h.counts)
		h.first = bucket
	}
	if more := bucket - h.first + 1 - len(h.counts); more > 0 {
		h.counts = append(h.counts, make([]int64, more)...)
	}
	h.counts[bucket-h.first] += figures
}

// Include counts all figures of another histogram.
func (h *Histogram) Include(other Histogram) {
	for i, figures := range other.counts {
		if figures > 0 {
			h.count(other.first+i, figures)
		}
	}
}

// Merge counts all figures of another histogram, in the form that String gives it. It leaves out what it can't read.
func (h *Histogram) Merge(text string) {
	for word := range strings.SplitSeq(text, " ") {
		name, number, _ := strings.Cut(word, ":")
		bucket, err := strconv.Atoi(name)
		figures, wrong := strconv.ParseInt(number, 10, 64)
		if err == nil && wrong == nil && bucket >= zero && bucket <= maxBucket && figures > 0 {
			h.count(bucket, figures)
		}
	}
}

// String returns the histogram as BUCKET:COUNT, with spaces between them.
func (h Histogram) String() string {
	var text []byte
	for i, figures := range h.counts {
		if figures == 0 {
			continue
		}
		if len(text) > 0 {
			text = append(text, ' ')
		}
		text = strconv.AppendInt(text, int64(h.first+i), 10)
		text = append(text, ':')
		text = strconv.AppendInt(text, figures, 10)
	}
	return string(text)
}

// Count returns the number of figures.
func (h Histogram) Count() (all int64) {
	for _, figures := range h.counts {
		all += figures
	}
	return all
}

// Quantile returns the figure that a share of the figures does not exceed, 0 if there are none. Quantile(0.95) is the
// 95th percentile.
func (h Histogram) Quantile(share float64) int64 {
	rank := int64(math.Ceil(share * float64(h.Count())))
	for i, figures := range h.counts {
		if rank -= figures; figures > 0 && rank <= 0 {
			return end(h.first + i)
		}
	}
	return 0
}

// Between returns about the figure that a share of the figures does not exceed, as if those of a bucket were spread evenly
// in it, 0 if there are none. It tells figures apart that Quantile doesn't, to compare them.
func (h Histogram) Between(share float64) float64 {
	rank := share * float64(h.Count())
	for i, figures := range h.counts {
		if figures > 0 && rank <= float64(figures) {
			from, to := float64(0), float64(end(h.first+i))
			if bucket := h.first + i; bucket > zero+1 {
				from = float64(end(bucket - 1))
			}
			return from + (to-from)*rank/float64(figures)
		}
		rank -= float64(figures)
	}
	return 0
}

func end(bucket int) int64 {
	switch {
	case bucket == zero:
		return 0
	case bucket >= maxBucket-1:
		return math.MaxInt64
	}
	return int64(math.Pow(growth, float64(bucket)) + 1e-9) // figures are whole
}

// List is several histograms that are kept in one text.
type List []Histogram

// NewList returns so many empty histograms.
func NewList(number int) List { return make(List, number) }

// String returns the histograms with semicolons between them.
func (l List) String() string {
	texts := make([]string, len(l))
	for i := range l {
		texts[i] = l[i].String()
	}
	return strings.Join(texts, ";")
}

// Include counts all figures of another list that is as long.
func (l List) Include(other List) {
	for i := range other {
		l[i].Include(other[i])
	}
}

// Merge counts all figures of another list, in the form that String gives it. If the other list is longer, it leaves
// out the histograms at its end.
func (l List) Merge(text string) {
	i := 0
	for part := range strings.SplitSeq(text, ";") {
		if i < len(l) {
			l[i].Merge(part)
		}
		i++
	}
}
