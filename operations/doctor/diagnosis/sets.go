package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/capacity/limits"
	"github.com/harrier-ci/harrier/internal/causes"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/finding"
)

// checks are those of one scale set, in the order of a job's path.
var checks = []func(set) []finding.Finding{
	checkSpec, checkKept, checkPermissions, checkCredentials, checkRegistration, checkListener, checkSchedules,
	checkStopped, checkLimits, checkPendingRunners, checkLingering, checkClaims,
	checkJobPods, checkFailedRunners, checkLostJobs, checkReruns, checkWaits, checkMissingRunners, checkStrays, checkOwnerless,
	checkNoJobs, checkProtection, checkJobGrace, checkToken,
}

// Diagnose returns the findings about what may keep jobs from running: problems first, then warnings, then the rest.
// Findings of the same severity follow the path of a job, because an earlier failure hides later ones.
func Diagnose(s *snapshot.Snapshot) []finding.Finding {
	findings := installation(s)
	for i := range s.Sets {
		of := set{&s.Sets[i], leavesAnnotations(s.Managers, s.Sets[i].Listener)}
		var found []finding.Finding
		for _, check := range checks {
			found = append(found, check(of)...)
		}
		findings = append(append(findings, found...), checkEvents(of, found)...)
	}
	slices.SortStableFunc(findings, func(a, b finding.Finding) int { return weight(a.Severity) - weight(b.Severity) })
	return unique(findings)
}

// Foremost returns the finding that keeps a scale set from running more jobs: its first problem, or else the limit that
// it has reached; nil if nothing does. A set of which only the objects of our kinds were read will do.
func Foremost(s *snapshot.Set) *finding.Finding {
	of := set{Set: s}
	for _, check := range checks {
		for _, found := range check(of) {
			if found.Severity == finding.Problem {
				return &found
			}
		}
	}
	for _, found := range checkLimits(of) {
		return &found
	}
	return nil
}

// Expiring returns the finding that GitHub soon refuses the runner version of a scale set, or does by its rules; nil if
// nothing says so.
func Expiring(s *snapshot.Set) *finding.Finding {
	of := set{Set: s}
	for _, found := range of.fromCondition(finding.Warning, of.condition(v1alpha1.ConditionRunnerVersionExpires,
		metav1.ConditionTrue)) {
		return &found
	}
	return nil
}

// unique drops findings with the object and reason of an earlier one, because one cause shows in many places. A check
// that finds several causes with the same reason therefore reports them in one finding.
func unique(findings []finding.Finding) []finding.Finding {
	type cause struct{ object, reason string }
	seen := map[cause]bool{}
	return slices.DeleteFunc(findings, func(f finding.Finding) bool {
		c := cause{f.Object, f.Reason}
		again := seen[c]
		seen[c] = true
		return again
	})
}

func weight(s finding.Severity) int {
	return slices.Index([]finding.Severity{finding.Problem, finding.Warning, finding.Info}, s)
}

// checkSpec reports an invalid spec, and one that the manager has not reconciled, does not fully support or uses in
// part.
func checkSpec(s set) []finding.Finding {
	var findings []finding.Finding
	if _, err := actions.ParseConfigURL(s.Spec.GitHubConfigUrl); err != nil {
		findings = append(findings, s.finding(finding.Problem, v1alpha1.ReasonInvalidConfigURL, err.Error(),
			"correct githubConfigUrl"))
	}
	if s.DeletionTimestamp != nil {
		findings = append(findings, s.finding(finding.Problem, "Deleting", "the scale set has been in deletion since "+
			s.DeletionTimestamp.String(),
			"busy runners finish first; the condition Ready says what the deletion waits for"))
	}
	if s.Status.ObservedGeneration < s.Generation {
		findings = append(findings, s.finding(finding.Problem, "NotReconciled",
			"the manager has not reconciled the current spec",
			"check that a manager runs and watches this namespace (flags.watchSingleNamespace)"))
	}
	if s.DeletionTimestamp != nil {
		return findings // nobody upgrades it any more
	}
	return append(append(findings, s.fromCondition(finding.Warning,
		s.condition(v1alpha1.ConditionVersionSupported, metav1.ConditionFalse))...),
		s.fromCondition(finding.Warning, s.condition(v1alpha1.ConditionListenerTemplateAccepted,
			metav1.ConditionFalse))...)
}

