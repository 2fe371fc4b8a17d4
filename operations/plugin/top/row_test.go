package top_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/plugin/top"
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

// limited gives the set a limit.
func limited(kind v1alpha1.LimitKind, reason string) func(*v1alpha1.AutoscalingRunnerSet) {
	return func(set *v1alpha1.AutoscalingRunnerSet) {
		set.Status.LimitedBy = &v1alpha1.Limit{Kind: kind, Reason: reason, Message: "because"}
	}
}

// rows returns the rows in an order, as the JSON says.
func rows(t *testing.T, order string, objects ...client.Object) []top.Row {
	t.Helper()
	var text bytes.Buffer
	err := top.Run(t.Context(), server(interceptor.Funcs{}, objects...),
		top.Options{Once: true, Format: output.JSON, Order: order}, &text)
	if err != nil {
		t.Fatal(err)
	}
	var read struct {
		ScaleSets []top.Row `json:"scaleSets"`
	}
	if err := json.Unmarshal(text.Bytes(), &read); err != nil {
		t.Fatal(err)
	}
	return read.ScaleSets
}

// table returns the lines of what a terminal of so many columns shows first, or without a terminal for 0.
func table(t *testing.T, namespace string, width int, objects ...client.Object) []string {
	t.Helper()
	options := top.Options{Namespace: namespace, Once: width == 0, Format: output.Text}
	text := &written{}
	synctest.Test(t, func(t *testing.T) {
		screen, ended := &window{quit: make(chan struct{}), width: width, height: 20}, make(chan error)
		if width > 0 {
			options.Screen = screen
		}
		go func() { ended <- top.Run(t.Context(), server(interceptor.Funcs{}, objects...), options, text) }()
		if width > 0 {
			<-time.After(20 * time.Second)
			close(screen.quit)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	shown := strings.NewReplacer("\x1b[H", "", "\x1b[K", "", "\x1b[J", "", "\r\n", "\n").Replace(text.take())
	return strings.Split(strings.TrimSuffix(shown, "\n"), "\n")
}

// A row says in a few words what limits the set: what the doctor would say first.
func TestWhyNotMore(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	for name, test := range map[string]struct {
		busy, assigned int
		changes        []func(*v1alpha1.AutoscalingRunnerSet)
		why, reason    string
	}{
		"nothing":         {busy: 1, assigned: 3, changes: []func(*v1alpha1.AutoscalingRunnerSet){atMost(10)}},
		"its maximum":     {busy: 4, assigned: 4, changes: []func(*v1alpha1.AutoscalingRunnerSet){limited("Maximum", "MaxRunnersReached")}, why: "at maxRunners", reason: "MaxRunnersReached"},
		"a drain":         {changes: []func(*v1alpha1.AutoscalingRunnerSet){limited("NoJobs", "Drained")}, why: "drained", reason: "Drained"},
		"a maximum of 0":  {changes: []func(*v1alpha1.AutoscalingRunnerSet){limited("NoJobs", "MaxRunnersZero")}, why: "maxRunners is 0", reason: "MaxRunnersZero"},
		"no node":         {assigned: 2, changes: []func(*v1alpha1.AutoscalingRunnerSet){condition("RunnersPending", yes, "Unschedulable", "0/3 nodes")}, why: "no node with room", reason: "Unschedulable"},
		"a quota":         {assigned: 2, changes: []func(*v1alpha1.AutoscalingRunnerSet){limited("Quota", "QuotaExceeded")}, why: "quota used up", reason: "QuotaExceeded"},
		"an image":        {assigned: 2, changes: []func(*v1alpha1.AutoscalingRunnerSet){condition("Degraded", yes, "ImagePullBackOff", "")}, why: "image can't be pulled", reason: "ImagePullBackOff"},
		"credentials":     {changes: []func(*v1alpha1.AutoscalingRunnerSet){func(s *v1alpha1.AutoscalingRunnerSet) { s.Status.Conditions = nil }, condition("CredentialsValid", no, "Unauthorized", "401")}, why: "unauthorized", reason: "Unauthorized"},
		"another session": {changes: []func(*v1alpha1.AutoscalingRunnerSet){func(s *v1alpha1.AutoscalingRunnerSet) { s.Status.Conditions = s.Status.Conditions[:2] }, condition("ListenerReady", no, "SessionConflict", "")}, why: "session conflict", reason: "SessionConflict"},
		"no manager":      {changes: []func(*v1alpha1.AutoscalingRunnerSet){func(s *v1alpha1.AutoscalingRunnerSet) { s.Generation = 2 }}, why: "no manager acts", reason: "NotReconciled"},
		"a problem first": {busy: 4, assigned: 4, changes: []func(*v1alpha1.AutoscalingRunnerSet){limited("Maximum", "MaxRunnersReached"), condition("RunnerOutdated", yes, "RunnerVersionRefused", "")}, why: "runner too old", reason: "RunnerVersionRefused"},
		"an end soon":     {changes: []func(*v1alpha1.AutoscalingRunnerSet){condition("RunnerVersionExpires", yes, "Soon", "on 2026-11-29")}, why: "runner version ends soon", reason: "Soon"},
		"an end":          {changes: []func(*v1alpha1.AutoscalingRunnerSet){condition("RunnerVersionExpires", yes, "Refused", "since")}, why: "runner version refused", reason: "Refused"},
		"a schedule":      {changes: []func(*v1alpha1.AutoscalingRunnerSet){func(s *v1alpha1.AutoscalingRunnerSet) { s.Status.ActiveSchedules = []string{"office"} }}, why: "schedule office"},
	} {
		set := setWith("runners", "linux", test.busy, test.assigned, test.changes...)
		shown := rows(t, "name", set)
		if len(shown) != 1 {
			t.Fatalf("%s: rows %+v", name, shown)
		}
		row := shown[0]
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
	objects := []client.Object{setWith("b", "a", 1, 0), setWith("a", "z", 0, 5), setWith("a", "b", 3, 3)}
	for order, want := range map[string]string{"name": "ab az ba", "busy": "ab ba az", "jobs": "az ab ba",
		"waiting": "az ab ba"} {
		var got []string
		for _, row := range rows(t, order, objects...) {
			got = append(got, row.Namespace+row.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("by %s: %v, want %s", order, got, want)
		}
	}
}

// With names and numbers of any length, a table fits into 80 columns, keeps all numbers, and shows the reason.
func TestTheTableFitsInto80Columns(t *testing.T) {
	const namespace = "team-payments-production-europe-west"
	long := setWith(namespace, "linux-large-gpu-a100-runners-spot", 12345, 20000, atMost(100000),
		condition("Degraded", metav1.ConditionTrue, "ImagePullBackOff", ""),
		func(s *v1alpha1.AutoscalingRunnerSet) { s.Status.IdleRunners, s.Status.EffectiveMinRunners = 1, 5 })
	objects := []client.Object{long, setWith("a", "b", 0, 0)}
	for _, namespaces := range []string{"", namespace} {
		for _, width := range []int{80, 100, 200, 0} {
			lines := table(t, namespaces, width, objects...)
			for _, line := range lines {
				if got := utf8.RuneCountInString(line); width > 0 && got > width {
					t.Errorf("%d columns, want at most %d: %s", got, width, line)
				}
			}
			found := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "20000 7655") })
			if found < 0 {
				t.Fatalf("no row has all numbers: %q", lines)
			}
			line := lines[found]
			if !strings.Contains(line, " 12345 ") || !strings.HasSuffix(line, "image can't be pulled") {
				t.Errorf("the row lacks something: %s", line)
			}
			if strings.Contains(line, "gpu-a100-runners-spot") != (width != 80) && namespaces != "" {
				t.Errorf("at %d columns the name is cut where there is room, or not where there is none: %s",
					width, line)
			}
		}
	}
	lines := table(t, "a", 80, objects...)
	if short := lines[len(lines)-1]; !strings.HasPrefix(short, "b ") || strings.Count(short, " ") > 60 {
		t.Errorf("columns are wider than their content: %q", short)
	}
}

// A set that can't work has the few words and the advice of its reason.
func TestWhyHasTheWordsOfTheMeaning(t *testing.T) {
	var sets []client.Object
	all := meaning.All()
	for i, row := range all {
		set := setWith("ns", fmt.Sprintf("set-%03d", i), 0, 0)
		set.Status.Conditions = nil
		condition(v1alpha1.ConditionCredentialsValid, metav1.ConditionFalse, row.Reason, "message")(set)
		sets = append(sets, set)
	}
	for i, row := range rows(t, "name", sets...) {
		want := all[i]
		if row.Reason != want.Reason || row.Why != want.InFewWords() || (want.Advice != "" && row.Fix != want.Advice) {
			t.Errorf("%s: reason %s, %q, %q", want.Reason, row.Reason, row.Why, row.Fix)
		}
	}
}

// At its maximum a set's jobs wait at GitHub, whose figure counts.
func TestJobsThatGitHubKeepsWait(t *testing.T) {
	full := setWith("n", "linux", 3, 3, atMost(3), limited("Maximum", v1alpha1.ReasonMaxRunnersReached),
		func(set *v1alpha1.AutoscalingRunnerSet) { set.Status.AvailableJobs = 6 })
	if got := rows(t, "name", full)[0]; got.Waiting != 6 || got.Jobs != 3 {
		t.Errorf("%d wait of %d", got.Waiting, got.Jobs)
	}
}
