package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/history"
	"github.com/harrier-ci/harrier/test/rig"
)

// During a blinding fault, changes may be missing from the API server's log. A disturbing fault holds up watches or
// requests. Cutting the leader off is neither: its hanging requests are never carried out, and the next leader knows
// everything.
var (
	blinding   = []kind{apiServerDown, apiServerHang, etcdAway}
	disturbing = []kind{slowWatch, cutWatches, refuseWrites, slowAPIServer}
)

// noteTrouble notes, for the check of the history, when a fault kept changes out of the API server's log or watches
// late.
func (w *world) noteTrouble(f fault, began time.Time) {
	switch {
	case slices.Contains(blinding, f.kind):
		lists := w.lists()
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.seen.Changes = append(w.seen.Changes, lists...)
		w.seen.Blind = append(w.seen.Blind, history.Interval{From: began, To: time.Now()})
	case slices.Contains(disturbing, f.kind):
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.seen.Disturbed = append(w.seen.Disturbed, history.Interval{From: began, To: time.Now()})
	}
}

// lists returns a list of each kind, as it is now.
func (w *world) lists() []history.Change {
	var changes []history.Change
	add := func(list client.ObjectList, read func() *history.List) {
		began := time.Now()
		w.request(func(ctx context.Context) error {
			return w.cluster.Client().List(ctx, list, client.InNamespace(w.rig.RunnerNamespace))
		})
		revision, err := strconv.ParseUint(list.GetResourceVersion(), 10, 64)
		if err != nil {
			w.errorf("revision of a list: %v", err)
			return
		}
		changes = append(changes, history.Change{
			Received: began, Answered: time.Now(), Revision: revision, By: history.Other, Verb: "list", List: read(),
		})
	}
	var sets v1alpha1.EphemeralRunnerSetList
	add(&sets, func() *history.List {
		list := &history.List{Sets: []history.Set{}}
		for i := range sets.Items {
			list.Sets = append(list.Sets, *history.SetOf(&sets.Items[i]))
		}
		return list
	})
	var runners v1alpha1.EphemeralRunnerList
	add(&runners, func() *history.List {
		list := &history.List{Runners: []history.Runner{}}
		for i := range runners.Items {
			list.Runners = append(list.Runners, *history.RunnerOf(&runners.Items[i]))
		}
		return list
	})
	var pods corev1.PodList
	add(&pods, func() *history.List {
		list := &history.List{Pods: []history.Pod{}}
		for i := range pods.Items {
			list.Pods = append(list.Pods, *history.PodOf(&pods.Items[i]))
		}
		return list
	})
	var origins v1alpha1.AutoscalingRunnerSetList
	add(&origins, func() *history.List {
		list := &history.List{Pools: []history.Pool{}}
		for i := range origins.Items {
			list.Pools = append(list.Pools, *history.PoolOf(&origins.Items[i]))
		}
		return list
	})
	var claims corev1.PersistentVolumeClaimList
	add(&claims, func() *history.List {
		list := &history.List{Claims: []history.Claim{}}
		for i := range claims.Items {
			list.Claims = append(list.Claims, *history.ClaimOf(&claims.Items[i]))
		}
		return list
	})
	return changes
}

// checked counts what histories were checked, and what they consisted of.
type checked struct{ histories, requests, changes, registrations, jobs int }

func (c checked) String() string {
	return fmt.Sprintf("%d requests, %d changes of objects, %d registrations, %d jobs", c.requests, c.changes,
		c.registrations, c.jobs)
}

// checkHistory reads what was requested during the run and checks the rules that hold at every moment.
func (w *world) checkHistory() {
	w.t.Helper()
	events, err := w.cluster.AuditEvents(testkube.AuditFilter{Since: w.rig.Started})
	if err != nil {
		w.errorf("%v", err)
		return
	}
	w.seen.MinRunners = w.schedule.minRunners
	manager := testkube.ServiceAccountUser(w.rig.SystemNamespace, rig.ControllerAccount)
	if err := w.seen.FromAudit(events, history.Accounts{Manager: manager,
		Namespace: w.rig.RunnerNamespace}); err != nil {
		w.errorf("%v", err)
		w.saveAuditLog()
		return
	}
	for _, registration := range w.rig.GitHub.Registrations() {
		w.seen.Registrations = append(w.seen.Registrations, history.Registration{
			ID: registration.ID, Scope: registration.Scope, Name: registration.Name,
			Since: w.ours(registration.RegisteredAt), Until: w.ours(registration.RemovedAt),
		})
	}
	for _, job := range w.rig.GitHub.Jobs("") {
		if job.Runner != "" {
			w.seen.Jobs = append(w.seen.Jobs, history.Job{
				ID: job.RequestID, Runner: job.Runner, Result: job.Result, Started: w.ours(job.StartedAt),
				Completed: w.ours(job.CompletedAt),
			})
		}
	}
	broken := w.seen.Check()
	for _, line := range broken {
		w.errorf("%s", line)
	}
	if len(broken) > 0 {
		w.saveAuditLog()
	}
	w.checked = checked{1, len(events), len(w.seen.Changes), len(w.seen.Registrations), len(w.seen.Jobs)}
	if w.checked.requests == 0 || w.checked.changes == 0 || w.checked.jobs == 0 {
		w.errorf("no rule can be broken in a history of %s", w.checked)
	}
	w.logf("history: %s, %d rules broken", w.checked, len(broken))
}

// saveAuditLog keeps the API server's log beside those of the programs: it shows what led to a broken rule.
func (w *world) saveAuditLog() {
	content, err := os.ReadFile(filepath.Join(w.cluster.LogDirectory(), "audit.log"))
	if err == nil {
		name := strings.ReplaceAll(w.t.Name(), "/", "-") + "-audit.log"
		err = os.WriteFile(filepath.Join(os.Getenv(logsVariable), name), content, 0o600)
	}
	if err != nil {
		w.logf("save the audit log: %v", err)
	}
}
