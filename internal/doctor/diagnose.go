package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
)

// Diagnose returns what may keep jobs from running: problems first, then warnings, then the rest. Findings of the same severity
// follow the path of a job, because an earlier failure hides later ones.
func Diagnose(s *Snapshot) []Finding {
	findings := installation(s)
	for i := range s.Sets {
		for _, check := range []func(*Set) []Finding{
			checkSpec, checkKept, checkPermissions, checkCredentials, checkRegistration, checkListener, checkStopped, checkLimits, checkPendingRunners, checkJobPods,
			checkFailedRunners, checkLostJobs, checkMissingRunners, checkStrays, checkOwnerless, checkNoJobs, checkProtection, checkToken, checkEvents,
		} {
			findings = append(findings, check(&s.Sets[i])...)
		}
	}
	slices.SortStableFunc(findings, func(a, b Finding) int { return weight(a.Severity) - weight(b.Severity) })
	return unique(findings)
}

// unique drops findings with the object and reason of an earlier one, because one cause shows in many places. A check that finds
// several causes with the same reason therefore reports them in one finding.
func unique(findings []Finding) []Finding {
	type cause struct{ object, reason string }
	seen := map[cause]bool{}
	return slices.DeleteFunc(findings, func(f Finding) bool {
		c := cause{f.Object, f.Reason}
		again := seen[c]
		seen[c] = true
		return again
	})
}

func weight(s Severity) int { return slices.Index([]Severity{Problem, Warning, Info}, s) }

// finding returns a finding about the set.
func (s *Set) finding(severity Severity, reason, message, fix string) Finding {
	return Finding{Severity: severity, Object: "AutoscalingRunnerSet " + s.Namespace + "/" + s.Name, Reason: reason, Message: message, Fix: fix}
}

// condition returns a condition of the set if it has the status.
func (s *Set) condition(about string, status metav1.ConditionStatus) *metav1.Condition {
	if c := meta.FindStatusCondition(s.Status.Conditions, about); c != nil && c.Status == status {
		return c
	}
	return nil
}

// fromCondition returns a condition as a finding, or none if it is nil.
func (s *Set) fromCondition(severity Severity, c *metav1.Condition) []Finding {
	if c == nil {
		return nil
	}
	message := c.Message
	if message == "" {
		message = fmt.Sprintf("condition %s is %s", c.Type, c.Status)
	}
	return []Finding{s.finding(severity, c.Reason, message, s.fixOfCondition(c))}
}

// installation checks what all scale sets depend on.
func installation(s *Snapshot) []Finding {
	var findings []Finding
	switch {
	case s.NotInstalled:
		return []Finding{{Severity: Problem, Reason: "NotInstalled", Message: "the cluster does not know the kind AutoscalingRunnerSet",
			Fix: "install the chart gha-runner-scale-set-controller with crds.install=true"}}
	case len(s.Sets) == 0:
		findings = append(findings, notFound(s))
	}
	if s.OutdatedCRDs != nil {
		findings = append(findings, Finding{Severity: Problem, Reason: "OutdatedCRDs", Message: s.OutdatedCRDs.Error(),
			Fix: "helm upgrade the controller's chart with crds.install=true; the manager starts within 30 s of that"})
	}
	_, unseen := s.Unread["Deployments"]
	if len(s.Managers) == 0 && !unseen {
		findings = append(findings, Finding{Severity: Warning, Reason: "NoManager", Message: "there is no Deployment of the chart gha-runner-scale-set-controller",
			Fix: "install the chart, unless the manager runs in another way"})
	}
	for i := range s.Managers {
		manager := &s.Managers[i]
		if manager.Status.AvailableReplicas == 0 {
			findings = append(findings, notRunning(manager))
		}
	}
	return slices.Concat(findings, ignoredListeners(s), sharedIdentities(s), unreadable(s), unread(s))
}

