package limits_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/limits"
)

// A job was queued at second 0, assigned after 60, its runner was created after 64, registered after 66 and placed after
// 96.
func TestTheShareOfAWaitAtALimit(t *testing.T) {
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	known := func(seconds int) *metav1.Time { return new(metav1.NewTime(at(seconds))) }
	reached := v1alpha1.RunnerPhases{Queued: known(0), Assigned: known(60), Created: known(64), Registered: known(66),
		Placed: known(96), Started: known(120)}
	unassigned := reached
	unassigned.Assigned = nil
	const second = time.Second
	for title, test := range map[string]struct {
		kind     v1alpha1.LimitKind
		from, to int
		of       v1alpha1.RunnerPhases
		want     limits.Share
	}{
		"at its maximum all the time":          {limits.Maximum, -600, 600, reached, limits.Share{Assigned: 60 * second, Created: 4 * second}},
		"for a part of the wait":               {limits.Maximum, 10, 40, reached, limits.Share{Assigned: 30 * second}},
		"the job itself was the last that fit": {limits.Maximum, 60, 600, reached, limits.Share{}},
		"as many as GitHub was told of":        {limits.Announced, -1, 62, reached, limits.Share{Assigned: 60 * second, Created: 2 * second}},
		"drained":                              {limits.NoJobs, 0, 50, reached, limits.Share{Assigned: 50 * second}},
		"a quota refuses pods":                 {limits.Quota, 61, 90, reached, limits.Share{Created: 3 * second, Placed: 24 * second}},
		"claims":                               {limits.Claims, 70, 600, reached, limits.Share{Placed: 26 * second}},
		"no node, which placed says":           {limits.Nodes, 70, 600, reached, limits.Share{}},
		"no node, so GitHub is told of less":   {limits.Nodes, -5, 5, reached, limits.Share{Assigned: 5 * second}},
		"nobody knows when it was assigned":    {limits.Maximum, 0, 600, unassigned, limits.Share{Created: 64 * second}},
		"after the wait":                       {limits.Maximum, 100, 600, reached, limits.Share{}},
		"nothing limits it":                    {limits.None, 0, 600, reached, limits.Share{}},
		"nobody knows when the wait began":     {limits.Maximum, 0, 600, v1alpha1.RunnerPhases{Created: known(3)}, limits.Share{}},
	} {
		t.Run(title, func(t *testing.T) {
			if diff := cmp.Diff(test.want, limits.ShareOf(test.kind, at(test.from), at(test.to), &test.of)); diff != "" {
				t.Errorf("share (-want +got):\n%s", diff)
			}
		})
	}
}
