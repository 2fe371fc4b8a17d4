package load

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
)

// Spread tells how long something took over all jobs, in seconds.
type Spread struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// String returns one line of a table.
func (s Spread) String() string {
	return fmt.Sprintf("p50 %6.2f   p90 %6.2f   p99 %6.2f   max %6.2f s", s.P50, s.P90, s.P99, s.Max)
}

// spreadOf sorts the durations. A percentile is the smallest duration that so many of them don't exceed.
func spreadOf(durations []time.Duration) Spread {
	if len(durations) == 0 {
		return Spread{}
	}
	slices.Sort(durations)
	at := func(percent float64) float64 {
		rank := int(math.Ceil(percent / 100 * float64(len(durations))))
		return seconds(durations[max(0, rank-1)])
	}
	return Spread{Count: len(durations), P50: at(50), P90: at(90), P99: at(99), Max: at(100)}
}

// seconds rounds to milliseconds, which is finer than what is measured.
func seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// podTimes are when the API server had created pods, heard the last of them from their node, and removed them, by name.
type podTimes struct{ created, told, gone map[string]time.Time }

// podTimesOf reads them from the audit log. Only nodes write a pod's status. The last deletion that was carried out is the one
// that removed the pod: the one before it began the grace period.
func podTimesOf(events []testkube.AuditEvent) podTimes {
	times := podTimes{created: map[string]time.Time{}, told: map[string]time.Time{}, gone: map[string]time.Time{}}
	moments := map[string]map[string]time.Time{"create ": times.created, "patch status": times.told, "delete ": times.gone}
	for _, event := range events {
		done := event.Response.Code == http.StatusOK || event.Response.Code == http.StatusCreated
		if of := moments[event.Verb+" "+event.Object.Subresource]; of != nil && done && event.Object.Resource == "pods" {
			of[event.Object.Name] = event.Answered
		}
	}
	return times
}

// since collects, over the jobs, how long after the job's own moment the moment of its runner's pod was.
func since(jobs []fakegithub.Job, from func(fakegithub.Job) time.Time, pods map[string]time.Time) []time.Duration {
	var durations []time.Duration
	for _, job := range jobs {
		if at, known := pods[job.Runner]; known && !from(job).IsZero() {
			durations = append(durations, at.Sub(from(job)))
		}
	}
	return durations
}

// toldOf is when the node had said the last of the job's pod, which is that it has ended.
func (p podTimes) toldOf(job fakegithub.Job) time.Time { return p.told[job.Runner] }

func queued(job fakegithub.Job) time.Time    { return job.QueuedAt }
func completed(job fakegithub.Job) time.Time { return job.CompletedAt }

// latest returns the last of the moments.
func latest[K comparable](moments map[K]time.Time) (last time.Time) {
	for _, moment := range moments {
		if moment.After(last) {
			last = moment
		}
	}
	return last
}
