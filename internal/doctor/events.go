package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

const (
	// recently is how old a warning may be to be reported.
	recently = 15 * time.Minute
	// eventsAtMost is how many warnings are read per namespace. More would take longer without adding much.
	eventsAtMost = 1000
	// eventType is the field by which the API server selects warnings.
	eventType = "type"
)

// warnings reads the Warning Events of a namespace.
func (g *gathering) warnings(ctx context.Context, namespace string) []corev1.Event {
	list := &corev1.EventList{}
	g.read(ctx, list, "Events", client.InNamespace(namespace), client.Limit(eventsAtMost), client.MatchingFields{eventType: corev1.EventTypeWarning})
	return list.Items
}

// concerned returns the Events about the set, its runners and their pods.
func (s *Set) concerned(events []corev1.Event) (found []corev1.Event) {
	for i := range events {
		if s.concerns(events[i].InvolvedObject) {
			found = append(found, events[i])
		}
	}
	return found
}

// concerns reports whether an object is the set, a runner of one of its EphemeralRunnerSets, or the pod of such a runner. The set's
// own name is not enough: runners of linux-large are not those of linux.
func (s *Set) concerns(object corev1.ObjectReference) bool {
	switch object.Kind {
	case "AutoscalingRunnerSet":
		return object.Name == s.Name
	case "EphemeralRunner", "Pod":
		return s.named(object.Name)
	}
	return false
}

// named reports whether a name begins as those of the set's runners do.
func (s *Set) named(name string) bool {
	return slices.ContainsFunc(s.RunnerSets, func(set v1alpha1.EphemeralRunnerSet) bool {
		return kube.IsRunnerName(set.Name, name)
	})
}

// lastSeen returns when an Event last occurred. Reporters fill different fields.
func lastSeen(event *corev1.Event) time.Time {
	last := event.LastTimestamp.Time
	if event.EventTime.After(last) {
		last = event.EventTime.Time
	}
	if event.Series != nil && event.Series.LastObservedTime.After(last) {
		last = event.Series.LastObservedTime.Time
	}
	return last
}

// checkEvents reports recent warnings that no other finding covers: what went wrong lately and may happen again.
func checkEvents(s *Set) []Finding {
	reasons, latest := map[string]*tally{}, map[string]time.Time{}
	for i := range s.Warnings {
		event := &s.Warnings[i]
		at := lastSeen(event)
		if s.Now.Sub(at) > recently || rejectsJobPod(event) {
			continue
		}
		add(reasons, event.Reason, event.InvolvedObject.Kind+" "+event.InvolvedObject.Name, event.Message)
		if at.After(latest[event.Reason]) {
			latest[event.Reason] = at
			reasons[event.Reason].example, reasons[event.Reason].message = event.InvolvedObject.Kind+" "+event.InvolvedObject.Name, event.Message
		}
	}
	var findings []Finding
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		t := reasons[reason]
		findings = append(findings, s.finding(Info, reason, fmt.Sprintf("%s in the last %d minutes, the last %s ago on %s: %s",
			counted(t.count, "warning", "warnings"), int(recently.Minutes()), s.Now.Sub(latest[reason]).Round(time.Second), t.example, t.message),
			"nothing, unless it happens again; run kubectl describe on the object to see its Events"))
	}
	return findings
}

// counted returns a number with its noun.
func counted(count int, one, more string) string {
	if count == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", count, more)
}
