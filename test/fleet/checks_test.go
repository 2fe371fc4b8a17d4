package fleet

import (
	"bufio"
	"strconv"
	"strings"

	"k8s.io/client-go/kubernetes"
)

// mostOwn begins with the budget of package load, which lists the requests: a runner has eleven of its own in its life.
// A restarted manager reads each runner's Secret a single time before it deletes it. 0.3 are for requests that are
// repeated after a conflict, or because the manager was killed in between. The number of writes about sets depends on
// the duration of a step.
const mostOwn = 12.3

// checkCosts compares the runners' costs with their budget. One of each set ended in between, and another began.
func (f *fleet) checkCosts(filled, emptied period, jobs int) {
	f.t.Helper()
	unserved := filled.requests.Unserved + emptied.requests.Unserved
	if own := float64(filled.own()+emptied.own()-unserved) / float64(f.all()); own > mostOwn {
		f.t.Errorf("%.2f requests are about a runner itself, at most %.1f are allowed", own, mostOwn)
	}
	requests := f.rig.Requests()
	if created := requests.Created["ephemeralrunners"]; created != jobs {
		f.t.Errorf("%d runners were created for %d jobs", created, jobs)
	}
	if len(requests.Refused) > 0 {
		f.t.Errorf("requests refused by RBAC: %v", requests.Refused)
	}
}

// checkPriority asks the API server whether it has counted requests under the programs' own levels, and refused none.
// On a busy machine some wait too long, although the queues have places.
func (f *fleet) checkPriority() {
	f.t.Helper()
	dispatched := f.requestsByLevel("apiserver_flowcontrol_dispatched_requests_total")
	rejected := f.requestsByLevel("apiserver_flowcontrol_rejected_requests_total")
	f.t.Logf("requests by level: %v, rejected: %v", dispatched, rejected)
	for _, level := range []string{"harrier-gha-rs-controller-urgent", "harrier-gha-rs-controller-manager"} {
		if dispatched[level] == 0 || rejected[level] > 0 {
			f.t.Errorf("level %s: %.0f requests, %.0f rejected; want some and none", level, dispatched[level],
				rejected[level])
		}
	}
}

// requestsByLevel adds a counter of the API server by priority level.
func (f *fleet) requestsByLevel(metric string) map[string]float64 {
	f.t.Helper()
	api, err := kubernetes.NewForConfig(f.rig.Cluster.Config())
	if err != nil {
		f.t.Fatal(err)
	}
	text, err := api.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	counts := map[string]float64{}
	for lines := bufio.NewScanner(strings.NewReader(string(text))); lines.Scan(); {
		labels, isMetric := strings.CutPrefix(lines.Text(), metric+"{")
		_, level, labelled := strings.Cut(labels, `priority_level="`)
		if !isMetric || !labelled || strings.Contains(labels, `reason="time-out"`) {
			continue
		}
		level, _, _ = strings.Cut(level, `"`)
		value, err := strconv.ParseFloat(lines.Text()[strings.LastIndexByte(lines.Text(), ' ')+1:], 64)
		if err != nil {
			f.t.Fatal(err)
		}
		counts[level] += value
	}
	return counts
}
