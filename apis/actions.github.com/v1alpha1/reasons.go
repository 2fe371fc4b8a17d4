package v1alpha1

// Reasons that one program or controller writes and another, or a user's alert, acts on: one word per cause, wherever
// the cause occurs.
const (
	// ReasonCredentialsMissing: a Secret, a ConfigMap or a key in it does not exist.
	ReasonCredentialsMissing = "CredentialsMissing"
	// ReasonCredentialsInvalid: what was read can't be credentials, so GitHub was not asked.
	ReasonCredentialsInvalid = "CredentialsInvalid"
	// ReasonVaultUnsupported: vaultConfig asks for a vault that this version can't read.
	ReasonVaultUnsupported = "VaultUnsupported"
	// ReasonVaultNotAllowed: the administrator's list of vaults doesn't let the set's namespace read that vault or that
	// secret.
	ReasonVaultNotAllowed = "VaultNotAllowed"
	// ReasonInvalidConfigURL: githubConfigUrl is not the address of an organization, repository or enterprise.
	ReasonInvalidConfigURL = "InvalidConfigURL"
	// ReasonAddressNotAllowed: githubConfigUrl, what it leads to, or a proxy is an address that the administrator of
	// the controller has not allowed; nothing was sent there.
	ReasonAddressNotAllowed = "AddressNotAllowed"
	// ReasonInsecureRedirect: an https:// address of GitHub leads to one without TLS; the credential was not sent
	// there.
	ReasonInsecureRedirect = "InsecureRedirect"
	// ReasonUnauthorized: GitHub refused the credentials as bad ones, or for a reason that it doesn't explain.
	ReasonUnauthorized = "Unauthorized"
	// ReasonTokenExpired: GitHub refused the token because it has expired or was revoked. Most servers say only that it
	// is bad.
	ReasonTokenExpired = "TokenExpired"
	// ReasonSuspended: the App's installation, or the account to which the token belongs, is suspended.
	ReasonSuspended = "Suspended"
	// ReasonIPAddressNotAllowed: an IP allow list on GitHub does not have the address from which the call came.
	ReasonIPAddressNotAllowed = "IPAddressNotAllowed"
	// ReasonSingleSignOnRequired: the token is not authorized for the organization's SAML single sign-on.
	ReasonSingleSignOnRequired = "SingleSignOnRequired"
	// ReasonPermissionMissing: the credentials lack the permission or scope that the message names.
	ReasonPermissionMissing = "PermissionMissing"
	// ReasonTokenForbidden: a policy on GitHub forbids this kind of token or account, a token that lives so long, or
	// one that was not approved.
	ReasonTokenForbidden = "TokenForbidden"
	// ReasonClockSkewed: the App's signature is from the future or too old for GitHub's clock.
	ReasonClockSkewed = "ClockSkewed"
	// ReasonAppNotFound: there is no such App or installation, or the private key is another App's.
	ReasonAppNotFound = "AppNotFound"
	// ReasonRunnersDisabled: self-hosted runners, or Actions, are switched off there.
	ReasonRunnersDisabled = "RunnersDisabled"
	// ReasonRepositoryUnavailable: the repository is archived, locked, disabled or blocked.
	ReasonRepositoryUnavailable = "RepositoryUnavailable"
	// ReasonAccountUnavailable: the organization or enterprise is archived, locked, disabled or blocked, as for an
	// unpaid bill.
	ReasonAccountUnavailable = "AccountUnavailable"
	// ReasonNotFoundOrHidden: there is nothing at githubConfigUrl, or nothing that the credentials may see; GitHub
	// makes no difference.
	ReasonNotFoundOrHidden = "NotFoundOrHidden"
	// ReasonTooManyFailedLogins: GitHub refuses even good credentials for some minutes, after several bad ones.
	ReasonTooManyFailedLogins = "TooManyFailedLogins"
	// ReasonRateLimited: GitHub is rate limiting us; the message says until when.
	ReasonRateLimited = "RateLimited"
	// ReasonHostNotFound: the cluster's DNS knows no host of the name in githubConfigUrl, or of the proxy.
	ReasonHostNotFound = "HostNotFound"
	// ReasonGitHubUnavailable: GitHub can't be reached, or answers with an error of its own.
	ReasonGitHubUnavailable = "GitHubUnavailable"
	// ReasonRefusedByGitHub: GitHub refused the request for another reason, which the message quotes.
	ReasonRefusedByGitHub = "RefusedByGitHub"
	// ReasonRunnerGroupNotFound: there is no runner group of that name.
	ReasonRunnerGroupNotFound = "RunnerGroupNotFound"
	// ReasonScaleSetInUse: another AutoscalingRunnerSet in the cluster has the scale set.
	ReasonScaleSetInUse = "ScaleSetInUse"
	// ReasonLabelsDropped: GitHub did not accept all labels.
	ReasonLabelsDropped = "LabelsDropped"
	// ReasonSessionConflict: another listener has the scale set's only message session.
	ReasonSessionConflict = "SessionConflict"
	// ReasonReconcileFailed: the API server refused a request of the manager.
	ReasonReconcileFailed = "ReconcileFailed"
	// ReasonNameTooLong: the AutoscalingRunnerSet's name is too long for the value of a label.
	ReasonNameTooLong = "NameTooLong"
	// ReasonFieldsRefused: the manager's policy for listener pods refuses the fields that the message lists.
	ReasonFieldsRefused = "FieldsRefused"
	// ReasonScheduleRefused: a schedule of the spec can't be followed; the message names it and its field.
	ReasonScheduleRefused = "ScheduleRefused"
	// ReasonMaxRunnersReached: as many jobs have runners as maxRunners allows; further jobs wait on GitHub.
	ReasonMaxRunnersReached = "MaxRunnersReached"
	// ReasonMaxRunnersZero: maxRunners is 0, so no jobs are accepted.
	ReasonMaxRunnersZero = "MaxRunnersZero"
	// ReasonDrained: the annotation actions.github.com/drained is on the set, so no jobs are accepted.
	ReasonDrained = "Drained"
	// ReasonTakesJobs: the annotation was removed, and the set may be given jobs again.
	ReasonTakesJobs = "TakesJobs"
	// ReasonStartsLimited: maxStartsPerMinute holds runners back.
	ReasonStartsLimited = "StartsLimited"
	// ReasonJobsNotTaken: assigned jobs have waited for registrationTimeout while runners were idle, so they probably
	// don't exist.
	ReasonJobsNotTaken = "JobsNotTaken"
	// ReasonPodNameTaken: somebody else's pod has the name that the listener's or a runner's pod needs.
	ReasonPodNameTaken = "PodNameTaken"
	// ReasonListenerNameTaken: an object that isn't the listener's has the name that the listener, or one of its own
	// objects, needs.
	ReasonListenerNameTaken = "ListenerNameTaken"
	// ReasonListenerIgnored: an AutoscalingListener that the manager did not write for a scale set; nothing is done for
	// it.
	ReasonListenerIgnored = "ListenerIgnored"
	// ReasonForeignFinalizers: only finalizers that this controller doesn't serve keep an object that is deleted.
	ReasonForeignFinalizers = "ForeignFinalizers"
	// ReasonNodeLost: the pod's node has stopped reporting.
	ReasonNodeLost = "NodeLost"

	// ReasonListenerStopped: the AutoscalingListener is being deleted and its pod is gone.
	ReasonListenerStopped = "Stopped"
	// ReasonScaleSetNotFound: GitHub no longer has the scale set. A listener reports this, or a runner that can't be
	// registered; the manager then asks GitHub immediately and creates the scale set again.
	ReasonScaleSetNotFound = "ScaleSetNotFound"
	// ReasonTimeout: GitHub did not answer the listener in time.
	ReasonTimeout = "Timeout"
	// ReasonInvalidConfiguration: the listener can't use its configuration; the message says what is wrong with it.
	ReasonInvalidConfiguration = "InvalidConfiguration"
	// ReasonPublishFailed: the listener can't write the number of desired runners to the API server.
	ReasonPublishFailed = "PublishFailed"
)

