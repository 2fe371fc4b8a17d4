package diagnosis

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/revisions"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/finding"
)

// installation checks what all scale sets depend on.
func installation(s *snapshot.Snapshot) []finding.Finding {
	var findings []finding.Finding
	switch {
	case s.NotInstalled:
		return []finding.Finding{{Severity: finding.Problem, Reason: "NotInstalled",
			Message: "the cluster does not know the kind AutoscalingRunnerSet",
			Fix:     "install the chart gha-runner-scale-set-controller with crds.install=true"}}
	case len(s.Sets) == 0:
		findings = append(findings, notFound(s))
	}
	if s.OutdatedCRDs != nil {
		findings = append(findings, finding.Finding{Severity: finding.Problem, Reason: "OutdatedCRDs",
			Message: s.OutdatedCRDs.Error(),
			Fix: "helm upgrade the controller's chart with crds.install=true; the manager starts within 30 " +
				"s of that"})
	}
	_, unseen := s.Unread["Deployments"]
	if len(s.Managers) == 0 && !unseen {
		findings = append(findings, finding.Finding{Severity: finding.Warning, Reason: "NoManager",
			Message: "there is no Deployment of the chart gha-runner-scale-set-controller",
			Fix:     "install the chart, unless the manager runs in another way"})
	}
	findings = append(findings, mixedRevisions(s)...)
	for i := range s.Managers {
		if s.Managers[i].Status.AvailableReplicas == 0 {
			findings = append(findings, notRunning(&s.Managers[i], "Deployment", s.Managers[i].Spec.Replicas, "manager",
				"ManagerNotRunning",
				", so no runners are created or removed, and the status of scale sets may be out of date",
				finding.Problem))
		}
	}
	for i := range s.Ledgers {
		if s.Ledgers[i].Status.AvailableReplicas == 0 {
			findings = append(findings, notRunning(&s.Ledgers[i], "StatefulSet", s.Ledgers[i].Spec.Replicas, "ledger",
				"HistoryNotRunning",
				"; jobs don't depend on it, but those that end meanwhile may be missing from it", finding.Info))
		}
	}
	return slices.Concat(findings, ignoredListeners(s), sharedIdentities(s), left(s), unreadable(s),
		unread(s))
}

// mixedRevisions reports Deployments of managers with living pods of several templates: the newest pod's manager waits
// for the pods of the others, so nobody may act.
func mixedRevisions(s *snapshot.Snapshot) (findings []finding.Finding) {
	for i := range s.Managers {
		manager := &s.Managers[i]
		newest, found := newestRevision(s.ManagerPods, manager.Namespace, manager.Name)
		if !found {
			continue
		}
		others := newest.Others(s.ManagerPods)
		if len(others) == 0 {
			continue
		}
		findings = append(findings, finding.Finding{Severity: finding.Warning,
			Object: "Deployment " + manager.Namespace + "/" + manager.Name, Reason: v1alpha1.ReasonOtherRevisionLives,
			Message: fmt.Sprintf("pods of an earlier template live: %s; a manager of another template takes its Lease "+
				"only when they are gone, and until then nobody may create or remove runners",
				revisions.Describe(others)),
			Fix: newest.Advice(others)})
	}
	return findings
}

