package ephemeralrunner

import (
	"errors"
	"slices"
	"testing"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// A job came and ended under a manager that could write nothing of it, and the report of it is late. The next manager finds no
// trace of a pod, so it registers the runner once more. The report, when it comes, is not about that registration.
func TestALateReportIsNotAboutTheNextManagersRegistration(t *testing.T) {
	for name, test := range map[string]struct {
		again bool
		calls []string
	}{
		"the next manager":            {calls: []string{"remove 102"}},
		"and the one that comes next": {again: true, calls: []string{"find", "remove 102"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.settle()
				f.endUnnoticed()
				f.restart()
				f.api.refuse = map[string]error{"create Secret": errors.New("away")}
				f.settle()
				if test.again {
					f.restart()
				}
				f.github.said()
				f.setStatus(func(r *v1alpha1.EphemeralRunner) { r.Status.JobID, r.Status.JobResult = "job", "succeeded" })
				f.api.refuse = nil
				f.settle()
				if got := f.github.said(); !slices.Equal(got, test.calls) || len(f.github.registered) != 0 {
					t.Errorf("GitHub was asked %v, want %v; registered are %v", got, test.calls, f.github.registered)
				}
				if f.runner() != nil {
					t.Error("the runner is still there")
				}
			}, newRunner())
		})
	}
}

// endUnnoticed ends the runner's job and takes away what there was of it, on GitHub too.
func (f *fixture) endUnnoticed() {
	f.Helper()
	for _, err := range []error{f.api.WithWatch.Delete(f.Context(), f.pod()), f.api.WithWatch.Delete(f.Context(), f.secret())} {
		if err != nil {
			f.Fatal(err)
		}
	}
	clear(f.github.registered)
}
