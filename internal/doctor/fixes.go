package doctor

import "github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"

// reasonFixes are by the reason of a condition. The messages of conditions say what happened; these say what to do.
var reasonFixes = map[string]string{
	v1alpha1.ReasonCredentialsMissing:  "create what the message names, in the scale set's namespace; the Secret of githubConfigSecret has github_token, or the three github_app_* keys",
	v1alpha1.ReasonCredentialsInvalid:  "correct the Secret that githubConfigSecret names: github_token, or the three github_app_* keys",
	v1alpha1.ReasonVaultUnsupported:    "correct vaultConfig",
	v1alpha1.ReasonUnauthorized:        "give the token or App the rights that docs/authentication.md lists, or replace it; the Secret is read again within a minute",
	v1alpha1.ReasonRunnerGroupNotFound: "create the runner group on GitHub, or correct runnerGroup",
	v1alpha1.ReasonScaleSetInUse:       "choose another runnerScaleSetName, or remove the installation that uses this one",
	v1alpha1.ReasonRateLimited:         "wait; if it comes again, use a GitHub App, whose limit is higher, or spread scale sets over several",
	v1alpha1.ReasonGitHubUnavailable:   reachGitHub,
	v1alpha1.ReasonTimeout:             reachGitHub,
	v1alpha1.ReasonRefusedByGitHub:     "the message is GitHub's own; correct what it names",
	v1alpha1.ReasonLabelsDropped:       "use one label, or upgrade GitHub Enterprise Server",
	v1alpha1.ReasonSessionConflict: "see that no second installation uses this scale set, perhaps in another cluster, and remove one while it has no jobs: " +
		"the scale set on GitHub and its queue go with it; after a crash it ends within two minutes",
	v1alpha1.ReasonScaleSetNotFound:     "wait: the manager creates it again",
	"CrashLoopBackOff":                  "kubectl logs of the listener's pod in the manager's namespace",
	"Unschedulable":                     "make room for the listener's pod: its listenerTemplate may ask for a node that is not there",
	v1alpha1.ReasonReconcileFailed:      "correct the value that the message names, or grant the manager what it lacks; the charts' Roles do",
	v1alpha1.ReasonNameTooLong:          "create the scale set again under a shorter name; runnerScaleSetName may keep the one that jobs ask for",
	v1alpha1.ReasonRunnersNotCreated:    "correct what the API server refuses: a field of the template, a policy or webhook of the namespace, or a right that the manager lacks",
	v1alpha1.ReasonRunnersUnseen:        "see in the manager's log what keeps it from watching EphemeralRunners; the charts' Roles let it list and watch them",
	v1alpha1.ReasonInvalidConfiguration: "correct what the message names in the scale set; the listener takes it over without a restart",
	v1alpha1.ReasonPublishFailed:        "see that the listener reaches the API server, and that its Role and RoleBinding are there, which the manager makes again",
	v1alpha1.ReasonPodNameTaken:         "delete or rename the pod that the message names",
	v1alpha1.ReasonPodsForbidden:        "raise the ResourceQuota, or lower maxRunners or the runners' requests",
}

// typeFixes are for reasons that are not listed above.
var typeFixes = map[string]string{
	v1alpha1.ConditionCredentialsValid:   "correct the Secret that githubConfigSecret names: github_token, or the three github_app_* keys",
	v1alpha1.ConditionListenerReady:      "kubectl describe the AutoscalingListener and its pod in the manager's namespace",
	v1alpha1.ConditionRunnerOutdated:     "use a newer runner image in the template",
	v1alpha1.ConditionScaleSetRegistered: "wait: GitHub is asked again at least once a minute",
	v1alpha1.ConditionDegraded:           "correct the template; kubectl describe one of the failed EphemeralRunners",
	v1alpha1.ConditionVersionSupported:   "upgrade the charts of controller and scale set to one version",
}

func fixOf(conditionType, reason string) string {
	if conditionType == v1alpha1.ConditionRunnersPending || conditionType == v1alpha1.ConditionDegraded {
		if fix, known := podFixes[reason]; known {
			return fix
		}
	}
	if fix, known := reasonFixes[reason]; known {
		return fix
	}
	return typeFixes[conditionType]
}

const (
	reachGitHub    = "see that the cluster reaches GitHub (proxy, githubServerTLS, NetworkPolicy; docs/networking.md) and https://www.githubstatus.com"
	correctImage   = "correct the image or imagePullSecrets of the template, or see that the node reaches the registry"
	correctCommand = "correct image or command of the container runner: its command is usually /home/runner/run.sh"
	restoreRole    = "grant the manager what the message says it lacks: the scale set's chart has the Role and its binding, helm upgrade brings them back"
)

// podFixes are by the reason of a pod or container that does not run.
var podFixes = map[string]string{
	"Unschedulable":                       "add nodes, or make the template ask for less: requests, nodeSelector, affinity, tolerations, volumes",
	"SchedulingGated":                     "whoever set the scheduling gate has to remove it",
	"ImagePullBackOff":                    correctImage,
	"ErrImagePull":                        correctImage,
	"InvalidImageName":                    "correct the image of the template",
	"CreateContainerConfigError":          "create the ConfigMap or Secret that the template refers to",
	"CreateContainerError":                "correct what the message names in the template",
	"Error":                               correctCommand + "; kubectl logs of a runner's pod, while it lasts, has what it said",
	"StartError":                          correctCommand,
	"ContainerCannotRun":                  correctCommand,
	"RunContainerError":                   correctCommand,
	"CrashLoopBackOff":                    "kubectl logs --previous of the runner's pod, with -c and the container that the message names; for dind see that the namespace lets pods be privileged",
	"OOMKilled":                           "raise the memory limit of the runner container",
	"Evicted":                             "give the runner requests that fit what jobs use, so that nodes are not overcommitted",
	v1alpha1.ReasonPendingTimeout:         "kubectl describe the pod; pendingTimeout is how long it may take",
	v1alpha1.ReasonPodTerminating:         "see who set the finalizers that the message names, and why they stay; then remove them from the pod",
	v1alpha1.ReasonRunnerExitedWithoutJob: correctCommand,
	v1alpha1.ReasonSecretRefused:          restoreRole,
	v1alpha1.ReasonSecretUnreadable:       restoreRole,
	v1alpha1.ReasonPodRefused:             "correct what the message names; it may be an admission webhook",
	v1alpha1.ReasonPodForbidden:           "correct what the message names: a policy such as Pod Security, or a missing Role of the manager",
	v1alpha1.ReasonInvalidPod:             "correct the field of the template that the message names",
	v1alpha1.ReasonInvalidSecret:          "correct ephemeralRunnerConfigSecretMetadata",
	v1alpha1.ReasonNodeLost:               "nothing, unless it comes again: the node is gone",
	v1alpha1.ReasonInitContainerFailed:    "kubectl logs of the pod's init container; correct it in the template",
	v1alpha1.ReasonPodLost:                "see who deletes pods: node autoscaler, eviction, or somebody by hand",
	v1alpha1.ReasonRunnerNameTaken:        "nothing: another runner takes its place",
	v1alpha1.ReasonRegistrationFailed:     "the message says what failed: correct what it names, or wait, and look at https://www.githubstatus.com",
	v1alpha1.ReasonQuotaExceeded:          "raise the ResourceQuota, or lower maxRunners or the runners' requests",
}

func fixOfPod(reason string) string {
	if fix, known := podFixes[reason]; known {
		return fix
	}
	if fix, known := reasonFixes[reason]; known {
		return fix
	}
	return "kubectl describe the EphemeralRunner and its pod"
}