// checkPermissions reports permissions that manager or listener lack, in one finding: the fix is the same for both.
func checkPermissions(s set) []finding.Finding {
	if len(s.Denials) == 0 {
		return nil
	}
	var denials []string
	for _, denial := range s.Denials {
		denials = append(denials, fmt.Sprintf("%s may not %s in namespace %s", denial.Account,
			strings.Join(denial.Actions, ", "), s.Namespace))
	}
	fix := "helm upgrade the scale set: its chart contains the manager's Role and RoleBinding, and the manager " +
		"creates the listener's; a scale set installed without the chart needs such a Role"
	if s.DeletionTimestamp != nil {
		fix = "create the manager's Role and RoleBinding again until the scale set is gone: manager_role.yaml and " +
			"manager_role_binding.yaml of its chart, by helm template with --show-only and the values of its release"
	}
	return []finding.Finding{s.finding(finding.Problem, "MissingPermission", strings.Join(denials, "; "), fix)}
}

// checkCredentials reports why the credentials can't be used.
func checkCredentials(s set) []finding.Finding {
	if refused := s.fromCondition(finding.Problem,
		s.condition(v1alpha1.ConditionCredentialsValid, metav1.ConditionFalse)); refused != nil {
		return refused
	}
	if s.Credentials == nil {
		return nil
	}
	reason := cmp.Or(causes.Of(s.Credentials).Reason, v1alpha1.ReasonCredentialsInvalid)
	return []finding.Finding{s.finding(finding.Problem, reason, s.Credentials.Error(),
		meaning.OfCondition(v1alpha1.ConditionCredentialsValid, reason))}
}

// checkRegistration reports problems with the scale set on GitHub. Without valid credentials GitHub is not asked, so
// they come first.
func checkRegistration(s set) []finding.Finding {
	if s.condition(v1alpha1.ConditionCredentialsValid, metav1.ConditionFalse) != nil {
		return nil
	}
	labels := s.fromCondition(finding.Warning, s.condition(v1alpha1.ConditionLabelsInSync, metav1.ConditionFalse))
	for i := range labels {
		labels[i].Fix = "use one label, or upgrade GitHub Enterprise Server"
		if config, err := actions.ParseConfigURL(s.Spec.GitHubConfigUrl); err == nil && config.Hosted {
			labels[i].Fix = "remove them from scaleSetLabels, or uninstall the scale set while no job is queued, and " +
				"install it again with them"
		}
	}
	return slices.Concat(s.fromCondition(finding.Warning,
		s.condition(v1alpha1.ConditionCredentialsValid, metav1.ConditionUnknown)),
		s.fromCondition(finding.Problem, s.condition(v1alpha1.ConditionScaleSetRegistered, metav1.ConditionFalse)),
		s.fromCondition(finding.Warning, s.condition(v1alpha1.ConditionScaleSetRegistered, metav1.ConditionUnknown)),
		labels)
}

// checkListener reports problems with the listener, which doesn't exist before the scale set is registered on GitHub.
func checkListener(s set) []finding.Finding {
	if s.condition(v1alpha1.ConditionScaleSetRegistered, metav1.ConditionTrue) == nil {
		return nil
	}
	findings := append(s.fromCondition(finding.Problem,
		s.condition(v1alpha1.ConditionListenerReady, metav1.ConditionFalse)),
		s.fromCondition(finding.Warning, s.condition(v1alpha1.ConditionListenerReady, metav1.ConditionUnknown))...)
	for i := range findings {
		if listener := s.Listener; listener != nil {
			findings[i].Fix += fmt.Sprintf("; kubectl -n %s describe autoscalinglistener,pod %s; kubectl -n %[1]s "+
				"logs %[2]s",
				listener.Namespace, listener.Name)
		}
	}
	return findings
}

// checkSchedules reports schedules that can't be followed.
func checkSchedules(s set) []finding.Finding {
	findings := s.fromCondition(finding.Problem,
		s.condition(v1alpha1.ConditionSchedulesAccepted, metav1.ConditionFalse))
	for i := range findings {
		findings[i].Fix = "correct the field in the values of the scale set, and check it with manager validate"
	}
	return findings
}

