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
	// ReasonRateLimited: GitHub wants to be left alone for a while; the message says until when.
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

	// ReasonListenerStopped is the reason of an AutoscalingListener's condition Ready once it is being deleted and its
	// pod is gone.
	ReasonListenerStopped = "Stopped"
	// ReasonScaleSetNotFound is what a listener, or a runner that can't be registered, says when GitHub no longer knows
	// the scale set. The manager then looks at GitHub at once and creates it again.
	ReasonScaleSetNotFound = "ScaleSetNotFound"
)

// Stations of an AutoscalingListener on its ordinary way to its first session, as reasons of its condition Ready.
const (
	// ReasonListenerPodStarting: the listener's pod does not run yet.
	ReasonListenerPodStarting = "PodStarting"
	// ReasonListenerNotListening: the listener runs and holds no session yet, or GitHub has left its polls without an answer.
	ReasonListenerNotListening = "NotListening"
)
