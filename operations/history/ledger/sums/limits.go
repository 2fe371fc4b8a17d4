package sums

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/operations/history/fold"
	"github.com/harrier-ci/harrier/operations/history/histogram"
	"github.com/harrier-ci/harrier/operations/history/rows"
)

// limit is what a scale set was at while jobs waited: its reason, and its number or -1 if it has none.
type limit struct {
	reason string
	number int64
}

// mostLimits bounds the limits that sums tell apart. A maximum that is changed is another limit.
const mostLimits = 8

func (l limit) compare(other limit) int {
	return cmp.Or(cmp.Compare(l.reason, other.reason), cmp.Compare(l.number, other.number))
}

// limitTime has the seconds that jobs waited at a limit: their sum, and how often there were how many.
type limitTime struct {
	seconds int64
	times   histogram.Histogram
}

// limitTimes are those of each limit.
type limitTimes map[limit]*limitTime

func (l limitTimes) of(at limit) *limitTime {
	if l[at] == nil {
		l[at] = &limitTime{}
	}
	return l[at]
}

// add adds what a job waited at its limit. Whoever may write the status of a set writes its reason, so what is not a word
// counts as fold.Others.
func (l limitTimes) add(job *rows.Job, seconds int64) {
	isWord := strings.IndexFunc(job.LimitedReason, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}) < 0
	at := limit{fold.Others, -1}
	if isWord && job.LimitedReason != "" && len(job.LimitedReason) <= 64 {
		at = limit{job.LimitedReason, ptr.Deref(job.LimitNumber, -1)}
	}
	of := l.of(at)
	of.seconds = plus(of.seconds, seconds)
	of.times.Add(seconds)
	l.fold()
}

func (l limitTimes) include(more limitTimes) {
	for at, time := range more {
		of := l.of(at)
		of.seconds = plus(of.seconds, time.seconds)
		of.times.Include(time.times)
	}
	l.fold()
}

// fold puts the least of too many limits together.
func (l limitTimes) fold() {
	others := limit{fold.Others, -1}
	for len(l) > mostLimits {
		known := slices.DeleteFunc(slices.SortedFunc(maps.Keys(l), limit.compare), func(at limit) bool { return at == others })
		least := slices.MinFunc(known, func(a, b limit) int { return cmp.Compare(l[a].seconds, l[b].seconds) })
		gone := l[least]
		delete(l, least)
		into := l.of(others)
		into.seconds = plus(into.seconds, gone.seconds)
		into.times.Include(gone.times)
	}
}

// String returns REASON/NUMBER/SECONDS=HISTOGRAM of each, with semicolons between them.
func (l limitTimes) String() string {
	var texts []string
	for _, at := range slices.SortedFunc(maps.Keys(l), limit.compare) {
		texts = append(texts, at.reason+"/"+strconv.FormatInt(at.number, 10)+"/"+strconv.FormatInt(l[at].seconds, 10)+"="+
			l[at].times.String())
	}
	return strings.Join(texts, ";")
}

// merge adds those of a text that String has made, and leaves out what isn't.
func (l limitTimes) merge(text string) {
	more := limitTimes{}
	for part := range strings.SplitSeq(text, ";") {
		head, times, _ := strings.Cut(part, "=")
		words := strings.Split(head, "/")
		if len(words) != 3 {
			continue
		}
		number, wrong := strconv.ParseInt(words[1], 10, 64)
		seconds, alsoWrong := strconv.ParseInt(words[2], 10, 64)
		if wrong != nil || alsoWrong != nil || seconds < 0 {
			continue
		}
		of := more.of(limit{words[0], number})
		of.seconds = plus(of.seconds, seconds)
		of.times.Merge(times)
	}
	l.include(more)
}