// checkStopped reports why the manager creates no runners, or fewer than GitHub's figures ask for.
func checkStopped(s set) []finding.Finding {
	findings := s.fromCondition(finding.Problem, s.condition(v1alpha1.ConditionRunnerOutdated, metav1.ConditionTrue))
	if expiring := Expiring(s.Set); expiring != nil && len(findings) == 0 {
		findings = append(findings, *expiring)
	}
	findings = append(findings, s.fromCondition(finding.Problem,
		s.condition(v1alpha1.ConditionPodTemplateRefused, metav1.ConditionTrue))...)
	findings = append(findings, s.refusedJobs()...)
	findings = append(findings, s.fromCondition(finding.Warning,
		s.condition(v1alpha1.ConditionPodsAltered, metav1.ConditionTrue))...)
	findings = append(findings, s.fromCondition(finding.Info, s.extended())...)
	findings = append(findings, s.fromCondition(finding.Problem,
		s.condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue))...)
	findings = append(findings, s.fromCondition(finding.Warning,
		s.condition(v1alpha1.ConditionStatisticsDoubtful, metav1.ConditionTrue))...)
	findings = append(findings, s.fromCondition(finding.Warning,
		s.condition(v1alpha1.ConditionFeedbackPermitted, metav1.ConditionFalse))...)
	if ready := s.condition(v1alpha1.ConditionReady, metav1.ConditionFalse); ready != nil &&
		ready.Reason == v1alpha1.ReasonReconcileFailed {
		findings = append(findings, s.fromCondition(finding.Problem, ready)...)
	}
	return findings
}

// refusedJobs reports that pods of jobs are refused: a warning if that is perhaps for an image alone.
func (s set) refusedJobs() []finding.Finding {
	c, severity := s.condition(v1alpha1.ConditionJobPodRefused, metav1.ConditionTrue), finding.Problem
	if c != nil && c.Reason == v1alpha1.ReasonJobImageRefused {
		severity = finding.Warning
	}
	return s.fromCondition(severity, c)
}

// extended returns the condition that says what policies add to pods, nil if there is nothing of the kind.
func (s set) extended() *metav1.Condition {
	if c := s.condition(v1alpha1.ConditionPodsAltered, metav1.ConditionFalse); c != nil && c.Reason == "PodsExtended" {
		return c
	}
	return nil
}

// checkMissingRunners reports runners that are wanted but don't exist, if no condition says why.
func checkMissingRunners(s set) []finding.Finding {
	status := &s.Status
	missing := status.DesiredRunners - (status.CurrentRunners - keptAsEvidence(s))
	explanations := []string{v1alpha1.ConditionRunnerOutdated, v1alpha1.ConditionDegraded,
		v1alpha1.ConditionStatisticsDoubtful, v1alpha1.ConditionStartsLimited}
	if missing <= 0 || slices.ContainsFunc(explanations,
		func(about string) bool { return s.condition(about, metav1.ConditionTrue) != nil }) ||
		s.condition(v1alpha1.ConditionVolumeClaimsReady, metav1.ConditionFalse) != nil {
		return nil
	}
	ended := 0 // without a job on record
	for i := range s.Runners {
		if status := &s.Runners[i].Status; status.Phase == v1alpha1.EphemeralRunnerPhaseSucceeded && !status.HadJob() {
			ended++
		}
	}
	if ended > 0 {
		return []finding.Finding{s.finding(finding.Warning, v1alpha1.ReasonRunnerExitedWithoutJob,
			fmt.Sprintf("%s with code 0 and no known job; within two minutes GitHub shows whether there was one",
				finding.Counted(ended, "runner has ended", "runners have ended")),
			"run the doctor again in two minutes; if this is still reported, "+
				s.fixOfRunner(v1alpha1.ReasonRunnerExitedWithoutJob))}
	}
	return []finding.Finding{s.finding(finding.Warning, "RunnersMissing",
		fmt.Sprintf("%s for %s, and %d of them do not exist yet",
			finding.Counted(status.DesiredRunners, "runner is wanted", "runners are wanted"),
			finding.Counted(status.AssignedJobs, "assigned job", "assigned jobs"), missing),
		"run the doctor again in a few seconds: the runners of a burst take a moment to create; if this is still "+
			"reported, read the manager's log")}
}

