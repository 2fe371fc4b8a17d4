package chaos

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// metricsPort is the managers' in the rig's charts.
const metricsPort = 8080

// mostGoroutines bounds what a manager that has nothing to do may have: 260 to 330 for watches, workers, and two for each
// connection that is kept for a while. A run makes some thousand calls; one left behind for a part of them would be more.
const mostGoroutines = 450

// checkGoroutines: once nothing is left, no goroutine that served a job or a fault is. The listener's tests run in bubbles
// that fail with what is left in them.
func (w *world) checkGoroutines() {
	w.t.Helper()
	for _, pod := range w.observer.managerPods() {
		var count float64
		var err error
		// What is left of the last calls, such as a connection that nobody uses any more, ends within 90 s; a leak doesn't.
		if !w.await(leftoverTime, func() bool {
			count, err = w.metric(pod, "go_goroutines")
			return err == nil && count <= mostGoroutines
		}) {
			w.errorf("%.0f goroutines in %s, which has nothing to do: %v", count, pod, err)
		}
		w.logf("%.0f goroutines in %s", count, pod.Name)
	}
}

// leader returns the managers that say that they lead: one, or none while nobody does.
func (w *world) leader(managers []types.NamespacedName) []types.NamespacedName {
	return slices.DeleteFunc(slices.Clone(managers), func(pod types.NamespacedName) bool {
		leads, err := w.metric(pod, "leader_election_master_status")
		return err != nil || leads == 0
	})
}

// metric reads the first value of a manager's metric, whatever its labels.
func (w *world) metric(pod types.NamespacedName, name string) (float64, error) {
	address, err := w.rig.Node.Address(pod, metricsPort)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if rest, found := strings.CutPrefix(lines.Text(), name); found && strings.IndexAny(rest, "{ ") == 0 {
			return strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		}
	}
	return 0, fmt.Errorf("%s has no metric %s", address, name)
}
