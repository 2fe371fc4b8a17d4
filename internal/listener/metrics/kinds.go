package metrics

import (
	"container/list"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Whoever writes workflows names jobs, workflows and branches, and a matrix or an expression makes a new name for each
// job. So a metric of jobs has series for the kinds of jobs that ran last, and not for all that ever ran.
const (
	// maxKinds are the kinds of a metric, that is combinations of its labels' values. With ARC's 46 buckets and 300
	// bytes for a line, a histogram of so many is a scrape of 15 MB.
	maxKinds = 1000
	// maxBuckets is twice what ARC's histograms have.
	maxBuckets = 100
)

// kinds are the kinds of jobs for which a metric has series, those that were used last at the end.
type kinds struct {
	mu    sync.Mutex
	order list.List
	at    map[string]*list.Element
}

// use notes that the metric has series with these labels, and ends those that were not used for the longest time if
// there are too many.
func (k *kinds) use(labels prometheus.Labels, of interface{ Delete(prometheus.Labels) bool }) {
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&key, "%q,", labels[name])
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if known, ok := k.at[key.String()]; ok {
		k.order.MoveToBack(known)
		return
	}
	if k.at == nil {
		k.at = map[string]*list.Element{}
	}
	k.at[key.String()] = k.order.PushBack(kind{key.String(), labels})
	if k.order.Len() > maxKinds {
		ended := k.order.Remove(k.order.Front()).(kind)
		delete(k.at, ended.key)
		of.Delete(ended.labels)
	}
}

// kind is a combination of values, and its key.
type kind struct {
	key    string
	labels prometheus.Labels
}
