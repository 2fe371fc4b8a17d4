package failpoints

import (
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// restful is how long nothing is written at rest.
	restful = 90 * time.Second
	// restLimit is how long it may take until then.
	restLimit = 30 * time.Minute
)

// rest lets time pass until nothing has been written for a while, and notes what is said then.
func (w *world) rest() {
	begun, last, quiet := time.Now(), w.effects.sum(), time.Now()
	for time.Since(quiet) < restful {
		<-time.After(5 * time.Second)
		synctest.Wait()
		if now := w.effects.sum(); now != last {
			last, quiet = now, time.Now()
		}
		if time.Since(begun) > restLimit {
			w.violate("no rest within %s: effects go on, the last is %s", restLimit, w.effects.latest())
			return
		}
	}
	w.rests = append(w.rests, w.statements())
}

// statements are the figures and conditions of all statuses of ours, and what stands at GitHub. Those of runners are
// their set's matter.
func (w *world) statements() (said []string) {
	for resource, objects := range w.server.Objects() {
		if resource != "autoscalingrunnersets" && resource != "ephemeralrunnersets" && resource != "autoscalinglisteners" {
			said = append(said, fmt.Sprintf("%d %s", len(objects), resource))
			continue
		}
		for _, object := range objects {
			for _, statement := range statementsOf(object) {
				said = append(said, resource+" "+statement)
			}
		}
	}
	said = slices.DeleteFunc(said, func(text string) bool { return strings.HasSuffix(text, " events") })
	seen := w.github.Snapshot()
	said = append(said, fmt.Sprintf("%d scale sets, %d registrations, %d sessions at GitHub",
		len(seen.ScaleSets), len(seen.Runners), len(seen.Sessions)))
	if w.ledger != "" {
		said = append(said, w.written()...)
	}
	slices.Sort(said)
	return said
}

func statementsOf(object *unstructured.Unstructured) (said []string) {
	status, _ := object.Object["status"].(map[string]any)
	for field, value := range status {
		switch value := value.(type) {
		case int64:
			if value != 0 && field != "observedGeneration" && !strings.HasSuffix(field, "Id") {
				said = append(said, fmt.Sprintf("%s=%d", field, value))
			}
		case string:
			if field == "phase" || field == "limitedBy" {
				said = append(said, field+"="+value)
			}
		}
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		// What is False and what isn't there are one to whoever reads it: a condition of trouble stays as that.
		if condition, ok := c.(map[string]any); ok && condition["status"] != "False" {
			said = append(said, fmt.Sprintf("%s=%s %s", condition["type"], condition["status"], condition["reason"]))
		}
	}
	return said
}
