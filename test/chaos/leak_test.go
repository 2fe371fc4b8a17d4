package chaos

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
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
		count, err := w.goroutines(pod)
		if err != nil {
			w.t.Errorf("metrics of %s: %v", pod, err)
			continue
		}
		w.logf("%d goroutines in %s", count, pod.Name)
		if count > mostGoroutines {
			w.t.Errorf("%d goroutines in %s, which has nothing to do", count, pod)
		}
	}
}

// goroutines reads how many a program has from its metrics.
func (w *world) goroutines(pod types.NamespacedName) (int, error) {
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
		if value, found := strings.CutPrefix(lines.Text(), "go_goroutines "); found {
			return strconv.Atoi(value)
		}
	}
	return 0, fmt.Errorf("%s has no metric go_goroutines", address)
}
