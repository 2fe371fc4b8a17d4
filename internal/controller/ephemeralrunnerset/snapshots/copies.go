package snapshots

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/leases"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/pass"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
	"github.com/harrier-ci/harrier/internal/volumesnapshots"
)

const (
	// A runner that got a snapshot as its source may not have been seen for lentTimeout: until then the snapshot stays.
	lentTimeout = 2 * time.Minute
	// A snapshot of which copies get no volume is not used for failingTimeout if there is another one. Then one runner
	// finds out whether that has passed.
	failingTimeout = 30 * time.Minute
)

// copies remember who copies which snapshot. The zero value remembers nobody.
type copies struct {
	// lent has, by suffix, when a snapshot was last the newest; failing when a copy of it was last seen to get no volume.
	lent, failing map[string]time.Time
}

// see returns what is seen of the set's claims, and of who uses them.
func (c *copies) see(
	p *pass.Pass, known *leases.Leases, claims []corev1.PersistentVolumeClaim,
) *volumesnapshots.World {
	world := known.World(p.Origin, claims)
	seen := &volumesnapshots.World{Set: p.Origin, Now: p.Now, Used: sets.New[string](), Copied: sets.New[string]()}
	bound := map[string]time.Time{} // by suffix of the source, when the last copy with a volume was made
	for i := range claims {
		if claim, ours := volumesnapshots.ClaimOf(p.Origin, &claims[i]); ours {
			seen.Claims = append(seen.Claims, claim)
			if world.Mounted.Has(claim.Name) {
				seen.Used.Insert(claim.Suffix)
			}
		}
		switch source := sourceOf(p.Origin, &claims[i]); {
		case source == "":
		case claims[i].Status.Phase == corev1.ClaimPending:
			seen.Copied.Insert(source)
		case claims[i].CreationTimestamp.After(bound[source]):
			bound[source] = claims[i].CreationTimestamp.Time
		}
	}
	for i := range world.Runners {
		r := &world.Runners[i]
		for template, name := range r.Claims {
			if suffix, ours := volumeclaims.SuffixOf(p.Origin, template, name); ours {
				seen.Used.Insert(suffix)
			}
		}
		if r.Seed == "" || r.Up || r.Done {
			continue
		}
		seen.Copied.Insert(r.Seed)
		if r.Failure.Kind == volumeclaims.Unprovisioned {
			if due := r.Failure.Since.Add(volumeclaims.FailureTimeout); p.Now.Before(due) {
				p.RequeueAt(due)
			} else {
				remember(&c.failing, r.Seed, p.Now)
			}
		}
	}
	return c.recall(seen, bound)
}

// recall adds what is remembered. A copy that has got a volume since is the proof that others can.
func (c *copies) recall(seen *volumesnapshots.World, bound map[string]time.Time) *volumesnapshots.World {
	maps.DeleteFunc(c.lent, func(_ string, at time.Time) bool { return !seen.Now.Before(at.Add(lentTimeout)) })
	maps.DeleteFunc(c.failing, func(suffix string, at time.Time) bool {
		return !seen.Now.Before(at.Add(failingTimeout)) || bound[suffix].After(at)
	})
	for suffix := range c.lent {
		seen.Copied.Insert(suffix)
	}
	seen.Failing = sets.KeySet(c.failing)
	return seen
}

// remember remembers when something was last so of a snapshot.
func remember(of *map[string]time.Time, suffix string, at time.Time) {
	if *of == nil {
		*of = map[string]time.Time{}
	}
	(*of)[suffix] = at
}

// sourceOf returns the suffix of the set's snapshot that a claim is a copy of, empty if it is of none.
func sourceOf(set *v1alpha1.AutoscalingRunnerSet, claim *corev1.PersistentVolumeClaim) string {
	source := claim.Spec.DataSource
	if source == nil || source.Kind != volumesnapshots.Kind.Kind {
		return ""
	}
	suffix, _ := volumeclaims.SuffixOf(set, claim.Labels[v1alpha1.LabelVolumeClaimTemplate], source.Name)
	return suffix
}