// ignoredListeners reports listeners that no manager serves, in one finding for each namespace.
func ignoredListeners(s *Snapshot) (findings []Finding) {
	byNamespace := map[string][]string{}
	for i := range s.Listeners {
		listener := &s.Listeners[i]
		if why := s.ignored(listener); why != "" && s.concerns(listener) {
			byNamespace[listener.Namespace] = append(byNamespace[listener.Namespace], fmt.Sprintf("%s (%s)", listener.Name, why))
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		names := byNamespace[namespace]
		message := "AutoscalingListeners that the manager ignores: " + strings.Join(names[:min(namedSets, len(names))], ", ")
		if more := len(names) - namedSets; more > 0 {
			message += fmt.Sprintf(" and %d more", more)
		}
		findings = append(findings, Finding{Severity: Warning, Object: "Namespace " + namespace, Reason: v1alpha1.ReasonListenerIgnored, Message: message,
			Fix: fmt.Sprintf("find out who created them, because the manager creates its own; then kubectl -n %s delete autoscalinglistener NAME; if one stays, "+
				`kubectl -n %[1]s patch autoscalinglistener NAME --type merge --patch '{"metadata":{"finalizers":null}}'`, namespace)})
	}
	return findings
}

// sharedIdentities reports applications with which the sets of several namespaces read a vault, if a manager has no list of vaults: each
// of these sets can name the others' secrets.
func sharedIdentities(s *Snapshot) (findings []Finding) {
	open := slices.ContainsFunc(s.Managers, func(m appsv1.Deployment) bool { return !limitsVaults(&m) })
	if !open {
		return nil
	}
	namespaces := map[string][]string{}
	for i := range s.Sets {
		vault := s.Sets[i].Spec.VaultConfig
		if vault == nil || vault.Type == "" || vault.AzureKeyVault == nil || slices.Contains(namespaces[vault.AzureKeyVault.ClientID], s.Sets[i].Namespace) {
			continue
		}
		namespaces[vault.AzureKeyVault.ClientID] = append(namespaces[vault.AzureKeyVault.ClientID], s.Sets[i].Namespace)
	}
	for _, application := range slices.Sorted(maps.Keys(namespaces)) {
		if sharers := slices.Sorted(slices.Values(namespaces[application])); len(sharers) > 1 {
			findings = append(findings, Finding{Severity: Warning, Object: "application " + application, Reason: "SharedVaultIdentity",
				Message: fmt.Sprintf("scale sets in %s read vaults as this application, and nothing keeps one from reading another's secrets",
					strings.Join(sharers, ", ")),
				Fix: "set the controller chart's value vaults, which says what each namespace may read (docs/authentication.md)"})
		}
	}
	return findings
}

// ignored returns why no manager serves a listener, empty if one may.
func (s *Snapshot) ignored(listener *v1alpha1.AutoscalingListener) string {
	labels, spec := kube.LabelledSet(listener), types.NamespacedName{
		Namespace: listener.Spec.AutoscalingRunnerSetNamespace, Name: listener.Spec.AutoscalingRunnerSetName,
	}
	i := slices.IndexFunc(s.Sets, func(set Set) bool { return set.Namespace == labels.Namespace && set.Name == labels.Name })
	everything := s.Namespace == "" && !s.NotInstalled
	switch {
	case len(s.Managers) == 0 || listener.DeletionTimestamp != nil:
		return ""
	case !s.mayServe(listener.Namespace):
		return "no manager runs in this namespace"
	case labels != spec:
		return fmt.Sprintf("its labels name scale set %q and its spec %q", labels, spec)
	case i < 0 && everything && !slices.Contains(s.Others, labels.String()):
		return fmt.Sprintf("there is no scale set %s", labels)
	case i >= 0 && s.Sets[i].Listener != nil && s.Sets[i].Listener.Namespace == listener.Namespace && s.Sets[i].Listener.Name != listener.Name:
		return fmt.Sprintf("scale set %s has another, %s", labels, s.Sets[i].Listener.Name)
	}
	return ""
}

// concerns reports whether a listener is in the requested namespace, or says that it is for a scale set there.
func (s *Snapshot) concerns(listener *v1alpha1.AutoscalingListener) bool {
	named := []string{listener.Namespace, kube.LabelledSet(listener).Namespace, listener.Spec.AutoscalingRunnerSetNamespace}
	return s.Namespace == "" || slices.Contains(named, s.Namespace)
}

// limitsVaults reports whether the manager has a list of what may be read from vaults.
func limitsVaults(manager *appsv1.Deployment) bool {
	return slices.ContainsFunc(manager.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Args, func(argument string) bool {
			list, found := strings.CutPrefix(argument, "--vaults=")
			return found && list != "[]"
		})
	})
}

