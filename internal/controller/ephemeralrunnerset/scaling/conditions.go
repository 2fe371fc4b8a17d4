package scaling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/placement"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/jobpods"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// reasonRunnersScale is the reason of Ready while nothing is wrong.
const reasonRunnersScale = "RunnersScale"

// Describe writes into the status the figures that were seen and decided, and returns the conditions about them.
func (h *History) Describe(
	status *v1alpha1.EphemeralRunnerSetStatus, set *v1alpha1.EphemeralRunnerSet, runners []*roster.Runner, p *Plan,
) []metav1.Condition {
	countLive(status, runners)
	status.ObservedGeneration = set.Generation
	status.Phase = v1alpha1.EphemeralRunnerSetPhaseRunning
	if h.failures.isOutdated() {
		status.Phase = v1alpha1.EphemeralRunnerSetPhaseOutdated
	}
	status.Desired = new(p.wanted)
	status.Capacity = h.capacity(p)
	status.DoubtedJobs = h.doubt.Jobs
	status.ProvenTemplate = h.proof(status.ProvenTemplate)
	return slices.Concat(h.conditions(set, p),
		waitConditions(status.Conditions, runners, h.givenUp(p), h.unbound, h.jobWaits...),
		h.doubtConditions(status.Conditions, set), startConditions(status.Conditions, p))
}

// proof returns the proof that the template works, nil if there is none. One that is good is not renewed, so that it is
// written once for each template and each time at which GitHub began to refuse further versions.
func (h *History) proof(before *v1alpha1.ProvenTemplate) *v1alpha1.ProvenTemplate {
	f := &h.failures
	good := before != nil && before.Hash == f.template && h.versions.Proven(before.At.Time, h.now)
	if good || f.provenAt.IsZero() {
		return before
	}
	return &v1alpha1.ProvenTemplate{Hash: f.template, At: metav1.NewTime(f.provenAt)}
}

// DescribeLeft writes into the status of a set that is being deleted what is left of it, and returns the conditions
// about that.
func (h *History) DescribeLeft(
	status *v1alpha1.EphemeralRunnerSetStatus, set *v1alpha1.EphemeralRunnerSet, runners []*roster.Runner,
	now time.Time,
) []metav1.Condition {
	countWithDeleting(status, runners)
	// the next set runs further jobs, but the listener must not announce 0
	status.Capacity = new(status.BusyRunners + 1)
	status.Desired, status.LimitReason = new(0), ""
	return h.Creations.UnseenWhileDeleted(set)
}

func (h *History) conditions(set *v1alpha1.EphemeralRunnerSet, p *Plan) []metav1.Condition {
	degraded, outdated := h.degradedCondition(set, p), h.outdatedCondition(set)
	summary := report.Ready(reasonRunnersScale, "runners follow the jobs that GitHub assigns")
	switch {
	case outdated.Status == metav1.ConditionTrue:
		summary = report.Unready(outdated.Reason, outdated.Message, true)
	case degraded.Status == metav1.ConditionTrue:
		summary = report.Unready(degraded.Reason, degraded.Message, false)
	}
	return append(summary, degraded, outdated)
}

func (h *History) degradedCondition(set *v1alpha1.EphemeralRunnerSet, p *Plan) metav1.Condition {
	f := &h.failures
	switch {
	case !f.isDegraded() && h.cannotCreate(p):
		return report.True(v1alpha1.ConditionDegraded, v1alpha1.ReasonRunnersNotCreated, fmt.Sprintf(
			"the API server rejects this set's runners; creation is retried. It says: %s. Correct what it "+
				"names in the AutoscalingRunnerSet, or what rejects it in namespace %s",
			strings.ReplaceAll(h.Creations.Err.Error(), "\n", "; "), set.Namespace))
	case !f.isDegraded() && h.Creations.HasUnseen():
		return h.Creations.UnseenCondition(set.Namespace)
	case !f.isDegraded():
		return report.False(v1alpha1.ConditionDegraded, "RunnersWork",
			"no runner has failed without a job since the last one that worked")
	}
	return report.True(v1alpha1.ConditionDegraded, cmp.Or(f.reason, v1alpha1.ReasonRunnersFail), fmt.Sprintf(
		"%d runners in a row failed before they got a job, most recently because: %s; runners are tried one at a time "+
			"until one works or the template changes; kubectl get ephemeralrunners -n %s shows the latest",
		f.count, cmp.Or(f.message, f.reason), set.Namespace))
}

func (h *History) outdatedCondition(set *v1alpha1.EphemeralRunnerSet) metav1.Condition {
	if !h.failures.isOutdated() {
		return report.False(v1alpha1.ConditionRunnerOutdated, "VersionAccepted",
			"GitHub has not refused any runner of this template")
	}
	refusal := cmp.Or(h.failures.refusal, "GitHub refuses the runner version in image "+
		kube.Image(&set.Spec.EphemeralRunnerSpec.PodSpec, v1alpha1.RunnerContainerName))
	least := "" // the runner's own words have what github.com takes, and don't know what a server offers
	if known := h.versions.Known; !known.Hosted && !known.Offered.IsZero() {
		least = fmt.Sprintf(", with runner version %s or later, which this server offers", known.Offered)
	}
	return report.True(v1alpha1.ConditionRunnerOutdated, "RunnerVersionRefused", refusal+": use a newer image in the "+
		"template"+least+"; until then one runner is tried now and then, in case the image behind the tag has been updated")
}

