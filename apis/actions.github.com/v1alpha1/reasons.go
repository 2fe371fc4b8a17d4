package v1alpha1

// Reasons that one program or controller writes and another one, or a user's alert, decides by: one word for one cause,
// wherever it is met.
const (
	// ReasonCredentialsMissing: a Secret, a ConfigMap or a key in it does not exist.
	ReasonCredentialsMissing = "CredentialsMissing"
	// ReasonCredentialsInvalid: what was read can't be credentials; GitHub was not asked.
	ReasonCredentialsInvalid = "CredentialsInvalid"
	// ReasonVaultUnsupported: vaultConfig asks for a vault that this version can't read.
	ReasonVaultUnsupported = "VaultUnsupported"
	// ReasonInvalidConfigURL: githubConfigUrl is no address of an organization, repository or enterprise.
	ReasonInvalidConfigURL = "InvalidConfigURL"
	// ReasonUnauthorized: GitHub refused the credentials.
	ReasonUnauthorized = "Unauthorized"
	// ReasonRateLimited: GitHub is rate limiting us; the message says until when.
	ReasonRateLimited = "RateLimited"
	// ReasonGitHubUnavailable: GitHub can't be reached, or fails itself.
	ReasonGitHubUnavailable = "GitHubUnavailable"
	// ReasonRefusedByGitHub: GitHub refused the request for a reason of its own, which the message quotes.
	ReasonRefusedByGitHub = "RefusedByGitHub"
	// ReasonRunnerGroupNotFound: there is no runner group of that name.
	ReasonRunnerGroupNotFound = "RunnerGroupNotFound"
	// ReasonScaleSetInUse: another AutoscalingRunnerSet of the cluster has the scale set.
	ReasonScaleSetInUse = "ScaleSetInUse"
	// ReasonLabelsDropped: GitHub did not take all labels.
	ReasonLabelsDropped = "LabelsDropped"
	// ReasonSessionConflict: another listener has the scale set's only message session.
	ReasonSessionConflict = "SessionConflict"
	// ReasonReconcileFailed: the API server refused the manager something.
	ReasonReconcileFailed = "ReconcileFailed"
	// ReasonNameTooLong: the AutoscalingRunnerSet's name is too long for what is named after it.
	ReasonNameTooLong = "NameTooLong"
	// ReasonMaxRunnersReached: as many jobs have runners as maxRunners allows; further jobs wait on GitHub.
	ReasonMaxRunnersReached = "MaxRunnersReached"
	// ReasonMaxRunnersZero: maxRunners is 0, so no job is taken.
	ReasonMaxRunnersZero = "MaxRunnersZero"
	// ReasonPodNameTaken: a pod of somebody else has the name that the listener's or a runner's pod must have.
	ReasonPodNameTaken = "PodNameTaken"
	// ReasonNodeLost: the pod's node no longer answers.
	ReasonNodeLost = "NodeLost"

	// ReasonListenerStopped is the reason of an AutoscalingListener's condition Ready once it is being deleted and its
	// pod is gone.
	ReasonListenerStopped = "Stopped"
	// ReasonScaleSetNotFound is what a listener, or a runner that can't be registered, says when GitHub no longer knows
	// the scale set. The manager then looks at GitHub at once and creates it again.
	ReasonScaleSetNotFound = "ScaleSetNotFound"
	// ReasonTimeout: GitHub has not answered the listener in time.
	ReasonTimeout = "Timeout"
	// ReasonInvalidConfiguration: the listener can't work with its configuration; the message says what is wrong in it.
	ReasonInvalidConfiguration = "InvalidConfiguration"
	// ReasonPublishFailed: the listener can't write to the API server how many runners it wants.
	ReasonPublishFailed = "PublishFailed"
)

// Stations of an AutoscalingListener on its ordinary way to its first session, as reasons of its condition Ready.
const (
	// ReasonListenerPodStarting: the listener's pod does not run yet.
	ReasonListenerPodStarting = "PodStarting"
	// ReasonListenerNotListening: the listener runs and holds no session yet, or GitHub has left its polls without an answer.
	ReasonListenerNotListening = "NotListening"
)

// Reasons of runners that wait or have failed, and of the conditions of their sets.
const (
	// ReasonPending: the pod has not started yet, and neither scheduler nor kubelet says why.
	ReasonPending = "Pending"
	// ReasonPendingTimeout: the pod did not run on its node within pendingTimeout.
	ReasonPendingTimeout = "PendingTimeout"
	// ReasonRunnersNotCreated: runners are wanted, and the API server does not take their objects.
	ReasonRunnersNotCreated = "RunnersNotCreated"
	// ReasonRunnersUnseen: runners were made that the manager's watch does not show, and none are made in their place.
	ReasonRunnersUnseen = "RunnersUnseen"
	// ReasonRunnerNameTaken: GitHub has a runner of that name already.
	ReasonRunnerNameTaken = "RunnerNameTaken"
	// ReasonRegistrationFailed: GitHub did not register the runner, and none of its known reasons is why.
	ReasonRegistrationFailed = "RegistrationFailed"
	// ReasonInvalidSecret: the metadata that the spec asks for on the runner's Secret are not accepted.
	ReasonInvalidSecret = "InvalidSecret"
	// ReasonSecretRefused: the API server refused the runner's Secret.
	ReasonSecretRefused = "SecretRefused"
	// ReasonSecretUnreadable: the manager could not read the runner's Secret.
	ReasonSecretUnreadable = "SecretUnreadable"
	// ReasonInvalidPod: the pod template is not accepted.
	ReasonInvalidPod = "InvalidPod"
	// ReasonPodForbidden: a policy, a missing right of the manager, or a ResourceQuota forbids the runner's pod.
	ReasonPodForbidden = "PodForbidden"
	// ReasonPodsForbidden: a ResourceQuota forbids the pods or Secrets of some of the set's runners.
	ReasonPodsForbidden = "PodsForbidden"
	// ReasonQuotaExceeded: a ResourceQuota has no room for the runner's pod or Secret.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonPodRefused: the API server refused the runner's pod, for none of the reasons above.
	ReasonPodRefused = "PodRefused"
	// ReasonPodLost: the pod is gone, and nobody has seen its end.
	ReasonPodLost = "PodLost"
	// ReasonInitContainerFailed: an init container of the pod failed and is not started again.
	ReasonInitContainerFailed = "InitContainerFailed"
	// ReasonRunnerExitedWithoutJob: the runner ended well without ever having had a job.
	ReasonRunnerExitedWithoutJob = "RunnerExitedWithoutJob"
	// ReasonPodTerminating: the pod of a runner or listener is being deleted and stays, so that no other can be made, or its object can't go.
	ReasonPodTerminating = "PodTerminating"
)