// unreadable reports objects that the manager leaves as they are because it can't decode them. A runner is only one of many, but
// a set has just one object of each other kind.
func unreadable(s *Snapshot) (findings []Finding) {
	for _, object := range s.Unreadable {
		severity := Problem
		if object.Kind == "EphemeralRunner" {
			severity = Warning
		}
		findings = append(findings, Finding{Severity: severity, Object: object.Kind + " " + object.Namespace + "/" + object.Name, Reason: "Unreadable",
			Message: "a field can't be decoded, so the manager leaves the object as it is: " + object.Cause,
			Fix:     "correct the field with kubectl edit, or delete the object"})
	}
	return findings
}

// notRunning reports a manager without a ready pod. The status of scale sets is then the last one that it wrote.
func notRunning(manager *appsv1.Deployment) Finding {
	message, command := "no pod of the manager is ready", "kubectl -n %s describe deployment %s; kubectl -n %[1]s logs deployment/%[2]s"
	if ptr.Deref(manager.Spec.Replicas, 1) == 0 {
		message, command = "the manager is scaled to 0", "kubectl -n %s scale deployment %s --replicas=1"
	}
	return Finding{Severity: Problem, Object: "Deployment " + manager.Namespace + "/" + manager.Name, Reason: "ManagerNotRunning",
		Message: message + ", so no runners are created or removed, and the status of scale sets may be out of date",
		Fix:     fmt.Sprintf(command, manager.Namespace, manager.Name)}
}

// unread reports the kinds that were not checked, with the error of one of them: the cause is the same for all, the caller's
// permissions.
func unread(s *Snapshot) []Finding {
	kinds := slices.Sorted(maps.Keys(s.Unread))
	if len(kinds) == 0 {
		return nil
	}
	return []Finding{{Severity: Info, Reason: "NotRead",
		Message: fmt.Sprintf("%s could not be read and were not checked: %v", strings.Join(kinds, ", "), s.Unread[kinds[0]]),
		Fix:     "run the doctor with more permissions to check them"}}
}

// namedSets is how many existing scale sets are listed if the requested one doesn't exist.
const namedSets = 10

func notFound(s *Snapshot) Finding {
	found := Finding{Severity: Problem, Reason: "NoScaleSet", Message: "there is no scale set",
		Fix: "install one with the chart gha-runner-scale-set; runs-on in the workflow is its release name, or runnerScaleSetName if that is set"}
	if s.Name != "" {
		found.Message += fmt.Sprintf(" %q", s.Name)
	}
	if s.Namespace != "" {
		found.Message += " in namespace " + s.Namespace
	}
	if len(s.Others) > 0 {
		found.Message += "; scale sets that exist: " + strings.Join(s.Others[:min(namedSets, len(s.Others))], ", ")
		found.Fix = "correct the name or -n, or " + found.Fix
	}
	if more := len(s.Others) - namedSets; more > 0 {
		found.Message += fmt.Sprintf(" and %d more", more)
	}
	return found
}

// checkSpec reports an invalid spec, and one that the manager has not reconciled, does not fully support or uses in part.
func checkSpec(s *Set) []Finding {
	var findings []Finding
	if _, err := actions.ParseConfigURL(s.Spec.GitHubConfigUrl); err != nil {
		findings = append(findings, s.finding(Problem, v1alpha1.ReasonInvalidConfigURL, err.Error(), "correct githubConfigUrl"))
	}
	if s.DeletionTimestamp != nil {
		findings = append(findings, s.finding(Problem, "Deleting", "the scale set has been in deletion since "+s.DeletionTimestamp.String(),
			"busy runners finish first; the condition Ready says what the deletion waits for"))
	}
	if s.Status.ObservedGeneration < s.Generation {
		findings = append(findings, s.finding(Problem, "NotReconciled", "the manager has not reconciled the current spec",
			"check that a manager runs and watches this namespace (flags.watchSingleNamespace)"))
	}
	return append(append(findings, s.fromCondition(Warning, s.condition(v1alpha1.ConditionVersionSupported, metav1.ConditionFalse))...),
		s.fromCondition(Warning, s.condition(v1alpha1.ConditionListenerTemplateAccepted, metav1.ConditionFalse))...)
}

