package top

import (
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// setWith returns a set that works, with so many busy runners of so many assigned jobs, and changes.
func setWith(namespace, name string, busy, assigned int,
	changes ...func(*v1alpha1.AutoscalingRunnerSet)) *v1alpha1.AutoscalingRunnerSet {
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	set.Spec.GitHubConfigUrl = "https://github.com/acme"
	set.Status.BusyRunners, set.Status.AssignedJobs = busy, assigned
	for _, about := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionScaleSetRegistered,
		v1alpha1.ConditionCredentialsValid, v1alpha1.ConditionListenerReady} {
		condition(about, metav1.ConditionTrue, "Fine", "")(set)
	}
	for _, change := range changes {
		change(set)
	}
	return set
}

func condition(about string, status metav1.ConditionStatus, reason,
	message string) func(*v1alpha1.AutoscalingRunnerSet) {
	return func(set *v1alpha1.AutoscalingRunnerSet) {
		set.Status.Conditions = append(set.Status.Conditions,
			metav1.Condition{Type: about, Status: status, Reason: reason, Message: message})
	}
}

func atMost(most int) func(*v1alpha1.AutoscalingRunnerSet) {
	return func(set *v1alpha1.AutoscalingRunnerSet) {
		set.Spec.MaxRunners, set.Status.EffectiveMaxRunners = &most, &most
	}
}

// runnerSetOf returns the runner set of a set.
func runnerSetOf(set *v1alpha1.AutoscalingRunnerSet) v1alpha1.EphemeralRunnerSet {
	runnerSet := v1alpha1.EphemeralRunnerSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: set.Namespace, Name: set.Name + "-x", Labels: map[string]string{v1alpha1.LabelScaleSetName: set.Name,
			v1alpha1.LabelScaleSetNamespace: set.Namespace},
	}}
	runnerSet.Spec.AssignedJobs, runnerSet.Spec.MaxRunners = set.Status.AssignedJobs, set.Spec.MaxRunners
	return runnerSet
}

// A row says in a few words what limits the set: what the doctor would say first.
func TestWhyNotMore(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	for name, test := range map[string]struct {
		busy, assigned int
		changes        []func(*v1alpha1.AutoscalingRunnerSet)
		why, reason    string
	}{
		"nothing":     {busy: 1, assigned: 3, changes: []func(*v1alpha1.AutoscalingRunnerSet){atMost(10)}},
		"its maximum": {busy: 4, assigned: 4, changes: []func(*v1alpha1.AutoscalingRunnerSet){atMost(4)}, why: "at maxRunners", reason: "MaxRunnersReached"},
		"a drain": {changes: []func(*v1alpha1.AutoscalingRunnerSet){func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Annotations = map[string]string{"actions.github.com/drained": "true"}
		}}, why: "drained", reason: "Drained"},
		"a maximum of 0":  {changes: []func(*v1alpha1.AutoscalingRunnerSet){atMost(0)}, why: "maxRunners is 0", reason: "MaxRunnersZero"},
		"no node":         {assigned: 2, changes: []func(*v1alpha1.AutoscalingRunnerSet){condition("RunnersPending", yes, "Unschedulable", "0/3 nodes")}, why: "no node with room", reason: "Unschedulable"},
		"a quota":         {assigned: 2, changes: []func(*v1alpha1.AutoscalingRunnerSet){condition("QuotaExceeded", yes, "QuotaExceeded", "cpu")}, why: "quota used up", reason: "QuotaExceeded"},
		"an image":        {assigned: 2, changes: []func(*v1alpha1.AutoscalingRunnerSet){condition("Degraded", yes, "ImagePullBackOff", "")}, why: "image can't be pulled", reason: "ImagePullBackOff"},
		"credentials":     {changes: []func(*v1alpha1.AutoscalingRunnerSet){func(s *v1alpha1.AutoscalingRunnerSet) { s.Status.Conditions = nil }, condition("CredentialsValid", no, "Unauthorized", "401")}, why: "unauthorized", reason: "Unauthorized"},
		"another session": {changes: []func(*v1alpha1.AutoscalingRunnerSet){func(s *v1alpha1.AutoscalingRunnerSet) { s.Status.Conditions = s.Status.Conditions[:2] }, condition("ListenerReady", no, "SessionConflict", "")}, why: "session conflict", reason: "SessionConflict"},
		"no manager":      {changes: []func(*v1alpha1.AutoscalingRunnerSet){func(s *v1alpha1.AutoscalingRunnerSet) { s.Generation = 2 }}, why: "no manager acts", reason: "NotReconciled"},
		"a problem first": {busy: 4, assigned: 4, changes: []func(*v1alpha1.AutoscalingRunnerSet){atMost(4), condition("RunnerOutdated", yes, "RunnerVersionRefused", "")}, why: "runner too old", reason: "RunnerVersionRefused"},
		"a schedule":      {changes: []func(*v1alpha1.AutoscalingRunnerSet){func(s *v1alpha1.AutoscalingRunnerSet) { s.Status.ActiveSchedules = []string{"office"} }}, why: "schedule office"},
	} {
		set := setWith("runners", "linux", test.busy, test.assigned, test.changes...)
		row := rowOf(set, []v1alpha1.EphemeralRunnerSet{runnerSetOf(set)})
		if row.Why != test.why || row.Reason != test.reason {
			t.Errorf("%s: %q (%s), want %q (%s)", name, row.Why, row.Reason, test.why, test.reason)
		}
		if want := max(0, test.assigned-test.busy); row.Waiting != want || row.Jobs != test.assigned ||
			row.Busy != test.busy {
			t.Errorf("%s: %+v, want %d jobs, %d busy, %d waiting", name, row, test.assigned, test.busy, want)
		}
	}
}

