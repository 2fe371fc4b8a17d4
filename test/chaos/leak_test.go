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

// metricsPort is the managers' metrics port in the rig's chart values.
const metricsPort = 8080

// mostGoroutines bounds the goroutines of an idle manager. It has 260 to 330: for watches and workers, and two for each
// connection that is kept open for a while. A run makes some thousand calls, so that a goroutine left behind by even a
// part of them would exceed the bound.
const mostGoroutines = 450

// checkGoroutines checks that managers keep no goroutine that served a job or a fault. Nothing else is left at this
// point. Listeners are not checked: their tests run in synctest bubbles, which fail if a goroutine is left.
func (w *world) checkGoroutines() {
	w.t.Helper()
	for _, pod := range w.observer.managerPods() {
		var count float64
		var err error
		// What the last calls leave, such as a connection that is no longer used, ends within 90 s. A leak doesn't.
		if !w.await(leftoverTime, func() bool {
			count, err = w.metric(pod, "go_goroutines")
			return err == nil && count <= mostGoroutines
		}) {
			w.errorf("%.0f goroutines in %s, which is idle: %v", count, pod, err)
		}
		w.logf("%.0f goroutines in %s", count, pod.Name)
	}
}

// leader returns the managers that report to be the leader: one, or none between two leaders.
func (w *world) leader(managers []types.NamespacedName) []types.NamespacedName {
	return slices.DeleteFunc(slices.Clone(managers), func(pod types.NamespacedName) bool {
		leads, err := w.metric(pod, "leader_election_master_status")
		return err != nil || leads == 0
	})
}

// metric returns the first value of a manager's metric, whatever its labels.
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
