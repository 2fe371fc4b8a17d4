package diagnosis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/operations/finding"
)

// checkPendingRunners reports why existing runners, or their pods, don't run.
func checkPendingRunners(s set) []finding.Finding {
	reasons, explained := map[string]*tally{}, map[string]bool{}
	for i := range s.Pods {
		if reason, message := pendingReason(&s.Pods[i]); reason != "" {
			add(reasons, reason, s.Pods[i].Name, message)
			explained[s.Pods[i].Name] = true // the pod has the runner's name
		}
	}
	quota := s.condition(v1alpha1.ConditionQuotaExceeded, metav1.ConditionTrue) != nil
	for i := range s.Runners {
		r := &s.Runners[i]
		waits := r.Status.Reason != "" && !r.Status.Done() && r.Status.Phase != v1alpha1.EphemeralRunnerPhaseRunning
		if waits && !explained[r.Name] && (!quota || r.Status.Reason != v1alpha1.ReasonQuotaExceeded) {
			add(reasons, r.Status.Reason, r.Name, r.Status.Message)
		}
	}
	var findings []finding.Finding
	problem := false
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		t := reasons[reason]
		severity := finding.Problem
		if passing(reason) {
			severity = finding.Info
		}
		problem = problem || severity == finding.Problem
		findings = append(findings, s.finding(severity, reason,
			fmt.Sprintf("%s, for example %s: %s", finding.Counted(t.count, "runner waits", "runners wait"), t.example,
				cmp.Or(t.message, reason)), meaning.OfRunner(reason)))
	}
	if problem { // the condition is about one of these, perhaps with the reason that it had a moment ago
		return findings
	}
	return append(findings, s.fromCondition(finding.Problem,
		s.condition(v1alpha1.ConditionRunnersPending, metav1.ConditionTrue))...)
}

// passing reports whether a pod with this reason is still starting normally.
func passing(reason string) bool {
	return slices.Contains([]string{"ContainerCreating", "PodInitializing", v1alpha1.ReasonPending}, reason)
}

// pendingReason returns the scheduler's or the kubelet's reason why the pod's containers don't run, or "" if the pod
// runs or has ended.
func pendingReason(pod *corev1.Pod) (reason, message string) {
	if (pod.Status.Phase != corev1.PodPending && pod.Status.Phase != "") || pod.DeletionTimestamp != nil {
		return "", ""
	}
	if reason, message := podstatus.WhyUnplaced(pod); reason != "" {
		return reason, message
	}
	if reason, message := podstatus.WhyUnable(pod); reason != "" {
		return reason, message
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses,
		pod.Status.ContainerStatuses} {
		for i := range statuses {
			if w := statuses[i].State.Waiting; w != nil && w.Reason != "PodInitializing" {
				return w.Reason, w.Message
			}
		}
	}
	return v1alpha1.ReasonPending, "the pod has not started yet"
}

// The node needs a second or two to end the other containers of a pod whose runner has ended; what lives on after
// lingersFrom holds the pod's room, its part of the quota and its volumes.
const lingersFrom = 5 * time.Second

// checkLingering reports pods that other containers keep after their runner has ended: their job is over, and no count
// of runners has them.
func checkLingering(s set) []finding.Finding {
	var first string
	count := 0
	for i := range s.Pods {
		pod := &s.Pods[i]
		runner := kube.ContainerStatus(pod, v1alpha1.RunnerContainerName)
		if runner == nil || runner.State.Terminated == nil {
			continue
		}
		ago := s.Now.Sub(runner.State.Terminated.FinishedAt.Time)
		if others := podstatus.Alive(pod); len(others) > 0 && ago >= lingersFrom {
			if count++; count == 1 {
				first = fmt.Sprintf("%s, where %s %s after the runner's end", pod.Name,
					finding.Counted(len(others), "container runs", "containers run")+" ("+strings.Join(others, ", ")+")",
					ago.Round(time.Second))
			}
		}
	}
	if count == 0 {
		return nil
	}
	limit := v1alpha1.DefaultSidecarGracePeriod
	if given := s.Spec.SidecarGracePeriod; given != nil {
		limit = given.Duration
	}
	return []finding.Finding{s.finding(finding.Info, "SidecarsRunning",
		finding.Counted(count, "pod is kept", "pods are kept")+" by other containers although its runner has ended, for example "+
			first,
		fmt.Sprintf("nothing: they are killed %s after the runner's end. If it takes much longer, look at the node; if they need "+
			"longer, raise sidecarGracePeriod", limit))}
}