// Reasons of an AutoscalingListener's condition Ready during an ordinary start, until its first session.
const (
	// ReasonListenerPodStarting: the listener's pod is not running yet.
	ReasonListenerPodStarting = "PodStarting"
	// ReasonListenerNotListening: the listener is running but has no session yet, or GitHub leaves its polls
	// unanswered.
	ReasonListenerNotListening = "NotListening"
)

// Reasons of runners that wait or have failed, and of the conditions of their sets.
const (
	// ReasonPending: the pod has not started yet, and neither the scheduler nor the kubelet says why.
	ReasonPending = "Pending"
	// ReasonVolumeUnbound: the pod has no node because a claim of its has no volume. The claim's own Event says why, such as
	// that there is no StorageClass.
	ReasonVolumeUnbound = "VolumeUnbound"
	// ReasonJobHooksFailed: a job failed, and the scripts of feedback.jobLog left nothing of it, as if the image had no sh.
	ReasonJobHooksFailed = "JobHooksFailed"
	// ReasonPendingTimeout: the pod was not running on its node within pendingTimeout.
	ReasonPendingTimeout = "PendingTimeout"
	// ReasonRunnersNotCreated: runners are missing because the API server refuses to create their objects.
	ReasonRunnersNotCreated = "RunnersNotCreated"
	// ReasonRunnersUnseen: runners were created but the manager's watch does not show them, so they are not replaced.
	ReasonRunnersUnseen = "RunnersUnseen"
	// ReasonRunnerSpecDiffers: the EphemeralRunnerSet says something else of its runners than the AutoscalingRunnerSet,
	// so none is created.
	ReasonRunnerSpecDiffers = "RunnerSpecDiffers"
	// ReasonOwnerless: nobody who lives owns the object, so nobody counts it; it came from a backup, or was made by
	// hand, and is removed.
	ReasonOwnerless = "Ownerless"
	// ReasonOtherRevisionLives: the manager doesn't act yet, because pods of its Deployment with another template live.
	ReasonOtherRevisionLives = "OtherRevisionLives"
	// ReasonRunnerNameTaken: GitHub already has a runner of that name.
	ReasonRunnerNameTaken = "RunnerNameTaken"
	// ReasonRegistrationFailed: GitHub did not register the runner, for none of the reasons above.
	ReasonRegistrationFailed = "RegistrationFailed"
	// ReasonAPIServerUnavailable: the API server did not answer, or was overloaded, when the runner's Secret or pod was
	// read or created.
	ReasonAPIServerUnavailable = "APIServerUnavailable"
	// ReasonInvalidSecret: the API server rejects the metadata that the spec sets on the runner's Secret.
	ReasonInvalidSecret = "InvalidSecret"
	// ReasonSecretRefused: the API server refused the runner's Secret.
	ReasonSecretRefused = "SecretRefused"
	// ReasonSecretUnreadable: the manager could not read the runner's Secret.
	ReasonSecretUnreadable = "SecretUnreadable"
	// ReasonInvalidPod: the API server rejects the pod template.
	ReasonInvalidPod = "InvalidPod"
	// ReasonPodFieldsLost: a policy or webhook takes from pods what their template asks for.
	ReasonPodFieldsLost = "PodFieldsLost"
	// ReasonJobImageRefused: a policy refuses the runner's image in the pod of a job, where a dry run has it in place of the
	// job's. Which images jobs have is not known.
	ReasonJobImageRefused = "JobImageRefused"
	// ReasonPodForbidden: a policy, a ResourceQuota, or a permission that the manager lacks, forbids the runner's pod.
	ReasonPodForbidden = "PodForbidden"
	// ReasonPodsForbidden: a ResourceQuota forbids the pods or Secrets of some of the set's runners.
	ReasonPodsForbidden = "PodsForbidden"
	// ReasonQuotaExceeded: a ResourceQuota has no room for the runner's pod or Secret.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonPodRefused: the API server refused the runner's pod, for none of the reasons above.
	ReasonPodRefused = "PodRefused"
	// ReasonPodLost: the pod is gone, and its end was not observed.
	ReasonPodLost = "PodLost"
	// ReasonInitContainerFailed: an init container of the pod failed and will not be restarted.
	ReasonInitContainerFailed = "InitContainerFailed"
	// ReasonRunnerExitedWithoutJob: the runner exited with 0 without ever having had a job.
	ReasonRunnerExitedWithoutJob = "RunnerExitedWithoutJob"
	// ReasonVersionEndsSoon: GitHub gives jobs to the runner version of the image for 14 more days at most.
	ReasonVersionEndsSoon = "Soon"
	// ReasonVersionRefused: GitHub's rules refuse the runner version of the image.
	ReasonVersionRefused = "Refused"
	// ReasonNoDisruptionBudget: no PodDisruptionBudget covers the runners that protectRunners names.
	ReasonNoDisruptionBudget = "NoDisruptionBudget"
	// ReasonSeveralDisruptionBudgets: another PodDisruptionBudget covers the runners, too, and the API server evicts no
	// such pod.
	ReasonSeveralDisruptionBudgets = "SeveralDisruptionBudgets"
	// ReasonDisruptionBudgetTooWeak: the only PodDisruptionBudget that covers the runners may allow their eviction.
	ReasonDisruptionBudgetTooWeak = "DisruptionBudgetTooWeak"
	// ReasonVolumeClaimsExhausted: volumeClaimPool.max claims exist and none is free, so runners wait for one.
	ReasonVolumeClaimsExhausted = "VolumeClaimsExhausted"
	// ReasonVolumeClaimRefused: the API server refuses a new claim; a ResourceQuota, a policy or the template is the
	// cause.
	ReasonVolumeClaimRefused = "VolumeClaimRefused"
	// ReasonVolumeClaimUnusable: a pod could not be placed with its claims, or could not attach or mount them, or a
	// claim is being deleted, is somebody else's, or has jobs of another runner group or none of the templates.
	ReasonVolumeClaimUnusable = "VolumeClaimUnusable"
	// ReasonVolumeClaimsAwaitPlace: there is no node where the volumes of waiting runners' claims can be used.
	ReasonVolumeClaimsAwaitPlace = "VolumeClaimsAwaitPlace"
	// ReasonVolumeClaimUnprovisioned: a provisioner says that it can't make a volume for a claim that a runner waits for.
	ReasonVolumeClaimUnprovisioned = "VolumeClaimUnprovisioned"
	// ReasonVolumeClaimAwaited: the report about a job decides whether a claim is kept, so its runner stays for some
	// minutes.
	ReasonVolumeClaimAwaited = "VolumeClaimAwaited"
	// ReasonVolumeClaimNotDeleted: the manager may not delete a claim that must not be passed on, so its runner stays.
	ReasonVolumeClaimNotDeleted = "VolumeClaimNotDeleted"
	// ReasonVolumeClaimShared: another runner, which is older, has the same claim.
	ReasonVolumeClaimShared = "VolumeClaimShared"
	// ReasonSnapshotKindMissing: the cluster has no VolumeSnapshots, so runners start with empty claims.
	ReasonSnapshotKindMissing = "SnapshotKindMissing"
	// ReasonSnapshotRefused: the API server refuses the manager a VolumeSnapshot; a right that is missing, a
	// ResourceQuota or a policy is the cause.
	ReasonSnapshotRefused = "SnapshotRefused"
	// ReasonSnapshotFailed: the driver or the snapshot controller can't make a snapshot.
	ReasonSnapshotFailed = "SnapshotFailed"
	// ReasonSnapshotLate: a snapshot is not ready ten minutes after it was asked for.
	ReasonSnapshotLate = "SnapshotLate"
	// ReasonSnapshotTooLarge: no claim of its template can be a copy of the newest snapshot, which is larger.
	ReasonSnapshotTooLarge = "SnapshotTooLarge"
	// ReasonSnapshotNotCopied: claims that are copies of a snapshot get no volume.
	ReasonSnapshotNotCopied = "SnapshotNotCopied"
	// ReasonPodsUnschedulable: runner pods have waited for a node for a minute or longer, so GitHub is told of no more
	// room.
	ReasonPodsUnschedulable = "PodsUnschedulable"
	// ReasonRunnersFail: runners fail before they get a job, so GitHub is told of room for one job more than run.
	ReasonRunnersFail = "RunnersFail"
	// ReasonCapacityUnproven: no pod waits; GitHub is told of more room as pods find nodes.
	ReasonCapacityUnproven = "CapacityUnproven"
	// ReasonPodTerminating: the pod of a runner or listener is stuck in deletion and blocks its replacement, or the
	// deletion of its owner.
	ReasonPodTerminating = "PodTerminating"
)