// newestRevision returns the revision of a Deployment's pod that was created last.
func newestRevision(pods []corev1.Pod, namespace, deployment string) (newest revisions.Revision, found bool) {
	sorted := slices.SortedFunc(slices.Values(pods), func(a, b corev1.Pod) int {
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	for i := range sorted {
		revision, ok := revisions.Of(&sorted[i])
		if ok && revision.Namespace == namespace && revision.Deployment == deployment {
			return revision, true
		}
	}
	return revisions.Revision{}, false
}

// ignoredListeners reports listeners that no manager serves, in one finding for each namespace.
func ignoredListeners(s *snapshot.Snapshot) (findings []finding.Finding) {
	byNamespace := map[string][]string{}
	for i := range s.Listeners {
		listener := &s.Listeners[i]
		if why := ignored(s, listener); why != "" && concerns(s, listener) {
			byNamespace[listener.Namespace] = append(byNamespace[listener.Namespace],
				fmt.Sprintf("%s (%s)", listener.Name, why))
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		findings = append(findings, finding.Finding{Severity: finding.Warning, Object: "Namespace " + namespace,
			Reason: v1alpha1.ReasonListenerIgnored,
			Message: "AutoscalingListeners that the manager ignores: " + finding.Listed(byNamespace[namespace],
				namedObjects),
			Fix: fmt.Sprintf("find out who created them, because the manager creates its own; then kubectl -n %s "+
				"delete autoscalinglistener NAME; if one stays, "+
				`kubectl -n %[1]s patch autoscalinglistener NAME --type merge --patch '{"metadata":{"finalizers":null}}'`,
				namespace)})
	}
	return findings
}

// ignored returns the reason why no manager serves a listener, empty if one may.
func ignored(s *snapshot.Snapshot, listener *v1alpha1.AutoscalingListener) string {
	labels, spec := kube.LabelledSet(listener), types.NamespacedName{
		Namespace: listener.Spec.AutoscalingRunnerSetNamespace, Name: listener.Spec.AutoscalingRunnerSetName,
	}
	i := slices.IndexFunc(s.Sets, func(known snapshot.Set) bool {
		return known.Namespace == labels.Namespace && known.Name == labels.Name
	})
	everything := s.Namespace == "" && !s.NotInstalled
	switch {
	case len(s.Managers) == 0 || listener.DeletionTimestamp != nil:
		return ""
	case !s.MayServe(listener.Namespace):
		return "no manager runs in this namespace"
	case labels != spec:
		return fmt.Sprintf("its labels name scale set %q and its spec %q", labels, spec)
	case i < 0 && everything && !slices.Contains(s.Others, labels.String()):
		return fmt.Sprintf("there is no scale set %s", labels)
	case i >= 0 && s.Sets[i].Listener != nil && s.Sets[i].Listener.Namespace == listener.Namespace &&
		s.Sets[i].Listener.Name != listener.Name:
		return fmt.Sprintf("scale set %s has another, %s", labels, s.Sets[i].Listener.Name)
	}
	return ""
}

// concerns reports whether a listener is in the requested namespace, or names a scale set there as its own.
func concerns(s *snapshot.Snapshot, listener *v1alpha1.AutoscalingListener) bool {
	named := []string{listener.Namespace, kube.LabelledSet(listener).Namespace,
		listener.Spec.AutoscalingRunnerSetNamespace}
	return s.Namespace == "" || slices.Contains(named, s.Namespace)
}

// sharedIdentities reports applications with which the sets of several namespaces read a vault, if a manager has no
// list of vaults: each of these sets can name the others' secrets.
func sharedIdentities(s *snapshot.Snapshot) (findings []finding.Finding) {
	open := slices.ContainsFunc(s.Managers, func(m appsv1.Deployment) bool { return !limitsVaults(&m) })
	if !open {
		return nil
	}
	namespaces := map[string][]string{}
	for i := range s.Sets {
		vault := s.Sets[i].Spec.VaultConfig
		if vault == nil || vault.Type == "" || vault.AzureKeyVault == nil ||
			slices.Contains(namespaces[vault.AzureKeyVault.ClientID], s.Sets[i].Namespace) {
			continue
		}
		namespaces[vault.AzureKeyVault.ClientID] = append(namespaces[vault.AzureKeyVault.ClientID], s.Sets[i].Namespace)
	}
	for _, application := range slices.Sorted(maps.Keys(namespaces)) {
		if sharers := slices.Sorted(slices.Values(namespaces[application])); len(sharers) > 1 {
			findings = append(findings, finding.Finding{Severity: finding.Warning, Object: "application " + application,
				Reason: "SharedVaultIdentity",
				Message: fmt.Sprintf("scale sets in %s read vaults as this application, and nothing keeps one from "+
					"reading another's secrets",
					strings.Join(sharers, ", ")),
				Fix: "set the controller chart's value vaults, which says what each namespace may read " +
					"(docs/authentication.md)"})
		}
	}
	return findings
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

// unreadable reports objects that the manager leaves as they are because it can't decode them. A runner is only one of
// many, but a set has just one object of each other kind.
func unreadable(s *snapshot.Snapshot) (findings []finding.Finding) {
	for _, object := range s.Unreadable {
		severity := finding.Problem
		if object.Kind == "EphemeralRunner" {
			severity = finding.Warning
		}
		findings = append(findings, finding.Finding{Severity: severity, Object: object.Kind + " " + object.Namespace +
			"/" + object.Name, Reason: "Unreadable",
			Message: "a field can't be decoded, so the manager leaves the object as it is: " + object.Cause,
			Fix:     "correct the field with kubectl edit, or delete the object"})
	}
	return findings
}

// notRunning reports a workload, of a kind, without a ready pod. The message names its program (what), and ends with the
// consequences (so).
func notRunning(workload metav1.Object, kind string, replicas *int32, what, reason, so string,
	severity finding.Severity) finding.Finding {
	message, command := "no pod of the "+what+" is ready",
		"kubectl -n %s describe %s %s; kubectl -n %[1]s logs %[2]s/%[3]s"
	if ptr.Deref(replicas, 1) == 0 {
		message, command = "the "+what+" is scaled to 0", "kubectl -n %s scale %s %s --replicas=1"
	}
	return finding.Finding{Severity: severity,
		Object: kind + " " + workload.GetNamespace() + "/" + workload.GetName(), Reason: reason, Message: message + so,
		Fix: fmt.Sprintf(command, workload.GetNamespace(), strings.ToLower(kind), workload.GetName())}
}

// unread reports the kinds that were not checked, with the error of one of them: the cause is the same for all, the
// caller's permissions.
func unread(s *snapshot.Snapshot) []finding.Finding {
	kinds := slices.Sorted(maps.Keys(s.Unread))
	if len(kinds) == 0 {
		return nil
	}
	return []finding.Finding{{Severity: finding.Info, Reason: "NotRead",
		Message: fmt.Sprintf("%s could not be read and were not checked: %v", strings.Join(kinds, ", "),
			s.Unread[kinds[0]]),
		Fix: "run the doctor with more permissions to check them"}}
}

func notFound(s *snapshot.Snapshot) finding.Finding {
	found := finding.Finding{Severity: finding.Problem, Reason: "NoScaleSet", Message: "there is no scale set",
		Fix: "install one with the chart gha-runner-scale-set; runs-on in the workflow is its release name, or " +
			"runnerScaleSetName if that is set"}
	if s.Name != "" {
		found.Message += fmt.Sprintf(" %q", s.Name)
	}
	if s.Namespace != "" {
		found.Message += " in namespace " + s.Namespace
	}
	if len(s.Others) > 0 {
		found.Message += "; scale sets that exist: " + finding.Listed(s.Others, namedObjects)
		found.Fix = "correct the name or -n, or " + found.Fix
	}
	return found
}