// checkFailedRunners reports why the failed runners that are kept as evidence failed.
func checkFailedRunners(s set) []finding.Finding {
	reasons := map[string]*tally{}
	for i := range s.Runners {
		r := &s.Runners[i]
		if r.Status.Phase == v1alpha1.EphemeralRunnerPhaseFailed && r.Status.LostCause == "" {
			add(reasons, r.Status.Reason, r.Name, r.Status.Message)
		}
	}
	var findings []finding.Finding
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		t := reasons[reason]
		findings = append(findings, s.finding(finding.Warning, reason,
			fmt.Sprintf("%s, for example %s: %s", finding.Counted(t.count, "runner failed", "runners failed"),
				t.example,
				cmp.Or(t.message, reason)), s.fixOfRunner(reason)))
	}
	return findings
}

// checkLostJobs reports the lost jobs whose runners are still there, in one finding with an example and a fix for each
// cause.
func checkLostJobs(s set) []finding.Finding {
	causes, total := map[string]*tally{}, 0
	for i := range s.Runners {
		if r := &s.Runners[i]; r.Status.LostCause != "" {
			add(causes, string(r.Status.LostCause), r.Name, r.Status.Message)
			total++
		}
	}
	if total == 0 {
		return nil
	}
	var messages, fixes []string
	if rerun := rerunsOf(s); rerun != "" {
		messages = append(messages, rerun)
	}
	for _, cause := range slices.Sorted(maps.Keys(causes)) {
		t := causes[cause]
		messages = append(messages, fmt.Sprintf("%d %s, for example of runner %s: %s", t.count, cause, t.example,
			cmp.Or(t.message, "no message")))
		fixes = append(fixes, fmt.Sprintf("%s: %s", cause,
			meaning.OfLoss(v1alpha1.LostCause(cause)).Advice))
	}
	message := fmt.Sprintf("%s in the last hour (%d since the scale set exists): %s",
		finding.Counted(total, "job was lost", "jobs were lost"), max(total, s.Status.LostJobs),
		strings.Join(messages, "; "))
	return []finding.Finding{s.finding(finding.Warning, "JobLost", message, strings.Join(fixes, "; ")+
		"; kubectl describe the scale set for the jobs, whose authors can run them again on GitHub")}
}

// rerunsOf counts the lost jobs by the state of their rerun, with an example of each; "" if none is to be run again.
func rerunsOf(s set) string {
	states := map[string]*tally{}
	for i := range s.Runners {
		if r := &s.Runners[i]; r.Status.LostCause != "" && r.Status.Rerun != nil {
			add(states, string(r.Status.Rerun.State), r.Name, r.Status.Rerun.Message)
		}
	}
	var parts []string
	for _, state := range []v1alpha1.RerunState{v1alpha1.RerunWanted, v1alpha1.RerunAsked, v1alpha1.RerunDone,
		v1alpha1.RerunGivenUp} {
		if t := states[string(state)]; t != nil {
			parts = append(parts, fmt.Sprintf("rerun %s: %d, for example of runner %s: %s", state, t.count, t.example,
				cmp.Or(t.message, "no message")))
		}
	}
	return strings.Join(parts, "; ")
}

// checkReruns reports lost jobs about which it is not decided yet whether they run again.
func checkReruns(s set) []finding.Finding {
	waiting := 0
	for i := range s.RunnerSets {
		waiting += s.RunnerSets[i].Status.RerunsWaiting
	}
	if waiting == 0 {
		return nil
	}
	return []finding.Finding{s.finding(finding.Info, "RerunsWaiting",
		finding.Counted(waiting, "lost job waits", "lost jobs wait")+" for the decision whether it runs again",
		"nothing: the oldest comes first, when its workflow run has ended and within the budget for GitHub's API; "+
			"gha_controller_reruns_waiting shows whether the number falls")}
}

// GitHub may count the job of a runner until countedFor has passed since the runner failed. In place of that job, no
// other runner is created.
const countedFor = 15 * time.Minute

