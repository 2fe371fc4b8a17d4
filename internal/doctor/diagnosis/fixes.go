package diagnosis

import (
	"cmp"
	"slices"
	"strings"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/causes"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// reasonFixes are keyed by those reasons of conditions that are no causes of package causes. The condition's message
// says what happened; its fix says what to do.
var reasonFixes = map[string]string{
	"CheckingCredentials": causes.For(v1alpha1.ReasonGitHubUnavailable).Advice,
	"CrashLoopBackOff":    "run kubectl logs on the listener's pod in the manager's namespace",
	"Unschedulable": "make room for the listener's pod: its listenerTemplate may require a node that " +
		"does not exist",
	v1alpha1.ReasonReconcileFailed: "correct the value that the message names, or grant the manager the permission " +
		"that it lacks; the charts' Roles contain it",
	v1alpha1.ReasonFieldsRefused: keepToPolicy,
	v1alpha1.ReasonRunnersNotCreated: "correct what the API server refuses: a field of the template, a policy or " +
		"webhook of the namespace, or a permission that the manager lacks",
	v1alpha1.ReasonRunnersUnseen: "find out from the manager's log why it can't watch EphemeralRunners; the " +
		"charts' Roles allow it to list and watch them",
	v1alpha1.ReasonPublishFailed: "check that the listener can reach the API server, and that its Role and " +
		"RoleBinding exist; if deleted, the manager recreates them",
	v1alpha1.ReasonPodNameTaken: "delete the pod that the message names, or recreate it under another name",
	v1alpha1.ReasonListenerNameTaken: "have whoever created the object that the message names delete it, or recreate " +
		"it under another name: the manager leaves it as it is",
	v1alpha1.ReasonForeignFinalizers: "find out why the program that set the finalizers doesn't remove them, " +
		"such as a backup, a policy engine or Argo CD; " +
		"if there is no such program any more, run the command in the message",
	v1alpha1.ReasonJobsNotTaken: "look on GitHub for queued jobs whose runs-on names the scale set: cancel " +
		"those that never start; if there are none, wait: GitHub's figures are wrong, " +
		"which costs no runners and ends with them (docs/troubleshooting.md)",
	v1alpha1.ReasonStartsLimited: "wait: the runners come minute by minute; to have them faster, raise " +
		"maxStartsPerMinute of the scale set",
	v1alpha1.ReasonVolumeClaimsExhausted: "raise volumeClaimPool.max, or set volumeClaimPool.whenExhausted to " +
		"Ephemeral: the runner then starts at once, with an empty directory",
	v1alpha1.ReasonVolumeClaimNotDeleted: "let the manager delete PersistentVolumeClaims in the namespace: the chart " +
		"of the scale set does while its values have volumeClaimTemplates or volumeClaimPool",
	v1alpha1.ReasonVolumeClaimRefused: "raise the ResourceQuota, or correct what the message names in " +
		"volumeClaimTemplates; the runners start when the claim is accepted, or another one is free",
	v1alpha1.ReasonPodsForbidden: "raise the ResourceQuota, or lower maxRunners or the runners' requests",
}

// typeFixes are for reasons that are not listed above.
var typeFixes = map[string]string{
	v1alpha1.ConditionCredentialsValid: causes.For(v1alpha1.ReasonCredentialsInvalid).Advice,
	v1alpha1.ConditionListenerReady: "run kubectl describe on the AutoscalingListener and its pod in the " +
		"manager's namespace",
	v1alpha1.ConditionRunnerOutdated: "use a newer runner image in the template",
	v1alpha1.ConditionRunnerVersionExpires: "use a newer runner image in the template, by a policy that keeps it new: " +
		"docs/troubleshooting.md, which versions GitHub takes",
	v1alpha1.ConditionScaleSetRegistered: "wait: GitHub is asked again at least once a minute",
	v1alpha1.ConditionDegraded: "correct the template; run kubectl describe on one of the failed " +
		"EphemeralRunners",
	v1alpha1.ConditionRunnersUnprotected: "docs/scaling.md says what a PodDisruptionBudget of the scale set's chart " +
		"does, and what to do about others",
	v1alpha1.ConditionCapacityLimited: "wait: the number rises by itself as pods find nodes, and other clusters " +
		"with the label take the other jobs; to have more run here, add nodes or raise the quota",
	v1alpha1.ConditionVersionSupported: "upgrade the charts of controller and scale set to the same version",
}

func fixOf(conditionType, reason string) string {
	switch conditionType {
	case v1alpha1.ConditionRunnersPending, v1alpha1.ConditionDegraded, v1alpha1.ConditionPodTemplateRefused:
		if fix, known := podFixes[reason]; known {
			return fix
		}
		if podstatus.Refused(reason) {
			return refused
		}
	}
	return cmp.Or(fixOfReason(reason), typeFixes[conditionType])
}

const (
	correctImage = "correct the image or imagePullSecrets of the template, or check that the node can reach the " +
		"registry"
	correctCommand = "correct the image or command of the container named runner: the command is usually " +
		"/home/runner/run.sh"
	keepToPolicy = "remove the fields from listenerTemplate and resourceMeta, or ask the controller's operator to " +
		"allow them: flags.listenerSidecarImages for a further container, flags.listenerMetadataKeys for a label or " +
		"annotation, flags.listenerPriorityClasses for a class, flags.listenerTemplatePolicy for the rest; " +
		"docs/security.md lists what is allowed"
	outranked = followed + "give the template a priorityClassName, or add nodes: pods of higher priority need " +
		"the room"
	nodesGo      = followed + "find out what removes or stops nodes: a node autoscaler, spot instances, their cloud"
	shortOfNodes = followed + "set the runner's requests to what jobs use, so that nodes are not " +
		"overcommitted; if the message names a limit, raise that"
	refused = followed + "find out why the node that the message names refuses what the scheduler sends: a " +
		"kubelet or device plugin that offers more than it has, " +
		"a second scheduler, or nodeName in the template; cordon the node until then"
	followed    = "wait: another pod follows; if it goes on, "
	restoreRole = "grant the manager what the message says it lacks: the scale set's chart contains the Role and its " +
		"binding, and helm upgrade restores them"
)

// podFixes are keyed by the reason of a pod or container that does not run.
var podFixes = map[string]string{
	"Unschedulable": "add nodes, or make the template ask for less: requests, nodeSelector, " +
		"affinity, tolerations, volumes",
	"SchedulingGated": "wait for whoever set the scheduling gate that the message names; if it is " +
		"Kueue's, kubectl get workloads says why the pod is not admitted",
	"ImagePullBackOff":           correctImage,
	"ErrImagePull":               correctImage,
	"InvalidImageName":           "correct the image of the template",
	"CreateContainerConfigError": "create the ConfigMap or Secret that the template refers to",
	"CreateContainerError":       "correct what the message names in the template",
	"Error":                      correctCommand + "; while a runner's pod exists, kubectl logs shows its output",
	"StartError":                 correctCommand,
	"ContainerCannotRun":         correctCommand,
	"RunContainerError":          correctCommand,
	"CrashLoopBackOff": "run kubectl logs --previous on the runner's pod, with -c and the container " +
		"that the message names; for dind, check that the namespace allows privileged pods",
	"OOMKilled":              "raise the memory limit of the runner container",
	"Evicted":                shortOfNodes,
	"TerminationByKubelet":   shortOfNodes,
	"PreemptionByScheduler":  outranked,
	"Preempting":             outranked,
	"Preempted":              outranked,
	"DeletionByTaintManager": nodesGo,
	"DeletionByPodGC":        nodesGo,
	"NodeShutdown":           nodesGo,
	"Terminated":             nodesGo,
	"Shutdown":               nodesGo,
	"EvictionByEvictionAPI": followed +
		"find out who evicts pods: a drain, a node autoscaler, a descheduler",
	v1alpha1.ReasonPendingTimeout: "run kubectl describe on the pod; pendingTimeout is how long it may take to " +
		"start",
	v1alpha1.ReasonPodTerminating: "find out who set the finalizers that the message names, and why they are " +
		"still there; then remove them from the pod",
	v1alpha1.ReasonRunnerExitedWithoutJob: correctCommand,
	v1alpha1.ReasonAPIServerUnavailable: "wait: the manager repeats the request; if it goes on, check the control " +
		"plane, its admission webhooks, and the network between it and the manager",
	v1alpha1.ReasonSecretRefused:    restoreRole,
	v1alpha1.ReasonSecretUnreadable: restoreRole,
	v1alpha1.ReasonPodRefused:       "correct what the message names; it may be an admission webhook",
	v1alpha1.ReasonPodForbidden: "correct what the message names: a policy such as Pod Security, or a " +
		"missing Role of the manager",
	v1alpha1.ReasonInvalidPod:          "correct the field of the template that the message names",
	v1alpha1.ReasonInvalidSecret:       "correct ephemeralRunnerConfigSecretMetadata",
	v1alpha1.ReasonNodeLost:            nodesGo,
	v1alpha1.ReasonInitContainerFailed: "run kubectl logs on the pod's init container, and correct it in the template",
	v1alpha1.ReasonPodLost:             "find out what deletes pods: a node autoscaler, evictions, or somebody by hand",
	v1alpha1.ReasonRunnerNameTaken:     "nothing: another runner takes its place",
	v1alpha1.ReasonRegistrationFailed: "the message says what failed: correct what it names, or wait, and look at " +
		"https://www.githubstatus.com",
	v1alpha1.ReasonQuotaExceeded: "raise the ResourceQuota, or lower maxRunners or the runners' requests",
}

// lostFixes are the steps that keep jobs from being lost, by the cause of the loss.
var lostFixes = map[v1alpha1.LostCause]string{
	v1alpha1.LostCauseEvicted: "keep drains and node autoscalers away from running jobs (docs/scaling.md), or " +
		"let the template request the resource of which the node ran short",
	v1alpha1.LostCauseNodeLost:        "run long jobs on nodes that stay, not on spot instances",
	v1alpha1.LostCausePreempted:       "give the template a priorityClassName",
	v1alpha1.LostCauseOOMKilled:       "raise the memory limit of the container that the message names",
	v1alpha1.LostCausePodDeleted:      "find out who deletes pods; the API server's audit log knows",
	v1alpha1.LostCauseContainerFailed: "look up the exit code, and follow the pod's log when the job runs again",
	v1alpha1.LostCauseUnknown:         "look at the Events of pod and node",
}

// fixOfReason returns what to do about a cause or another reason of a condition, "" if nothing is known.
func fixOfReason(reason string) string { return cmp.Or(causes.For(reason).Advice, reasonFixes[reason]) }

// fixOfRunner returns what to do about the set's runners that failed with a reason. An unwritable work folder looks
// like a wrong command.
func (s set) fixOfRunner(reason string) string {
	fix := fixOfPod(reason)
	if unwritable := kube.UnwritableWork(&s.Spec.Template.Spec, v1alpha1.RunnerContainerName); unwritable != "" &&
		strings.HasPrefix(fix, correctCommand) {
		fix += "; " + unwritable
	}
	return fix
}

func fixOfPod(reason string) string {
	if fix, known := podFixes[reason]; known {
		return fix
	}
	if fix := fixOfReason(reason); fix != "" {
		return fix
	}
	if podstatus.Refused(reason) {
		return refused
	}
	return "run kubectl describe on the EphemeralRunner and its pod"
}

// Advice returns what to do about the reason of a runner or a pod, and who has to do it.
func Advice(reason string) (fix string, who causes.Actor) { return fixOfPod(reason), WhoActs(reason) }

// AdviceOnLoss returns the step that keeps jobs from being lost to a cause again, and who has to take it.
func AdviceOnLoss(cause v1alpha1.LostCause) (fix string, who causes.Actor) {
	fix, who = cmp.Or(lostFixes[cause], lostFixes[v1alpha1.LostCauseUnknown]), causes.Administrator
	if cause == v1alpha1.LostCauseOOMKilled || cause == v1alpha1.LostCauseContainerFailed {
		who = causes.User
	}
	return fix, who
}

// WhoActs returns who has to act on a finding's reason. Reasons that are neither GitHub's nor the cluster's are for
// whoever wrote the scale set.
func WhoActs(reason string) causes.Actor {
	switch cause := causes.For(reason); {
	case cause.Advice != "":
		return cause.Actor
	case slices.Contains(passingReasons, reason):
		return causes.Nobody
	case slices.Contains(clusterReasons, reason), podstatus.Refused(reason):
		return causes.Administrator
	}
	return causes.User
}

// passingReasons end by themselves.
var passingReasons = []string{
	"", "ContainerCreating", "PodInitializing", "RunnersMissing", "StrayRegistrations", v1alpha1.ReasonPending,
	v1alpha1.ReasonRunnerNameTaken, v1alpha1.ReasonStartsLimited,
	v1alpha1.ReasonAPIServerUnavailable,
}

// clusterReasons are for whoever runs the cluster or the controller.
var clusterReasons = []string{
	"Unschedulable", "SchedulingGated", "QuotaUsedUp", "Evicted", "TerminationByKubelet", "PreemptionByScheduler",
	"Preempting", "Preempted", "DeletionByTaintManager",
	"DeletionByPodGC", "NodeShutdown", "Terminated", "Shutdown", "EvictionByEvictionAPI", "MissingPermission",
	"PodMetadataForbidden", "NotReconciled", "NotInstalled",
	"NoManager", "OutdatedCRDs", v1alpha1.ReasonQuotaExceeded, v1alpha1.ReasonPodsForbidden, v1alpha1.ReasonNodeLost,
	v1alpha1.ReasonPodLost, v1alpha1.ReasonPodForbidden,
	v1alpha1.ReasonPodTerminating, v1alpha1.ReasonSecretRefused, v1alpha1.ReasonSecretUnreadable,
	v1alpha1.ReasonRunnersUnseen, v1alpha1.ReasonPublishFailed,
	v1alpha1.ReasonForeignFinalizers, v1alpha1.ReasonPodsUnschedulable,
}
