package rest_test

import (
	"testing"

	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// A run is overtaken by a newer one of its workflow, branch and event from the same repository, and by no other, however
// many of those there are.
func TestANewerRunIsOfTheSameWorkflowBranchAndEvent(t *testing.T) {
	const workflows = "acme/app/.github/workflows/"
	alike := fakegithub.JobRequest{WorkflowRef: workflows + "deploy.yml@refs/heads/main", Event: "push"}
	for name, test := range map[string]struct {
		change func(*fakegithub.JobRequest)
		times  int
		newer  bool
	}{
		"the same":         {func(*fakegithub.JobRequest) {}, 1, true},
		"several":          {func(*fakegithub.JobRequest) {}, 70, true},
		"another workflow": {func(q *fakegithub.JobRequest) { q.WorkflowRef = workflows + "lint.yml@refs/heads/main" }, 1, false},
		"another branch":   {func(q *fakegithub.JobRequest) { q.WorkflowRef = workflows + "deploy.yml@refs/heads/next" }, 1, false},
		"another event":    {func(q *fakegithub.JobRequest) { q.Event = "schedule" }, 1, false},
		"of forks":         {func(q *fakegithub.JobRequest) { q.HeadRepository = "somebody/app" }, 70, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, app(), fakegithub.Options{})
			queue := func(q fakegithub.JobRequest) {
				q.ScaleSet, q.Owner, q.Repository = "linux", "acme", "app"
				if _, err := w.github.QueueJobs(q); err != nil {
					t.Fatal(err)
				}
			}
			queue(alike)
			run, err := w.rest.GetRun(t.Context(), w.acme, 1)
			if err != nil {
				t.Fatal(err)
			}
			changed := alike
			test.change(&changed)
			for range test.times {
				queue(changed)
			}
			newer, err := w.rest.NewerRun(t.Context(), w.acme, run)
			if (newer != nil) != test.newer || err != nil {
				t.Errorf("%+v: %v, want one: %t", newer, err, test.newer)
			}
		})
	}
}
