package ephemeralrunnerset

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// wait is a reason why runners don't run yet, and how many have it.
type wait struct {
	runners int
	// example is the name of the oldest of these runners, message is what it reports.
	example, reason, message string
}

// waitsOf returns what runners wait for: a ResourceQuota, and the most frequent other reason.
func waitsOf(runners []*runnerView) (quota, other wait) {
	waits := map[string]*wait{}
	for _, r := range runners {
		if r.ended() || r.up() || r.deleting || r.reason == "" {
			continue
		}
		if waits[r.reason] == nil {
			waits[r.reason] = &wait{example: r.name, reason: r.reason, message: r.message}
		}
		waits[r.reason].runners++
	}
	for reason, w := range waits {
		switch {
		case reason == v1alpha1.ReasonQuotaExceeded:
			quota = *w
		case w.runners > other.runners || w.runners == other.runners && reason < other.reason:
			other = *w
		}
	}
	return quota, other
}

// waitConditions returns conditions that say what runners wait for; if none waits, why the last ones were given up; and if none was, what
// the pods of their jobs wait for. Conditions that were never true are left out.
func waitConditions(before []metav1.Condition, runners []*runnerView, givenUp wait, jobs ...jobWait) []metav1.Condition {
	quota, other := waitsOf(runners)
	refused := report.False(v1alpha1.ConditionQuotaExceeded, "PodsAdmitted", "no runner waits for a ResourceQuota")
	if quota.runners > 0 {
		refused = report.True(v1alpha1.ConditionQuotaExceeded, v1alpha1.ReasonPodsForbidden, fmt.Sprintf(
			"%s because a ResourceQuota refuses their pods or Secrets; raise the quota or lower maxRunners; the refusal of %s: %s",
			runnersWait(quota.runners), quota.example, quota.message))
	}
	pending := report.False(v1alpha1.ConditionRunnersPending, "RunnersStart", "no runner reports that it is waiting")
	example, pods := mostFrequent(jobs)
	switch {
	case other.runners > 0:
		pending = report.True(v1alpha1.ConditionRunnersPending, other.reason, fmt.Sprintf(
			"%s: %s; see kubectl describe ephemeralrunner %s", runnersWait(other.runners), other.message, other.example))
	case givenUp.runners > 0:
		pending = report.True(v1alpha1.ConditionRunnersPending, givenUp.reason, fmt.Sprintf(
			"%d runners in a row were given up before they got a job, by no fault of their template; others follow after pauses of up to %s: %s; see kubectl describe ephemeralrunner %s",
			givenUp.runners, longestPause, givenUp.message, givenUp.example))
	case pods > 0:
		pending = report.True(v1alpha1.ConditionRunnersPending, example.reason, fmt.Sprintf(
			"%s: %s; see kubectl describe pod %s", jobPodsWait(pods), example.message, example.pod))
	}
	var conditions []metav1.Condition
	for _, c := range []metav1.Condition{refused, pending} {
		if c.Status == metav1.ConditionTrue || meta.FindStatusCondition(before, c.Type) != nil {
			conditions = append(conditions, c)
		}
	}
	return conditions
}

func jobPodsWait(pods int) string {
	if pods == 1 {
		return "1 job pod waits"
	}
	return fmt.Sprintf("%d job pods wait", pods)
}

// tellKept returns the condition that says how many of the set's runners can't be deleted because finalizers of others keep them or their
// pods, and who keeps the first one, and when to look again: no event of a runner tells what becomes of its pod. A condition that was
// never true is left out.
func (c *Controller) tellKept(ctx context.Context, p *pass, now time.Time) (conditions []metav1.Condition, lookAt time.Time) {
	kept := &p.state.kept
	kept.Begin()
	blocked, first := 0, ""
	for _, r := range p.views {
		if !r.deleting && !r.ended() && (r.up() || r.reason == "") {
			continue // nothing of it is being deleted
		}
		kind, keepers := "EphemeralRunner", strings.Fields(r.keepers)
		if pod := c.podOf(ctx, p.set.Namespace, r); len(keepers) == 0 && pod != nil {
			lookAt = kube.EarlierOf(lookAt, now.Add(kube.KeptAfter))
			kind, keepers = "Pod", kube.PodKeepers(pod)
		}
		if len(keepers) == 0 {
			continue
		}
		if wait := kept.Look(r.uid+types.UID(kind), now); wait > 0 {
			lookAt = kube.EarlierOf(lookAt, now.Add(wait))
			continue
		}
		if blocked++; blocked == 1 {
			first = kube.WhyKept(kind, types.NamespacedName{Namespace: p.set.Namespace, Name: r.name}, keepers)
		}
	}
	if blocked > 1 {
		first = fmt.Sprintf("%d runners can't be deleted; the first: %s", blocked, first)
	}
	switch {
	case blocked > 0:
		conditions = append(conditions, report.True(v1alpha1.ConditionDeletionBlocked, v1alpha1.ReasonForeignFinalizers, first))
	case meta.FindStatusCondition(p.set.Status.Conditions, v1alpha1.ConditionDeletionBlocked) != nil:
		conditions = append(conditions, report.False(v1alpha1.ConditionDeletionBlocked, "NothingKept", "no runner is kept by finalizers of others"))
	}
	return conditions, lookAt
}

// podOf returns a runner's pod as the cache has it, nil if there is none.
func (c *Controller) podOf(ctx context.Context, namespace string, r *runnerView) *corev1.Pod {
	pod := &corev1.Pod{}
	err := c.options.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: r.name}, pod, client.UnsafeDisableDeepCopy)
	if owner := metav1.GetControllerOfNoCopy(pod); err != nil || owner == nil || owner.UID != r.uid {
		return nil
	}
	return pod
}

func runnersWait(runners int) string {
	if runners == 1 {
		return "1 runner waits"
	}
	return fmt.Sprintf("%d runners wait", runners)
}