// checkStrays reports registrations without a runner. They take no jobs; what matters is the reason for which they are
// there.
func checkStrays(s set) []finding.Finding {
	runnerSet := s.RunnerSet()
	if runnerSet == nil || runnerSet.Status.Listener == nil || runnerSet.Status.Listener.StrayRegistrations == 0 {
		return nil
	}
	return []finding.Finding{s.finding(finding.Info, "StrayRegistrations",
		fmt.Sprintf("GitHub counts %s offline that no runner here accounts for, as after a restore of the "+
			"cluster from a backup",
			finding.Counted(runnerSet.Status.Listener.StrayRegistrations, "registration", "registrations")),
		fmt.Sprintf("the manager removes them within 15 minutes; if they are still reported after that, kubectl -n %s "+
			"describe ephemeralrunnerset %s says why",
			runnerSet.Namespace, runnerSet.Name))}
}

// checkNoJobs reports a set that is ready but has no job.
func checkNoJobs(s set) []finding.Finding {
	runnerSet := s.RunnerSet()
	limited := s.Status.LimitedBy != nil && s.Status.LimitedBy.Kind == limits.NoJobs // which checkLimits reports
	if s.condition(v1alpha1.ConditionReady, metav1.ConditionTrue) == nil || runnerSet == nil ||
		runnerSet.Spec.AssignedJobs > 0 || limited {
		return nil
	}
	labels := append([]string{cmp.Or(s.Spec.RunnerScaleSetName, s.Name)}, s.Spec.RunnerScaleSetLabels...)
	return []finding.Finding{s.finding(finding.Info, "NoJobAssigned",
		"the scale set is ready and GitHub has assigned it no job",
		fmt.Sprintf("if a job waits: its runs-on must be among [%s]; runner group %q must allow its repository and "+
			"workflow; it must not be waiting for an approval or a concurrency group; and it must belong to %s",
			strings.Join(labels, ", "), group(s), s.Spec.GitHubConfigUrl))}
}

func group(s set) string {
	if s.Status.Registration != nil && s.Status.Registration.Group != "" {
		return s.Status.Registration.Group
	}
	return cmp.Or(s.Spec.RunnerGroup, "Default")
}

// checkProtection reports what keeps running jobs from being protected from eviction, or every runner from being
// evicted. What protects the last jobs of a set in deletion goes with its release, and nobody can bring it back.
func checkProtection(s set) []finding.Finding {
	if s.Spec.ProtectRunners == v1alpha1.ProtectNoRunners || s.DeletionTimestamp != nil {
		return nil
	}
	var findings []finding.Finding
	if len(s.Unmarked.Actions) > 0 {
		findings = append(findings, s.finding(finding.Warning, "PodMetadataForbidden", fmt.Sprintf(
			"running jobs are not protected from eviction: %s may not %s in namespace %s", s.Unmarked.Account,
			strings.Join(s.Unmarked.Actions, ", "), s.Namespace),
			"helm upgrade the scale set: its chart contains a Role for this, which ends in -pod-metadata"))
	}
	if s.Budgets == nil {
		return append(findings, s.fromCondition(finding.Warning,
			s.condition(v1alpha1.ConditionRunnersUnprotected, metav1.ConditionTrue))...)
	}
	if reason, message := kube.Unprotected(&s.AutoscalingRunnerSet, s.Budgets.Items); reason != "" {
		findings = append(findings, s.finding(finding.Warning, reason, message,
			meaning.OfCondition(v1alpha1.ConditionRunnersUnprotected, reason)))
	}
	return findings
}

// checkToken reports permissions that somebody gives to the runners' account and that jobs can't use. ARC mounts the
// account's token, so jobs lose them by the move.
func checkToken(s set) []finding.Finding {
	if len(s.Bindings) == 0 {
		return nil
	}
	names := finding.Listed(s.Bindings, namedObjects)
	runners, _ := s.Tokenless()
	return []finding.Finding{s.finding(finding.Warning, "TokenNotMounted",
		fmt.Sprintf("%s: permissions for %s, whose token runner pods of ARC's chart have and those of "+
			"Harrier's don't: jobs can't use them", names, runners),
		"if jobs need them, set template.spec.automountServiceAccountToken: true in the values, or "+
			"template.spec.serviceAccountName to an account of your own; else delete the binding if it is for nobody else")}
}
