package fleet

import (
	"fmt"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/test/rig"
)

// figures has the resources and requests of both programs up to a moment.
type figures struct {
	at                time.Time
	requests          rig.Requests
	gitHub, polls     int
	manager, listener rig.Usage
}

func (f *fleet) figures() figures {
	f.t.Helper()
	now := figures{
		at: time.Now(), requests: f.rig.Requests(),
		manager: f.rig.Usage(rig.ManagerProgram), listener: f.rig.Usage(rig.ListenerProgram),
	}
	for _, counter := range f.rig.GitHub.Counters() {
		switch {
		case counter.Endpoint == "get-message":
			now.polls += counter.Count
		case !strings.HasPrefix(counter.Endpoint, "simulated-runner/"):
			now.gitHub += counter.Count
		}
	}
	return now
}

// period has the differences between two moments.
type period struct {
	minutes       float64
	requests      rig.Requests
	gitHub, polls int
	// managerCPU and listenerCPU are shares of one CPU, listenerCPU for one listener.
	managerCPU, listenerCPU float64
	// manager and listener are the memory of one process at the end, in MiB.
	manager, listener float64
}

func between(before, after figures) period {
	length := after.at.Sub(before.at)
	share := func(earlier, later rig.Usage) float64 {
		return (later.CPU - earlier.CPU).Seconds() / length.Seconds() / float64(max(1, later.Processes))
	}
	memory := func(used rig.Usage) float64 {
		return float64(used.Resident) / float64(max(1, used.Processes)) / (1 << 20)
	}
	return period{
		minutes: length.Minutes(), requests: after.requests.Minus(before.requests),
		gitHub: after.gitHub - before.gitHub, polls: after.polls - before.polls,
		managerCPU: share(before.manager, after.manager), listenerCPU: share(before.listener, after.listener),
		manager: memory(after.manager), listener: memory(after.listener),
	}
}

// reads counts requests that change nothing.
func (p period) reads() (count int) {
	for _, counts := range []map[string]int{p.requests.Manager, p.requests.Listener} {
		for what, times := range counts {
			if strings.HasPrefix(what, "get ") || strings.HasPrefix(what, "list ") {
				count += times
			}
		}
	}
	return count
}

// own counts requests about runners, their Secrets and pods, and not about sets.
func (p period) own() (count int) {
	for _, counts := range []map[string]int{p.requests.Manager, p.requests.Listener} {
		for what, times := range counts {
			switch _, resource, _ := strings.Cut(what, " "); resource {
			case "ephemeralrunners", "ephemeralrunners/status", "pods", "secrets":
				count += times
			}
		}
	}
	return count
}

// perMinute describes the period as rates of all sets together.
func (p period) perMinute() string {
	rate := func(count int) float64 { return float64(count) / p.minutes }
	return fmt.Sprintf("%.0f requests a minute to the API server, %.0f of them reads; %.0f to GitHub and %.0f polls\n"+
		"  manager %.0f MiB, %.1f %% CPU; a listener %.1f MiB, %.3f %% CPU",
		rate(p.requests.Total()), rate(p.reads()), rate(p.gitHub), rate(p.polls),
		p.manager, 100*p.managerCPU, p.listener, 100*p.listenerCPU)
}

// perRunner describes the period's costs per runner.
func (p period) perRunner(runners int) string {
	ratio := func(count int) float64 { return float64(count) / float64(runners) }
	return fmt.Sprintf("per runner %.1f requests to the API server, %.1f of them its own, %.1f of them unserved, and "+
		"%.1f to GitHub\n%s",
		ratio(p.requests.Total()), ratio(p.own()), ratio(p.requests.Unserved), ratio(p.gitHub),
		strings.TrimRight(p.requests.String(), "\n"))
}