// cannotCreate reports whether runners are wanted and their creation has failed too often in a row.
func (h *History) cannotCreate(p *Plan) bool { return p.wantsRunners() && h.Creations.Failing() }

// doubtConditions returns the condition with the number of doubted jobs, none if it was never true.
func (h *History) doubtConditions(before []metav1.Condition, set *v1alpha1.EphemeralRunnerSet) []metav1.Condition {
	const conditionType = v1alpha1.ConditionStatisticsDoubtful
	switch {
	case h.doubt.Jobs > 0:
		return []metav1.Condition{report.True(conditionType, v1alpha1.ReasonJobsNotTaken, fmt.Sprintf(
			"GitHub counts %d assigned jobs; %d of them have waited beside idle runners and probably don't exist: no "+
				"runners are created for these until GitHub's figures change, and jobs that do exist still run; "+
				"look on GitHub for queued jobs of %s and cancel those that never start; if there are none, only "+
				"GitHub can correct its figures (https://www.githubstatus.com)", set.Spec.AssignedJobs, h.doubt.Jobs,
			kube.ScaleSetOf(set).Name))}
	case meta.FindStatusCondition(before, conditionType) != nil:
		return []metav1.Condition{report.False(conditionType, "StatisticsBelieved",
			"all jobs that GitHub counts are believed to exist")}
	}
	return nil
}

// startConditions returns the condition that says whether runners are held back, none if it was never true.
func startConditions(before []metav1.Condition, p *Plan) []metav1.Condition {
	const conditionType = v1alpha1.ConditionStartsLimited
	switch {
	case p.paced > 0:
		return []metav1.Condition{report.True(conditionType, v1alpha1.ReasonStartsLimited, fmt.Sprintf(
			"maxStartsPerMinute of %d holds runners back; they are created as the minute passes", p.paced))}
	case meta.FindStatusCondition(before, conditionType) != nil:
		return []metav1.Condition{report.False(conditionType, "StartsNotLimited", "no runner is held back")}
	}
	return nil
}

// capacity returns the number of jobs that GitHub may assign to the set, nil if the set sets no limit. While its
// runners fail or are outdated, that is one more than there are working runners: without a job there is no demand to
// try a runner for, and GitHub was seen never to offer again what was queued while a set announced 0. While the API
// server rejects runners, the waiting ones count, too. GitHub gives the other jobs to sets that can run them.
func (h *History) capacity(p *Plan) *int {
	t := &p.Tally
	switch f := &h.failures; {
	case f.isOutdated(), f.isDegraded():
		return new(t.working + 1)
	case h.cannotCreate(p):
		return new(t.working + t.waiting + 1)
	default:
		return nil
	}
}

// Placing returns, besides the pods, the facts from which the room of a set with capacity.mode Placement follows.
func (h *History) Placing(p *Plan) placement.Seen {
	return placement.Seen{
		Now: h.now, Working: p.Tally.working, Assigned: p.asked.assignedJobs,
		Spare: p.asked.replicas - p.asked.assignedJobs, Max: p.asked.inForce,
		Failing: h.failures.isOutdated() || h.failures.isDegraded(), Rejected: h.cannotCreate(p),
	}
}

// countLive sets the status's runner counts, without the runners that are being deleted.
func countLive(status *v1alpha1.EphemeralRunnerSetStatus, runners []*roster.Runner) {
	countUnless(status, runners, func(r *roster.Runner) bool { return r.Deleting })
}

// countWithDeleting sets the runner counts including the runners that are being deleted and have not ended. After such
// a runner has ended, another set may have one in its place, even while somebody keeps it or its pod.
func countWithDeleting(status *v1alpha1.EphemeralRunnerSetStatus, runners []*roster.Runner) {
	countUnless(status, runners, func(r *roster.Runner) bool { return r.Deleting && !r.Alive() })
}

func countUnless(
	status *v1alpha1.EphemeralRunnerSetStatus, runners []*roster.Runner, leftOut func(*roster.Runner) bool,
) {
	status.PendingEphemeralRunners, status.RunningEphemeralRunners = 0, 0
	status.FailedEphemeralRunners, status.BusyRunners = 0, 0
	for _, r := range runners {
		switch {
		case leftOut(r):
		case r.Phase == v1alpha1.EphemeralRunnerPhaseSucceeded || r.Phase == v1alpha1.EphemeralRunnerPhaseOutdated:
		case r.Phase == v1alpha1.EphemeralRunnerPhaseFailed:
			status.FailedEphemeralRunners++
		case r.Up():
			status.RunningEphemeralRunners++
			if roster.StateOf(r).Name == roster.Busy {
				status.BusyRunners++
			}
		default:
			status.PendingEphemeralRunners++
		}
	}
	status.CurrentReplicas = status.PendingEphemeralRunners + status.RunningEphemeralRunners +
		status.FailedEphemeralRunners
}

