package report

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

// ReasonOther stands for every reason that is not in the lists below.
const ReasonOther = "Other"

// KnownReason returns a reason that this project or Kubernetes gives, and ReasonOther for any other; "" stays "".
// Reasons are read from the status of objects, which anybody with rights in their namespace may write, and whatever has
// one entry for each reason, such as the series of a metric, would grow without limit.
func KnownReason(reason string) string {
	if reason == "" || knownReasons.Has(reason) {
		return reason
	}
	return ReasonOther
}

// knownReasons are the API's constants, what else this project writes (test/docs compares that with the code), and what
// kubelets, schedulers and container runtimes write; a condition can't have the hyphen of the one that has it.
var knownReasons = sets.New(slices.Concat(refusalReasons(), []string{
	v1alpha1.ReasonCredentialsMissing, v1alpha1.ReasonCredentialsInvalid, v1alpha1.ReasonVaultUnsupported,
	v1alpha1.ReasonVaultNotAllowed, v1alpha1.ReasonInvalidConfigURL, v1alpha1.ReasonRateLimited,
	v1alpha1.ReasonGitHubUnavailable, v1alpha1.ReasonRefusedByGitHub, v1alpha1.ReasonRunnerGroupNotFound,
	v1alpha1.ReasonScaleSetInUse, v1alpha1.ReasonLabelsDropped, v1alpha1.ReasonSessionConflict,
	v1alpha1.ReasonReconcileFailed, v1alpha1.ReasonNameTooLong, v1alpha1.ReasonScheduleRefused,
	v1alpha1.ReasonMaxRunnersReached, v1alpha1.ReasonMaxRunnersZero, v1alpha1.ReasonPodNameTaken,
	v1alpha1.ReasonNodeLost, v1alpha1.ReasonListenerStopped, v1alpha1.ReasonScaleSetNotFound, v1alpha1.ReasonTimeout,
	v1alpha1.ReasonInvalidConfiguration, v1alpha1.ReasonPublishFailed, v1alpha1.ReasonListenerPodStarting,
	v1alpha1.ReasonListenerNotListening, v1alpha1.ReasonPending, v1alpha1.ReasonPendingTimeout,
	v1alpha1.ReasonRunnersNotCreated, v1alpha1.ReasonRunnersUnseen, v1alpha1.ReasonRunnerNameTaken,
	v1alpha1.ReasonRegistrationFailed, v1alpha1.ReasonAPIServerUnavailable, v1alpha1.ReasonInvalidSecret,
	v1alpha1.ReasonSecretRefused, v1alpha1.ReasonSecretUnreadable, v1alpha1.ReasonInvalidPod,
	v1alpha1.ReasonPodForbidden, v1alpha1.ReasonPodsForbidden, v1alpha1.ReasonQuotaExceeded, v1alpha1.ReasonPodRefused,
	v1alpha1.ReasonPodLost, v1alpha1.ReasonInitContainerFailed, v1alpha1.ReasonRunnerExitedWithoutJob,
	v1alpha1.ReasonPodTerminating, v1alpha1.ReasonAddressNotAllowed, v1alpha1.ReasonInsecureRedirect,
	v1alpha1.ReasonFieldsRefused, v1alpha1.ReasonListenerNameTaken, v1alpha1.ReasonListenerIgnored,
	v1alpha1.ReasonRunnerSpecDiffers, v1alpha1.ReasonNoDisruptionBudget, v1alpha1.ReasonSeveralDisruptionBudgets,
	v1alpha1.ReasonDisruptionBudgetTooWeak, v1alpha1.ReasonForeignFinalizers, v1alpha1.ReasonJobsNotTaken,
	v1alpha1.ReasonOwnerless, v1alpha1.ReasonDrained, v1alpha1.ReasonTakesJobs, v1alpha1.ReasonStartsLimited,
	v1alpha1.ReasonPodsUnschedulable, v1alpha1.ReasonRunnersFail, v1alpha1.ReasonCapacityUnproven,
	v1alpha1.ReasonVolumeClaimsExhausted, v1alpha1.ReasonVolumeClaimRefused, v1alpha1.ReasonVolumeClaimUnusable,
	v1alpha1.ReasonVolumeClaimShared, v1alpha1.ReasonVolumeClaimAwaited, v1alpha1.ReasonVolumeClaimNotDeleted,
	v1alpha1.ReasonOtherRevisionLives,
	v1alpha1.ReasonVersionEndsSoon, v1alpha1.ReasonVersionRefused,
}, strings.Fields(`
Accepted AllAnnounced BackOff CallFailed CheckingPodTemplate ClaimsReady Complete Completed ContainerFailed
CrashLoopBackOff Deleted Deregistered Deregistering Done DrainingRunners ExtraListenerDeleted HookResourcesLeft JobLost
JobRerun JobRunning LabelsAccepted ListenerStarting Listening MalformedMessage NamespaceTerminating NoClaims
NoEndKnown NoScheduleOpen NoSchedules NoVersionLabel NothingKept OldRunnerSetDraining Outdated Permitted PodFailed
PodMetadataForbidden PodNotReady PodReady LimitChanged PodUnreadable Protected StartedLate VolumeClaimDiscarded
PodReplaced PodsAdmitted PodsPlaced Read Ready Registered Registering RegistrationLeft Releasing RemovalUnanswered
Retrying RunnerVersionRefused RunnerSetRestored RunnersMoved RunnersScale RunnersSeen RunnersStart RunnersWork Running
ScaleSetAddressChanged ScaleSetDeleted ScaleSetLeftOnGitHub ScaleSetRecreated ScaleSetRegistered ScaleSetUpdated
ScaledDown ScaledUp ScheduleEnded ScheduleOpen ScheduleStarted SecretNameTaken SessionLost SidecarFailed Starting
StartsNotLimited StatisticsBelieved StrayHasJob StraysNotListed StraysRemoved Stopping StoppingListener Unknown
UnknownRunnerJob VersionTaken VersionAccepted VersionDiffers VersionMatches WaitingForPredecessor WaitingForRunnerSets
WaitingForScaleSet CheckingCredentials

AppArmor BackoffLimitExceeded ConfigPodSandboxError ContainerCannotRun ContainerCreating ContainerStatusUnknown
ContainersNotReady CreateContainerConfigError CreateContainerError CreatePodSandboxError DeadlineExceeded
DeletionByPodGC DeletionByTaintManager ErrImageNeverPull ErrImagePull Error Evicted EvictionByEvictionAPI
ImageInspectError ImagePullBackOff InitContainerRestartForbidden InvalidImageName InvalidNodeInfo KillContainerError
KillPodSandboxError NetworkNotReady NodeAffinity NodeName NodeNotReady NodePorts NodeShutdown OOMKilled OutOfcpu
OutOfephemeral-storage OutOfephemeralstorage OutOfmemory OutOfpods PodDeleted PodInitializing
PodLevelResourcesNotSupported PodOSNotSupported PodOSSelectorNodeLabelDoesNotMatch PodOverhead PostStartHookError
PreCreateHookError PreStartHookError PreStopHookError Preempted PreemptionByKubeScheduler PreemptionByScheduler
Preempting ProviderFailed RegistryUnavailable RunContainerError RunInitContainerError SchedulerError SchedulingGated
Shutdown SMTAlignmentError SignatureValidationFailed StartError SupplementalGroupsPolicyNotSupported SysctlForbidden
TaintToleration Terminated TerminationByKubelet TopologyAffinityError UnexpectedAdmissionError
UnexpectedPredicateFailureType UnknownReason Unschedulable VerifyNonRootError
`))...)

// refusalReasons are the reasons for which GitHub refuses credentials; see actions.RefusalOf.
func refusalReasons() []string {
	var reasons []string
	for _, class := range actions.RefusalClasses() {
		reasons = append(reasons, string(class))
	}
	return reasons
}