// keptAsEvidence counts the runners that failed so long ago that others have taken their places. There may be a hundred
// of them.
func keptAsEvidence(s set) int {
	kept := 0
	for i := range s.Runners {
		r := &s.Runners[i]
		failed := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionStalled)
		if r.DeletionTimestamp == nil && r.Status.Phase == v1alpha1.EphemeralRunnerPhaseFailed && failed != nil &&
			failed.Status == metav1.ConditionTrue &&
			s.Now.Sub(failed.LastTransitionTime.Time) >= countedFor {
			kept++
		}
	}
	return kept
}

// checkKept reports deleted objects of a set that only the finalizers of others keep. It looks at the objects itself,
// so that it works without a manager; if it sees none, it reports what the set's condition says.
func checkKept(s set) []finding.Finding {
	var messages []string
	look := func(kind string, object client.Object, keepers []string) {
		if len(keepers) > 0 && s.Now.Sub(object.GetDeletionTimestamp().Time) >= kube.KeptGrace {
			messages = append(messages, kube.WhyKept(kind, client.ObjectKeyFromObject(object), keepers))
		}
	}
	look("AutoscalingRunnerSet", &s.AutoscalingRunnerSet, kube.Keepers(&s.AutoscalingRunnerSet))
	if s.Listener != nil {
		look("AutoscalingListener", s.Listener, kube.Keepers(s.Listener))
	}
	for i := range s.RunnerSets {
		look("EphemeralRunnerSet", &s.RunnerSets[i], kube.Keepers(&s.RunnerSets[i]))
	}
	for i := range s.Runners {
		look("EphemeralRunner", &s.Runners[i], kube.Keepers(&s.Runners[i]))
	}
	for i := range s.Pods {
		look("Pod", &s.Pods[i], kube.PodKeepers(&s.Pods[i]))
	}
	switch len(messages) {
	case 0:
		return s.fromCondition(finding.Problem, s.condition(v1alpha1.ConditionDeletionBlocked, metav1.ConditionTrue))
	case 1:
	default:
		messages[0] = fmt.Sprintf("%d objects can't be deleted; the first: %s", len(messages), messages[0])
	}
	return []finding.Finding{s.finding(finding.Problem, v1alpha1.ReasonForeignFinalizers, messages[0],
		meaning.OfCondition(v1alpha1.ConditionDeletionBlocked, v1alpha1.ReasonForeignFinalizers))}
}

// checkOwnerless reports objects with the set's labels and without a living owner. The manager removes them within
// seconds, unless they have a job or the manager lacks a right. Without runner sets nothing is known: perhaps they
// could not be read.
func checkOwnerless(s set) []finding.Finding {
	if len(s.RunnerSets) == 0 {
		return nil
	}
	owners, left := map[types.UID]bool{s.UID: true}, []string{}
	look := func(kind string, object client.Object) {
		owner, created := metav1.GetControllerOfNoCopy(object), object.GetCreationTimestamp()
		switch {
		case owner != nil && owners[owner.UID]:
			owners[object.GetUID()] = true
		case !created.IsZero() && s.Now.Sub(created.Time) >= kube.KeptGrace:
			left = append(left, kind+" "+object.GetName())
		}
	}
	for i := range s.RunnerSets {
		look("EphemeralRunnerSet", &s.RunnerSets[i])
	}
	for i := range s.Runners {
		look("EphemeralRunner", &s.Runners[i])
	}
	for i := range s.Pods {
		if s.Pods[i].Labels[v1alpha1.LabelRunner] != "" && metav1.GetControllerOfNoCopy(&s.Pods[i]) == nil {
			// others are garbage collected
			look("Pod", &s.Pods[i])
		}
	}
	if len(left) == 0 {
		return nil
	}
	return []finding.Finding{s.finding(finding.Warning, v1alpha1.ReasonOwnerless,
		fmt.Sprintf("%s the scale set's labels and no owner that lives, as after a restore from a backup; the "+
			"first: %s",
			finding.Counted(len(left), "object has", "objects have"), left[0]),
		"wait: the manager removes them, and lets those with a job finish it; a pod that stays needs the "+
			"rights of the scale set's chart, or kubectl delete (docs/backup.md)")}
}