// mostFrequent returns an example of the reason that most of the pods have, and the number of pods that have it.
func mostFrequent(waits []jobpods.Wait) (example jobpods.Wait, pods int) {
	byReason := map[string][]jobpods.Wait{}
	for _, wait := range waits {
		byReason[wait.Reason] = append(byReason[wait.Reason], wait)
	}
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		if same := byReason[reason]; len(same) > pods {
			example, pods = same[0], len(same)
		}
	}
	return example, pods
}

// waitsOf returns the reasons why runners wait: a ResourceQuota, and the most frequent other reason.
func waitsOf(runners []*roster.Runner) (quota, other wait) {
	waits := map[string]*wait{}
	for _, r := range runners {
		if r.Ended() || r.Up() || r.Deleting || r.Reason == "" {
			continue
		}
		if waits[r.Reason] == nil {
			waits[r.Reason] = &wait{example: r.Name, reason: r.Reason, message: r.Message}
		}
		waits[r.Reason].runners++
	}
	for reason, w := range waits {
		switch {
		case reason == v1alpha1.ReasonQuotaExceeded:
			quota = *w
		case w.runners > other.runners || (w.runners == other.runners && reason < other.reason):
			other = *w
		}
	}
	return quota, other
}

// waitConditions returns conditions that say what runners wait for; if none waits, why the last ones were given up; and
// if none was, what the pods of their jobs wait for. Conditions that were never true are left out.
func waitConditions(
	before []metav1.Condition, runners []*roster.Runner, givenUp wait, unbound map[string]string, jobs ...jobpods.Wait,
) []metav1.Condition {
	quota, other := waitsOf(runners)
	refused := report.False(v1alpha1.ConditionQuotaExceeded, "PodsAdmitted", "no runner waits for a ResourceQuota")
	if quota.runners > 0 {
		refused = report.True(v1alpha1.ConditionQuotaExceeded, v1alpha1.ReasonPodsForbidden, fmt.Sprintf(
			"%s because a ResourceQuota refuses their pods or Secrets; raise the quota or lower maxRunners; the "+
				"refusal of %s: %s",
			waiting(quota.runners, "runner"), quota.example, quota.message))
	}
	pending := report.False(v1alpha1.ConditionRunnersPending, "RunnersStart", "no runner reports that it is waiting")
	example, pods := mostFrequent(jobs)
	switch {
	case other.runners > 0 && other.reason == v1alpha1.ReasonVolumeUnbound && len(unbound) > 0:
		if _, told := unbound[other.example]; !told {
			other.example = slices.Min(slices.Collect(maps.Keys(unbound)))
		}
		pending = report.True(v1alpha1.ConditionRunnersPending, other.reason, fmt.Sprintf(
			"%s for a volume: PersistentVolumeClaim %s; the scheduler: %s", waiting(other.runners, "runner"),
			unbound[other.example], other.message))
	case other.runners > 0:
		pending = report.True(v1alpha1.ConditionRunnersPending, other.reason, fmt.Sprintf(
			"%s: %s; see kubectl describe ephemeralrunner %s", waiting(other.runners, "runner"), other.message,
			other.example))
	case givenUp.runners > 0:
		pending = report.True(v1alpha1.ConditionRunnersPending, givenUp.reason, fmt.Sprintf(
			"%d runners in a row were given up before they got a job, by no fault of their template; others "+
				"follow after pauses of up to %s: %s; see kubectl describe ephemeralrunner %s",
			givenUp.runners, longestBackoff, givenUp.message, givenUp.example))
	case pods > 0:
		pending = report.True(v1alpha1.ConditionRunnersPending, example.Reason, fmt.Sprintf(
			"%s: %s; see kubectl describe pod %s", waiting(pods, "job pod"), example.Message, example.Pod))
	}
	var conditions []metav1.Condition
	for _, c := range []metav1.Condition{refused, pending} {
		if c.Status == metav1.ConditionTrue || meta.FindStatusCondition(before, c.Type) != nil {
			conditions = append(conditions, c)
		}
	}
	return conditions
}

// waiting returns the words for n things that wait, such as "2 pods wait".
func waiting(n int, what string) string {
	if n == 1 {
		return "1 " + what + " waits"
	}
	return fmt.Sprintf("%d %ss wait", n, what)
}

// givenUp returns the runners that failed by no fault of the template since the last one that worked. It returns none
// when another one is up, or while none is wanted.
func (h *History) givenUp(p *Plan) wait {
	if p.wanted == 0 || p.Tally.waiting > p.Tally.Starting {
		return wait{}
	}
	return h.failures.blameless
}
