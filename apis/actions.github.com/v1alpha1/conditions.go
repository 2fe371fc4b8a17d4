package v1alpha1

// Condition types. kstatus, and so Argo CD, Flux and `kubectl wait`, understands Ready and Stalled; Progressing is
// never true together with Ready. Types that name a problem (Stalled, Degraded, RunnerOutdated, PodTemplateRefused,
// JobPodRefused, PodsAltered, QuotaExceeded, RunnersPending, RunnersUnprotected, StatisticsDoubtful, CapacityLimited, Draining, DeletionBlocked)
// are either absent without it, or stay with status False and the reason that ended it.
const (
	// ConditionReady: the object does what its spec asks for.
	ConditionReady = "Ready"
	// ConditionProgressing: work towards the spec is under way.
	ConditionProgressing = "Progressing"
	// ConditionStalled: nothing more happens until somebody changes something; the message says what to change.
	ConditionStalled = "Stalled"
	// ConditionScaleSetRegistered: the scale set exists on GitHub as the spec wants it.
	ConditionScaleSetRegistered = "ScaleSetRegistered"
	// ConditionLabelsInSync: GitHub accepted all labels of the spec. Older GitHub Enterprise Servers drop all but the
	// first.
	ConditionLabelsInSync = "LabelsInSync"
	// ConditionCredentialsValid: the credentials exist, are complete and were accepted by GitHub.
	ConditionCredentialsValid = "CredentialsValid"
	// ConditionListenerReady: a listener holds the message session and polls.
	ConditionListenerReady = "ListenerReady"
	// ConditionListenerTemplateAccepted: the policy for listener pods lets through all of listenerTemplate and of the
	// metadata for objects in the manager's namespace. While False, the message lists what is left out; the listener
	// runs without it.
	ConditionListenerTemplateAccepted = "ListenerTemplateAccepted"
	// ConditionSchedulesAccepted: all schedules of the spec can be followed; the message says which are open and until
	// when. While False, it names the schedule and the field that is wrong; the other schedules are followed.
	ConditionSchedulesAccepted = "SchedulesAccepted"
	// ConditionDegraded: runners fail before they get a job, for the pod's reason in the message; or runners can't be
	// created or observed.
	ConditionDegraded = "Degraded"
	// ConditionRunnerOutdated: GitHub refuses the runner version in the image; until the template changes, one runner
	// is tried now and then.
	ConditionRunnerOutdated = "RunnerOutdated"
	// ConditionRunnerVersionExpires: GitHub takes the runner version that the image's tag names for 14 more days at most,
	// or refuses it by its rules already.
	ConditionRunnerVersionExpires = "RunnerVersionExpires"
	// ConditionPodTemplateRefused: no runner can start, because the API server, or a policy, refuses every pod of the
	// template. A dry run of one pod showed it when the template or the set was new, or the pods of all waiting runners
	// were forbidden for a minute. A ResourceQuota that is full and a webhook that doesn't answer don't count.
	ConditionPodTemplateRefused = "PodTemplateRefused"
	// ConditionJobPodRefused: no pod in which the container hooks of runners run a job can start, because the API server,
	// or a policy, refuses it. A dry run of such a pod, made from the hook template, showed it before the first job.
	ConditionJobPodRefused = "JobPodRefused"
	// ConditionPodsAltered: a policy or webhook takes from the runners' pods, or from those of jobs, what the template asks
	// for: a token, an account, a volume, a node selector. While False, the message says what is only added or changed,
	// such as images by a mirror or containers by a mesh.
	ConditionPodsAltered = "PodsAltered"
	// ConditionVersionSupported: the chart that created the object has the manager's minor version, or the manager is a
	// development build.
	ConditionVersionSupported = "VersionSupported"
	// ConditionPodStarted: the runner's pod is running; while False, the message is the scheduler's or kubelet's own.
	ConditionPodStarted = "PodStarted"
	// ConditionQuotaExceeded: a ResourceQuota refuses the runner's pod or Secret; the manager keeps retrying.
	ConditionQuotaExceeded = "QuotaExceeded"
	// ConditionRunnersPending: requested runners are waiting, for a reason other than a ResourceQuota; or, if none is,
	// pods in which the container hooks of runners run jobs. The message has the most common reason, as given by the
	// scheduler, the kubelet, GitHub or the API server.
	ConditionRunnersPending = "RunnersPending"
	// ConditionRunnersUnprotected: the PodDisruptionBudgets of the namespace don't protect the runners as
	// protectRunners asks for.
	ConditionRunnersUnprotected = "RunnersUnprotected"
	// ConditionStatisticsDoubtful: GitHub counts jobs that idle runners were not given, so no runners are created for
	// them until its figures change; the message has the figures.
	ConditionStatisticsDoubtful = "StatisticsDoubtful"
	// ConditionVolumeClaimsReady: runners get the claims of volumeClaimTemplates. While False, the message says what
	// they wait for.
	ConditionVolumeClaimsReady = "VolumeClaimsReady"
	// ConditionSnapshotsReady: in mode Snapshot, snapshots can be made, and claims can be copied from the newest one.
	// While False, the message says what fails, and what runners start from meanwhile.
	ConditionSnapshotsReady = "SnapshotsReady"
	// ConditionCapacityLimited: with capacity.mode Placement, GitHub is told of less room than maxRunners; the message
	// has the numbers. While nothing waits the reason is CapacityUnproven: that is no problem, the number rises as pods
	// find nodes.
	ConditionCapacityLimited = "CapacityLimited"
	// ConditionFeedbackPermitted: GitHub lets the credentials write the check runs, or run the jobs again, that
	// feedback asks for; the message says which permission is missing.
	ConditionFeedbackPermitted = "FeedbackPermitted"
	// ConditionStartsLimited: maxStartsPerMinute holds back runners that are wanted.
	ConditionStartsLimited = "StartsLimited"
	// ConditionDrained: the annotation actions.github.com/drained is on the set, and neither jobs nor runners are left.
	// While it is on the set and the condition is False, the message says what is left.
	ConditionDrained = "Drained"
	// ConditionDraining: the deletion waits for a running job.
	ConditionDraining = "Draining"
	// ConditionDeletionBlocked: the object, or one that belongs to it, is deleted but kept by finalizers that this
	// controller doesn't serve. The message names the object and the finalizers, and says what to do.
	ConditionDeletionBlocked = "DeletionBlocked"
)
