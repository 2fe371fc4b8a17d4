package meaning

import (
	"strings"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// CorrectCommand is the advice about a runner whose command ends at once. An unwritable work folder looks like that.
const CorrectCommand = "correct the image or command of the container named runner: the command is usually " +
	"/home/runner/run.sh"

const (
	correctImage = "correct the image or imagePullSecrets of the template, or check that the node can reach the " +
		"registry"
	outranked = followed + "give the template a priorityClassName, or add nodes: pods of higher priority need " +
		"the room"
	nodesGo      = followed + "find out what removes or stops nodes: a node autoscaler, spot instances, their cloud"
	shortOfNodes = followed + "set the runner's requests to what jobs use, so that nodes are not " +
		"overcommitted; if the message names a limit, raise that"
	refusedByNode = followed + "find out why the node that the message names refuses what the scheduler sends: a " +
		"kubelet or device plugin that offers more than it has, " +
		"a second scheduler, or nodeName in the template; cordon the node until then"
	followed      = "wait: another pod follows; if it goes on, "
	notPulled     = "the runner's image can't be pulled"
	notPulledHere = "image can't be pulled"
)

// ofKubernetes are the reasons of kubelets, schedulers and container runtimes of which something can be said.
var ofKubernetes = []Row{
	{
		Reason: "Unschedulable",
		Actor:  Administrator,
		OfPods: true,
		Few:    "no node with room",
		Author: noRoom,
		Advice: "add nodes, or make the template ask for less: requests, nodeSelector, affinity, tolerations, volumes",
		OfListener: "make room for the listener's pod: its listenerTemplate may require a node that does not " +
			"exist",
	},
	{
		Reason: v1alpha1.ReasonVolumeUnbound,
		Actor:  Administrator,
		OfPods: true,
		Few:    "no volume",
		Author: "the storage that the runner needs can't be had",
		Advice: "give the claim of the template a storageClassName that exists, or the cluster a default StorageClass, whose " +
			"provisioner runs: kubectl get storageclass; the claim's own Event, in kubectl describe persistentvolumeclaim, says " +
			"what is wrong",
	},
	{
		Reason: "SchedulingGated",
		Actor:  Administrator,
		OfPods: true,
		Few:    "waits for a gate",
		Author: "a queue of the cluster has not let the runner through yet",
		Advice: "wait for whoever set the scheduling gate that the message names; if it is Kueue's, kubectl get " +
			"workloads says why the pod is not admitted",
	},
	{
		Reason: "ImagePullBackOff", Actor: User, OfPods: true, Few: notPulledHere, Author: notPulled,
		Advice: correctImage,
	},
	{Reason: "ErrImagePull", Actor: User, OfPods: true, Few: notPulledHere, Author: notPulled, Advice: correctImage},
	{Reason: "ErrImageNeverPull", Actor: User, OfPods: true, Author: notPulled},
	{Reason: "ImageInspectError", Actor: User, OfPods: true, Author: notPulled},
	{Reason: "RegistryUnavailable", Actor: User, OfPods: true, Author: notPulled},
	{
		Reason: "InvalidImageName", Actor: User, OfPods: true, Few: "image name is wrong", Author: notPulled,
		Advice: "correct the image of the template",
	},
	{
		Reason: "CreateContainerConfigError", Actor: User, OfPods: true,
		Advice: "create the ConfigMap or Secret that the template refers to",
	},
	{
		Reason: "CreateContainerError", Actor: User, OfPods: true,
		Advice: "correct what the message names in the template",
	},
	{
		Reason: "Error", Actor: User, OfPods: true,
		Advice: CorrectCommand + "; while a runner's pod exists, kubectl logs shows its output",
	},
	{Reason: "StartError", Actor: User, OfPods: true, Advice: CorrectCommand},
	{Reason: "ContainerCannotRun", Actor: User, OfPods: true, Advice: CorrectCommand},
	{Reason: "RunContainerError", Actor: User, OfPods: true, Advice: CorrectCommand},
	{
		Reason: "CrashLoopBackOff",
		Actor:  User,
		OfPods: true,
		Advice: "run kubectl logs --previous on the runner's pod, with -c and the container that the message " +
			"names; for dind, check that the namespace allows privileged pods, set DOCKER_IPTABLES_LEGACY=1 in its env if its " +
			"node has no nf_tables, and name a version in containerMode.dindImage if it began by itself (docs/container-modes.md)",
		OfListener: "run kubectl logs on the listener's pod in the manager's namespace",
	},
	{Reason: "OOMKilled", Actor: User, OfPods: true, Advice: "raise the memory limit of the runner container"},
	{Reason: "Evicted", Actor: Administrator, OfPods: true, Advice: shortOfNodes},
	{Reason: "TerminationByKubelet", Actor: Administrator, OfPods: true, Advice: shortOfNodes},
	{Reason: "PreemptionByScheduler", Actor: Administrator, OfPods: true, Advice: outranked},
	{Reason: "Preempting", Actor: Administrator, OfPods: true, Advice: outranked},
	{Reason: "Preempted", Actor: Administrator, OfPods: true, Advice: outranked},
	{Reason: "DeletionByTaintManager", Actor: Administrator, OfPods: true, Advice: nodesGo},
	{Reason: "DeletionByPodGC", Actor: Administrator, OfPods: true, Advice: nodesGo},
	{Reason: "NodeShutdown", Actor: Administrator, OfPods: true, Advice: nodesGo},
	{Reason: "Terminated", Actor: Administrator, OfPods: true, Advice: nodesGo},
	{Reason: "Shutdown", Actor: Administrator, OfPods: true, Advice: nodesGo},
	{
		Reason: "EvictionByEvictionAPI", Actor: Administrator, OfPods: true,
		Advice: followed + "find out who evicts pods: a drain, a node autoscaler, a descheduler",
	},
	{Reason: "ContainerCreating", OfPods: true},
	{Reason: "PodInitializing", OfPods: true},
}

// ofKubelets are the other reasons of kubelets, schedulers and container runtimes; a condition can't have the hyphen of
// the one that has it. A kubelet that refuses a pod because of the state of its node has an advice of its own.
func ofKubelets() (rows []Row) {
	for reason := range strings.FieldsSeq(`
InvalidNodeInfo NodeAffinity NodeName NodePorts OutOfcpu OutOfephemeral-storage OutOfephemeralstorage OutOfmemory
OutOfpods TaintToleration TopologyAffinityError UnexpectedAdmissionError UnexpectedPredicateFailureType UnknownReason
`) {
		rows = append(rows, Row{Reason: reason, Actor: Administrator, OfPods: true, Advice: refusedByNode})
	}
	for reason := range strings.FieldsSeq(`
AppArmor BackoffLimitExceeded ConfigPodSandboxError ContainerStatusUnknown ContainersNotReady CreatePodSandboxError
DeadlineExceeded InitContainerRestartForbidden KillContainerError KillPodSandboxError NetworkNotReady NodeNotReady
PodDeleted PodLevelResourcesNotSupported PodOSNotSupported PodOSSelectorNodeLabelDoesNotMatch PodOverhead
PostStartHookError PreCreateHookError PreStartHookError PreStopHookError PreemptionByKubeScheduler ProviderFailed
RunInitContainerError SchedulerError SMTAlignmentError SignatureValidationFailed SupplementalGroupsPolicyNotSupported
SysctlForbidden VerifyNonRootError
`) {
		rows = append(rows, Row{Reason: reason, Actor: User, OfPods: true})
	}
	return rows
}

// ordinary are the reasons of this project that need no more words than their own, and by which no program decides:
// those of ordinary states and of Events. docs/reference.md explains them.
func ordinary() (rows []Row) {
	for reason := range strings.FieldsSeq(`
Accepted AllAnnounced BackOff CallFailed CheckingPodTemplate ClaimsReady Complete Completed ContainerFailed Deleted
Deregistered Deregistering Done DrainingRunners ExtraListenerDeleted HookResourcesLeft JobLost JobRerun JobRunning
LabelsAccepted LimitChanged ListenerStarting Listening MalformedMessage NamespaceTerminating NoClaims NoEndKnown
NoScheduleOpen NoSchedules NoSnapshotYet NoSnapshots NoVersionLabel NothingKept OldRunnerSetDraining Outdated Permitted PodFailed PodNotReady
PodReady PodReplaced PodUnreadable PodsAdmitted PodsAsWritten PodsExtended PodsPlaced Protected Read Ready Registered Registering RegistrationLeft
Releasing RemovalUnanswered Retrying RunnerSetRestored RunnersMoved RunnersScale RunnersSeen RunnersStart RunnersWork
Running ScaleSetAddressChanged ScaleSetDeleted ScaleSetLeftOnGitHub ScaleSetRecreated ScaleSetRegistered
ScaleSetUpdated ScaledDown ScaledUp ScheduleEnded ScheduleOpen ScheduleStarted SecretNameTaken SessionLost
SidecarFailed SnapshotDeleted SnapshotReady StartedLate Starting StartsNotLimited StatisticsBelieved Stopping StoppingListener StrayHasJob
StraysNotListed StraysRemoved UnknownRunnerJob VersionAccepted VersionDiffers VersionMatches VersionTaken
VolumeClaimDiscarded WaitingForPredecessor WaitingForRunnerSets WaitingForScaleSet
`) {
		rows = append(rows, Row{Reason: reason, Actor: User, Passes: true})
	}
	return rows
}
