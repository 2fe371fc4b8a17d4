package diagnosis

import (
	"strings"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// reasonFixes are keyed by the reason of a condition. The condition's message says what happened; these say what to do.
var reasonFixes = map[string]string{
	v1alpha1.ReasonCredentialsMissing:  "create what the message names, in the scale set's namespace; the Secret that githubConfigSecret names needs github_token, or the three github_app_* keys",
	v1alpha1.ReasonCredentialsInvalid:  "correct the Secret that githubConfigSecret names: github_token, or the three github_app_* keys",
	v1alpha1.ReasonVaultUnsupported:    "correct vaultConfig",
	v1alpha1.ReasonVaultNotAllowed:     "name a vault and secrets that the namespace may read, or ask the cluster's administrator, who decides that by the controller chart's value vaults",
	v1alpha1.ReasonAddressNotAllowed:   "use an address that is allowed, or ask the administrator of the controller to add it to flags.allowedGitHubURLs (docs/networking.md)",
	v1alpha1.ReasonInsecureRedirect:    "let the gateway in front of GitHub Enterprise Server set X-Forwarded-Proto: https (docs/networking.md)",
	v1alpha1.ReasonUnauthorized:        "give the token or App the permissions that docs/authentication.md lists, or replace it; the Secret is read again within a minute",
	"CheckingCredentials":              reachGitHub,
	v1alpha1.ReasonTokenExpired:        "have the token's owner make a new one, and write it to the Secret; it is read again within a minute",
	v1alpha1.ReasonSuspended:           "have whoever suspended the App's installation lift that; of a suspended account, use another account's token, or an App",
	v1alpha1.ReasonIPAddressNotAllowed: "have an owner of the organization or enterprise add the address from which the cluster reaches GitHub to the IP allow list",
	v1alpha1.ReasonSingleSignOnRequired: "have the token's owner open the address in the message, or authorize the token under Settings → Developer settings → Personal access tokens → " +
		"Configure SSO",
	v1alpha1.ReasonPermissionMissing:     "give the token or App what the message names; an owner of the organization must accept an App's new permissions",
	v1alpha1.ReasonTokenForbidden:        "have an owner of the organization approve the token or change the policy that the message names, or use a GitHub App",
	v1alpha1.ReasonClockSkewed:           "set the clock of the node on which the program runs that reports this",
	v1alpha1.ReasonAppNotFound:           "correct the App's id, installation id and private key in the Secret, or install the App again; the Secret is read again within a minute",
	v1alpha1.ReasonRunnersDisabled:       "have an owner allow self-hosted runners: Settings → Actions → General of the repository, its organization or its enterprise",
	v1alpha1.ReasonRepositoryUnavailable: "have the repository's administrator unarchive or unlock it, or set githubConfigUrl to another address",
	v1alpha1.ReasonAccountUnavailable:    "have an owner or billing manager of the organization or enterprise see to its account on GitHub",
	v1alpha1.ReasonNotFoundOrHidden:      "correct githubConfigUrl, or give the credentials access to what it names; GitHub doesn't say which is wrong",
	v1alpha1.ReasonTooManyFailedLogins:   "wait some minutes; find what uses a bad credential of this account, here or elsewhere, and replace it",
	v1alpha1.ReasonRunnerGroupNotFound:   "create the runner group on GitHub, or correct runnerGroup",
	v1alpha1.ReasonScaleSetInUse:         "choose another runnerScaleSetName, or remove the installation that uses this one",
	v1alpha1.ReasonRateLimited:           "wait; if it happens again, use a GitHub App, whose limit is higher, or spread the scale sets over several Apps",
	v1alpha1.ReasonGitHubUnavailable:     reachGitHub,
	v1alpha1.ReasonTimeout:               reachGitHub,
	v1alpha1.ReasonRefusedByGitHub:       "the message is GitHub's own; correct what it names",
	v1alpha1.ReasonSessionConflict: "check whether a second installation, perhaps in another cluster, uses this scale set, and remove one while it has no jobs: " +
		"that also deletes the scale set and its queue on GitHub; after a crash, the conflict ends by itself within two minutes",
	v1alpha1.ReasonScaleSetNotFound:     "wait: the manager creates it again",
	"CrashLoopBackOff":                  "run kubectl logs on the listener's pod in the manager's namespace",
	"Unschedulable":                     "make room for the listener's pod: its listenerTemplate may require a node that does not exist",
	v1alpha1.ReasonReconcileFailed:      "correct the value that the message names, or grant the manager the permission that it lacks; the charts' Roles contain it",
	v1alpha1.ReasonFieldsRefused:        keepToPolicy,
	v1alpha1.ReasonNameTooLong:          "recreate the scale set under a shorter name; runnerScaleSetName can keep the name that jobs use in runs-on",
	v1alpha1.ReasonRunnersNotCreated:    "correct what the API server refuses: a field of the template, a policy or webhook of the namespace, or a permission that the manager lacks",
	v1alpha1.ReasonRunnersUnseen:        "find out from the manager's log why it can't watch EphemeralRunners; the charts' Roles allow it to list and watch them",
	v1alpha1.ReasonInvalidConfiguration: "correct what the message names in the scale set; the listener picks it up without a restart",
	v1alpha1.ReasonPublishFailed:        "check that the listener can reach the API server, and that its Role and RoleBinding exist; if deleted, the manager recreates them",
	v1alpha1.ReasonPodNameTaken:         "delete the pod that the message names, or recreate it under another name",
	v1alpha1.ReasonListenerNameTaken:    "have whoever created the object that the message names delete it, or recreate it under another name: the manager leaves it as it is",
	v1alpha1.ReasonForeignFinalizers: "find out why the program that set the finalizers doesn't remove them, such as a backup, a policy engine or Argo CD; " +
		"if there is no such program any more, run the command in the message",
	v1alpha1.ReasonJobsNotTaken: "look on GitHub for queued jobs whose runs-on names the scale set: cancel those that never start; if there are none, wait: GitHub's figures are wrong, " +
		"which costs no runners and ends with them (docs/troubleshooting.md)",
	v1alpha1.ReasonPodsForbidden: "raise the ResourceQuota, or lower maxRunners or the runners' requests",
}

// typeFixes are for reasons that are not listed above.
var typeFixes = map[string]string{
	v1alpha1.ConditionCredentialsValid:   "correct the Secret that githubConfigSecret names: github_token, or the three github_app_* keys",
	v1alpha1.ConditionListenerReady:      "run kubectl describe on the AutoscalingListener and its pod in the manager's namespace",
	v1alpha1.ConditionRunnerOutdated:     "use a newer runner image in the template",
	v1alpha1.ConditionScaleSetRegistered: "wait: GitHub is asked again at least once a minute",
	v1alpha1.ConditionDegraded:           "correct the template; run kubectl describe on one of the failed EphemeralRunners",
	v1alpha1.ConditionRunnersUnprotected: "docs/scaling.md says what a PodDisruptionBudget of the scale set's chart does, and what to do about others",
	v1alpha1.ConditionVersionSupported:   "upgrade the charts of controller and scale set to the same version",
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
	if fix, known := reasonFixes[reason]; known {
		return fix
	}
	return typeFixes[conditionType]
}

const (
	reachGitHub    = "check that the cluster can reach GitHub (proxy, githubServerTLS, NetworkPolicy; docs/networking.md), and look at https://www.githubstatus.com"
	correctImage   = "correct the image or imagePullSecrets of the template, or check that the node can reach the registry"
	correctCommand = "correct the image or command of the container named runner: the command is usually /home/runner/run.sh"
	keepToPolicy   = "remove the fields from listenerTemplate and resourceMeta, or ask the controller's operator to allow them: flags.listenerSidecarImages for a further " +
		"container, flags.listenerTemplatePolicy for the rest; docs/security.md lists what is allowed"
	outranked    = followed + "give the template a priorityClassName, or add nodes: pods of higher priority need the room"
	nodesGo      = followed + "find out what removes or stops nodes: a node autoscaler, spot instances, their cloud"
	shortOfNodes = followed + "set the runner's requests to what jobs use, so that nodes are not overcommitted; if the message names a limit, raise that"
	refused      = followed + "find out why the node that the message names refuses what the scheduler sends: a kubelet or device plugin that offers more than it has, " +
		"a second scheduler, or nodeName in the template; cordon the node until then"
	followed    = "wait: another pod follows; if it goes on, "
	restoreRole = "grant the manager what the message says it lacks: the scale set's chart contains the Role and its binding, and helm upgrade restores them"
)

// podFixes are keyed by the reason of a pod or container that does not run.
var podFixes = map[string]string{
	"Unschedulable":                       "add nodes, or make the template ask for less: requests, nodeSelector, affinity, tolerations, volumes",
	"SchedulingGated":                     "whoever set the scheduling gate must remove it",
	"ImagePullBackOff":                    correctImage,
	"ErrImagePull":                        correctImage,
	"InvalidImageName":                    "correct the image of the template",
	"CreateContainerConfigError":          "create the ConfigMap or Secret that the template refers to",
	"CreateContainerError":                "correct what the message names in the template",
	"Error":                               correctCommand + "; while a runner's pod exists, kubectl logs shows its output",
	"StartError":                          correctCommand,
	"ContainerCannotRun":                  correctCommand,
	"RunContainerError":                   correctCommand,
	"CrashLoopBackOff":                    "run kubectl logs --previous on the runner's pod, with -c and the container that the message names; for dind, check that the namespace allows privileged pods",
	"OOMKilled":                           "raise the memory limit of the runner container",
	"Evicted":                             shortOfNodes,
	"TerminationByKubelet":                shortOfNodes,
	"PreemptionByScheduler":               outranked,
	"Preempting":                          outranked,
	"Preempted":                           outranked,
	"DeletionByTaintManager":              nodesGo,
	"DeletionByPodGC":                     nodesGo,
	"NodeShutdown":                        nodesGo,
	"Terminated":                          nodesGo,
	"Shutdown":                            nodesGo,
	"EvictionByEvictionAPI":               followed + "find out who evicts pods: a drain, a node autoscaler, a descheduler",
	v1alpha1.ReasonPendingTimeout:         "run kubectl describe on the pod; pendingTimeout is how long it may take to start",
	v1alpha1.ReasonPodTerminating:         "find out who set the finalizers that the message names, and why they are still there; then remove them from the pod",
	v1alpha1.ReasonRunnerExitedWithoutJob: correctCommand,
	v1alpha1.ReasonAPIServerUnavailable:   "wait: the manager repeats the request; if it goes on, check the control plane, its admission webhooks, and the network between it and the manager",
	v1alpha1.ReasonSecretRefused:          restoreRole,
	v1alpha1.ReasonSecretUnreadable:       restoreRole,
	v1alpha1.ReasonPodRefused:             "correct what the message names; it may be an admission webhook",
	v1alpha1.ReasonPodForbidden:           "correct what the message names: a policy such as Pod Security, or a missing Role of the manager",
	v1alpha1.ReasonInvalidPod:             "correct the field of the template that the message names",
	v1alpha1.ReasonInvalidSecret:          "correct ephemeralRunnerConfigSecretMetadata",
	v1alpha1.ReasonNodeLost:               nodesGo,
	v1alpha1.ReasonInitContainerFailed:    "run kubectl logs on the pod's init container, and correct it in the template",
	v1alpha1.ReasonPodLost:                "find out what deletes pods: a node autoscaler, evictions, or somebody by hand",
	v1alpha1.ReasonRunnerNameTaken:        "nothing: another runner takes its place",
	v1alpha1.ReasonRegistrationFailed:     "the message says what failed: correct what it names, or wait, and look at https://www.githubstatus.com",
	v1alpha1.ReasonQuotaExceeded:          "raise the ResourceQuota, or lower maxRunners or the runners' requests",
}

// lostFixes say what keeps jobs from being lost.
var lostFixes = map[v1alpha1.LostCause]string{
	v1alpha1.LostCauseEvicted:         "keep drains and node autoscalers away from running jobs (docs/scaling.md), or let the template request the resource of which the node ran short",
	v1alpha1.LostCauseNodeLost:        "run long jobs on nodes that stay, not on spot instances",
	v1alpha1.LostCausePreempted:       "give the template a priorityClassName",
	v1alpha1.LostCauseOOMKilled:       "raise the memory limit of the container that the message names",
	v1alpha1.LostCausePodDeleted:      "find out who deletes pods; the API server's audit log knows",
	v1alpha1.LostCauseContainerFailed: "look up the exit code, and follow the pod's log when the job runs again",
	v1alpha1.LostCauseUnknown:         "look at the Events of pod and node",
}

// fixOfRunner returns what to do about the set's runners that failed with a reason. An unwritable work folder looks like a wrong
// command.
func (s set) fixOfRunner(reason string) string {
	fix := fixOfPod(reason)
	if unwritable := kube.UnwritableWork(&s.Spec.Template.Spec, v1alpha1.RunnerContainerName); unwritable != "" && strings.HasPrefix(fix, correctCommand) {
		fix += "; " + unwritable
	}
	return fix
}

func fixOfPod(reason string) string {
	if fix, known := podFixes[reason]; known {
		return fix
	}
	if fix, known := reasonFixes[reason]; known {
		return fix
	}
	if podstatus.Refused(reason) {
		return refused
	}
	return "run kubectl describe on the EphemeralRunner and its pod"
}
