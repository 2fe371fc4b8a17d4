package load

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
)

// Spread is the distribution of a duration over all jobs, in seconds.
type Spread struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// String returns the value of a table row.
func (s Spread) String() string {
	return fmt.Sprintf("p50 %6.2f   p90 %6.2f   p99 %6.2f   max %6.2f s", s.P50, s.P90, s.P99, s.Max)
}

// spreadOf computes percentiles by nearest rank: the smallest duration that at least that share of all does not exceed.
// It sorts durations in place.
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

// seconds rounds to milliseconds, which is more precise than the measurements.
func seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// podTimes has moments of a pod at the API server: its creation, the listener's first report about its job, the mark
// after it that the runner is busy, the node's last report, and the removal.
type podTimes struct{ created, reported, marked, told, gone time.Time }

// podTimesOf reads the times of pods from the audit log, by name. There is more than one pod of a name, because names
// repeat among thousands of runners. Only nodes write a pod's status. The last successful deletion is the one that
// removed the pod; the one before it began the grace period.
func podTimesOf(events []testkube.AuditEvent) map[string][]*podTimes {
	pods := map[string][]*podTimes{}
	for _, event := range events {
		done := event.Response.Code == http.StatusOK || event.Response.Code == http.StatusCreated
		if done && !event.DryRun() && (event.Object.Resource == "pods" || reportsJob(event)) {
			pods[event.Object.Name] = note(pods[event.Object.Name], event)
		}
	}
	return pods
}

// reportsJob reports whether a listener has written about a runner's job.
func reportsJob(event testkube.AuditEvent) bool {
	return event.Object.Resource == "ephemeralrunners" && event.Object.Subresource == "status" &&
		strings.HasSuffix(event.User.Username, "-listener")
}

// note adds an event to the latest of the pods with a name.
func note(pods []*podTimes, event testkube.AuditEvent) []*podTimes {
	request := event.Verb + " " + event.Object.Subresource
	if request == "create " {
		return append(pods, &podTimes{created: event.Answered})
	}
	if len(pods) == 0 {
		return nil
	}
	last := pods[len(pods)-1]
	if reportsJob(event) {
		last.reported = cmp.Or(last.reported, event.Answered)
		return pods
	}
	switch request {
	case "patch ":
		if !last.reported.IsZero() {
			last.marked = cmp.Or(last.marked, event.Answered)
		}
	case "patch status":
		last.told = event.Answered
	case "delete ":
		last.gone = event.Answered
	}
	return pods
}

// life is a job with the pod that it ran in.
type life struct {
	fakegithub.Job
	pod *podTimes
}

// livesOf returns the jobs with their pods, without jobs of unknown pods. A job ran in the last pod of its runner's
// name that was created before the job's end.
func livesOf(jobs []fakegithub.Job, pods map[string][]*podTimes) []life {
	var lives []life
	for _, job := range jobs {
		for _, pod := range slices.Backward(pods[job.Runner]) {
			if pod.created.Before(job.CompletedAt) {
				lives = append(lives, life{Job: job, pod: pod})
				break
			}
		}
	}
	return lives
}

type moment func(life) time.Time

func queued(l life) time.Time    { return l.QueuedAt }
func completed(l life) time.Time { return l.CompletedAt }
func created(l life) time.Time   { return l.pod.created }
func reported(l life) time.Time  { return l.pod.reported }
func marked(l life) time.Time    { return l.pod.marked }

// told returns the time of the node's last report about the pod, namely that it has ended.
func told(l life) time.Time { return l.pod.told }
func gone(l life) time.Time { return l.pod.gone }

// between returns the durations from one moment to another, for lives that have both.
func between(lives []life, from, to moment) []time.Duration {
	var durations []time.Duration
	for _, l := range lives {
		if !from(l).IsZero() && !to(l).IsZero() {
			durations = append(durations, to(l).Sub(from(l)))
		}
	}
	return durations
}

// latest returns the last of the moments, zero without any.
func latest(lives []life, of moment) (last time.Time) {
	for _, l := range lives {
		if at := of(l); at.After(last) {
			last = at
		}
	}
	return last
}