// checkCredentials reports why the credentials can't be used.
func checkCredentials(s *Set) []Finding {
	if refused := s.fromCondition(Problem, s.condition(v1alpha1.ConditionCredentialsValid, metav1.ConditionFalse)); refused != nil {
		return refused
	}
	if s.Credentials == nil {
		return nil
	}
	reason := cmp.Or(credentials.Reason(s.Credentials), v1alpha1.ReasonCredentialsInvalid)
	return []Finding{s.finding(Problem, reason, s.Credentials.Error(), fixOf(v1alpha1.ConditionCredentialsValid, reason))}
}

// checkRegistration reports problems with the scale set on GitHub. Without valid credentials GitHub is not asked, so they come first.
func checkRegistration(s *Set) []Finding {
	if s.condition(v1alpha1.ConditionCredentialsValid, metav1.ConditionFalse) != nil {
		return nil
	}
	labels := s.fromCondition(Warning, s.condition(v1alpha1.ConditionLabelsInSync, metav1.ConditionFalse))
	for i := range labels {
		labels[i].Fix = fixOfLabels(s.Spec.GitHubConfigUrl)
	}
	return slices.Concat(s.fromCondition(Warning, s.condition(v1alpha1.ConditionCredentialsValid, metav1.ConditionUnknown)),
		s.fromCondition(Problem, s.condition(v1alpha1.ConditionScaleSetRegistered, metav1.ConditionFalse)),
		s.fromCondition(Warning, s.condition(v1alpha1.ConditionScaleSetRegistered, metav1.ConditionUnknown)), labels)
}

// checkListener reports problems with the listener, which doesn't exist before the scale set is registered on GitHub.
func checkListener(s *Set) []Finding {
	if s.condition(v1alpha1.ConditionScaleSetRegistered, metav1.ConditionTrue) == nil {
		return nil
	}
	findings := append(s.fromCondition(Problem, s.condition(v1alpha1.ConditionListenerReady, metav1.ConditionFalse)),
		s.fromCondition(Warning, s.condition(v1alpha1.ConditionListenerReady, metav1.ConditionUnknown))...)
	for i := range findings {
		if listener := s.Listener; listener != nil {
			findings[i].Fix += fmt.Sprintf("; kubectl -n %s describe autoscalinglistener,pod %s; kubectl -n %[1]s logs %[2]s", listener.Namespace, listener.Name)
		}
	}
	return findings
}

// checkStopped reports why the manager creates no runners, or fewer than GitHub's figures ask for.
func checkStopped(s *Set) []Finding {
	findings := s.fromCondition(Problem, s.condition(v1alpha1.ConditionRunnerOutdated, metav1.ConditionTrue))
	findings = append(findings, s.fromCondition(Problem, s.condition(v1alpha1.ConditionPodTemplateRefused, metav1.ConditionTrue))...)
	findings = append(findings, s.fromCondition(Problem, s.condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue))...)
	findings = append(findings, s.fromCondition(Warning, s.condition(v1alpha1.ConditionStatisticsDoubtful, metav1.ConditionTrue))...)
	if ready := s.condition(v1alpha1.ConditionReady, metav1.ConditionFalse); ready != nil && ready.Reason == v1alpha1.ReasonReconcileFailed {
		findings = append(findings, s.fromCondition(Problem, ready)...)
	}
	return findings
}

// checkLimits reports limits that allow no more runners.
func checkLimits(s *Set) []Finding {
	findings := append(s.fromCondition(Problem, s.condition(v1alpha1.ConditionQuotaExceeded, metav1.ConditionTrue)), fullQuotas(s)...)
	most, runnerSet := s.Spec.MaxRunners, s.runnerSet()
	if runnerSet != nil && runnerSet.Spec.MaxRunners != nil && *runnerSet.Spec.MaxRunners <= runnerSet.Spec.AssignedJobs &&
		(most == nil || *most > *runnerSet.Spec.MaxRunners) {
		return append(findings, s.finding(Warning, v1alpha1.ReasonMaxRunnersReached,
			fmt.Sprintf("the manager allows the scale set %s, with %s; more jobs wait on GitHub",
				counted(*runnerSet.Spec.MaxRunners, "runner", "runners"), counted(runnerSet.Spec.AssignedJobs, "assigned job", "assigned jobs")),
			"wait for a runner to finish; the limit is flags.maxRunnersPerSet of the controller's chart, which the cluster's administrator decides, "+
				"or maxRunners less the runners of a former template"))
	}
	switch {
	case most != nil && *most == 0:
		return append(findings, s.finding(Problem, v1alpha1.ReasonMaxRunnersZero,
			"maxRunners is 0: the scale set takes no jobs, and its listener has no session; jobs that run finish", "raise maxRunners"))
	case most != nil && runnerSet != nil && runnerSet.Spec.AssignedJobs >= *most:
		return append(findings, s.finding(Warning, v1alpha1.ReasonMaxRunnersReached,
			fmt.Sprintf("maxRunners of %d is reached, with %s; more jobs wait on GitHub", *most, counted(runnerSet.Spec.AssignedJobs, "assigned job", "assigned jobs")),
			"raise maxRunners, or wait for a runner to finish"))
	}
	return findings
}

