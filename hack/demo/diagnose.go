package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/hack/installation"
	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// diagnoseLimit bounds all questions together, because the cluster may no longer answer.
const diagnoseLimit = 20 * time.Second

// diagnose prints what somebody would look at first after a failure. It leaves out what it can't find out. The caller
// reports the failure itself, at the very end, where it is seen.
func (d *demo) diagnose() {
	if d.site == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), diagnoseLimit)
	defer cancel()
	for _, question := range []struct {
		title     string
		lines     int
		arguments []string
	}{
		{"scale set, listener and runners", 20, []string{
			"get", "autoscalingrunnersets,autoscalinglisteners,ephemeralrunnersets,ephemeralrunners", "-A",
			"--ignore-not-found",
		}},
		{"conditions of the scale set", 20, []string{
			"get", "autoscalingrunnersets", "-n", runnerNamespace, "-o",
			`jsonpath={range .items[*].status.conditions[*]}{.type}={.status} {.reason}: {.message}{"\n"}{end}`,
		}},
		{"pods", 30, []string{"get", "pods", "-A", "-o", "wide"}},
		{"last warnings", 10, []string{
			"get", "events", "-A", "--field-selector=type=Warning", "--sort-by=.lastTimestamp", "--no-headers",
		}},
		{"end of the manager's log", 15, []string{"logs", "-n", site.SystemNamespace, "-l",
			"app.kubernetes.io/component=controller-manager", "--tail=15"}},
		{"end of the listener's log", 15, []string{"logs", "-n", site.SystemNamespace, "-l",
			"app.kubernetes.io/component=runner-scale-set-listener", "--tail=15"}},
	} {
		output, err := d.site.Kubectl(ctx, question.arguments...)
		if err == nil && strings.TrimSpace(output) != "" {
			d.screen.say("\n--- %s\n%s", question.title, tail(output, question.lines))
		}
	}
	d.diagnoseGitHub(ctx)
	if d.site.Logs != "" {
		d.screen.say("\n--- logs of the cluster's components are in %s", d.site.Logs)
	}
}

func (d *demo) diagnoseGitHub(ctx context.Context) {
	if d.site.Control == nil {
		return
	}
	snapshot, err := d.site.Control.Snapshot(ctx)
	if err != nil {
		return
	}
	d.screen.say("\n--- on GitHub: jobs %v; %s", snapshot.JobsByState,
		installation.Shorten(installation.LeftOnGitHub(snapshot, true), 10))
	requests, err := d.site.Control.Requests(ctx)
	if err != nil {
		return
	}
	if lines := refused(requests, 10); len(lines) > 0 {
		d.screen.say("\n--- last requests that GitHub refused\n%s", strings.Join(lines, "\n"))
	}
}

// refused returns the last requests that GitHub answered with an error.
func refused(requests []fakegithub.LogEntry, most int) []string {
	var lines []string
	for _, request := range requests {
		if request.Status >= 400 {
			lines = append(lines, fmt.Sprintf("%s %d %s %s", request.Time.Format(time.TimeOnly), request.Status,
				request.Method, request.Path))
		}
	}
	return lines[max(0, len(lines)-most):]
}

func tail(text string, count int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}