func TestOrdersOfRows(t *testing.T) {
	rows := []Row{{Namespace: "b", Name: "a", Busy: 1}, {Namespace: "a", Name: "z", Jobs: 5, Waiting: 5},
		{Namespace: "a", Name: "b", Busy: 3, Jobs: 3}}
	for order, want := range map[string]string{"name": "ab az ba", "busy": "ab ba az", "jobs": "az ab ba",
		"waiting": "az ab ba"} {
		sorted(rows, order)
		var got []string
		for _, row := range rows {
			got = append(got, row.Namespace+row.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("by %s: %v, want %s", order, got, want)
		}
	}
}

// However long names and numbers are, a table fits into 80 columns, keeps all numbers, and says why.
func TestTheTableFitsInto80Columns(t *testing.T) {
	most := 100000
	rows := []Row{
		{Namespace: "team-payments-production-europe-west", Name: "linux-large-gpu-a100-runners-spot", Busy: 12345, Idle: 1, Jobs: 20000, Waiting: 7655, Min: 5, Max: &most, Why: "image can't be pulled"},
		{Namespace: "a", Name: "b"},
	}
	for _, namespaces := range []bool{true, false} {
		for _, width := range []int{80, 100, 200, 0} {
			table := layout(rows, namespaces, width)
			for _, line := range append([]string{table.header()}, table.row(&rows[0]), table.row(&rows[1])) {
				if got := utf8.RuneCountInString(line); width > 0 && got > width {
					t.Errorf("%d columns, want at most %d: %s", got, width, line)
				}
			}
			line := table.row(&rows[0])
			if !strings.Contains(line, "12345") || !strings.Contains(line, "20000") ||
				!strings.Contains(line, "7655") || !strings.HasSuffix(line, "image can't be pulled") {
				t.Errorf("the row lacks something: %s", line)
			}
			if strings.Contains(line, "gpu-a100-runners-spot") != (width != 80) && !namespaces {
				t.Errorf("at %d columns the name is cut where there is room, or not where there is none: %s",
					width, line)
			}
		}
	}
	if short := layout(rows[1:], false, 80).row(&rows[1]); strings.Count(short, " ") > 60 {
		t.Errorf("columns are wider than their content: %q", short)
	}
}