// checkMissingRunners reports runners that are wanted but don't exist, if no condition says why.
func checkMissingRunners(s *Set) []Finding {
	status := &s.Status
	missing := status.DesiredRunners - (status.CurrentRunners - keptAsEvidence(s))
	explanations := []string{v1alpha1.ConditionRunnerOutdated, v1alpha1.ConditionDegraded, v1alpha1.ConditionStatisticsDoubtful}
	if missing <= 0 || slices.ContainsFunc(explanations, func(about string) bool { return s.condition(about, metav1.ConditionTrue) != nil }) {
		return nil
	}
	if ended := endedWithoutJob(s); ended > 0 {
		return []Finding{s.finding(Warning, v1alpha1.ReasonRunnerExitedWithoutJob,
			fmt.Sprintf("%s with code 0 and no known job; within two minutes GitHub shows whether there was one",
				counted(ended, "runner has ended", "runners have ended")),
			"run the doctor again in two minutes; if this is still reported, "+s.fixOfRunner(v1alpha1.ReasonRunnerExitedWithoutJob))}
	}
	return []Finding{s.finding(Warning, "RunnersMissing",
		fmt.Sprintf("%s for %s, and %d of them do not exist yet", counted(status.DesiredRunners, "runner is wanted", "runners are wanted"),
			counted(status.AssignedJobs, "assigned job", "assigned jobs"), missing),
		"run the doctor again in a few seconds: the runners of a burst take a moment to create; if this is still reported, read the manager's log")}
}

// checkStrays reports registrations without a runner. They take no jobs; what matters is why they are there.
func checkStrays(s *Set) []Finding {
	runnerSet := s.runnerSet()
	if runnerSet == nil || runnerSet.Status.Listener == nil || runnerSet.Status.Listener.StrayRegistrations == 0 {
		return nil
	}
	return []Finding{s.finding(Info, "StrayRegistrations",
		fmt.Sprintf("GitHub counts %s offline that no runner here accounts for, as after a restore of the cluster from a backup",
			counted(runnerSet.Status.Listener.StrayRegistrations, "registration", "registrations")),
		fmt.Sprintf("the manager removes them within 15 minutes; if they are still reported after that, kubectl -n %s describe ephemeralrunnerset %s says why",
			runnerSet.Namespace, runnerSet.Name))}
}

// checkNoJobs reports a set that is ready but has no job.
func checkNoJobs(s *Set) []Finding {
	runnerSet := s.runnerSet()
	off := ptr.Deref(s.Spec.MaxRunners, 1) == 0 // which checkLimits reports
	if s.condition(v1alpha1.ConditionReady, metav1.ConditionTrue) == nil || runnerSet == nil || runnerSet.Spec.AssignedJobs > 0 || off {
		return nil
	}
	labels := append([]string{cmp.Or(s.Spec.RunnerScaleSetName, s.Name)}, s.Spec.RunnerScaleSetLabels...)
	return []Finding{s.finding(Info, "NoJobAssigned", "the scale set is ready and GitHub has assigned it no job",
		fmt.Sprintf("if a job waits: its runs-on must be among [%s]; runner group %q must allow its repository and workflow; "+
			"it must not be waiting for an approval or a concurrency group; and it must belong to %s",
			strings.Join(labels, ", "), group(s), s.Spec.GitHubConfigUrl))}
}

func group(s *Set) string {
	if s.Status.Registration != nil && s.Status.Registration.Group != "" {
		return s.Status.Registration.Group
	}
	return cmp.Or(s.Spec.RunnerGroup, "Default")
}
