package v1alpha1

// Labels on the objects of a scale set.
const (
	// LabelScaleSetName and LabelScaleSetNamespace name the AutoscalingRunnerSet that an object belongs to. The
	// manager's cache selects by LabelScaleSetName and doesn't see objects without it, so it is set last on everything
	// that the manager creates, and no template excludes or overrides it.
	LabelScaleSetName      = "actions.github.com/scale-set-name"
	LabelScaleSetNamespace = "actions.github.com/scale-set-namespace"

	// LabelEnterprise, LabelOrganization and LabelRepository repeat the scope of the GitHub config URL.
	LabelEnterprise   = "actions.github.com/enterprise"
	LabelOrganization = "actions.github.com/organization"
	LabelRepository   = "actions.github.com/repository"

	// LabelListenerName and LabelListenerNamespace lead from a listener's Role and RoleBinding back to the
	// AutoscalingListener. It can't be their owner, because they live in another namespace.
	LabelListenerName      = "auto-scaling-listener-name"
	LabelListenerNamespace = "auto-scaling-listener-namespace"

	// LabelRunner marks runner pods with the value "True".
	LabelRunner = "actions-ephemeral-runner"
	// LabelRunnerPod is set by the runner's container hooks on the pods and Secrets of a job; its value is the name of
	// the EphemeralRunner.
	LabelRunnerPod = "runner-pod"

	LabelPartOf    = "app.kubernetes.io/part-of"
	LabelComponent = "app.kubernetes.io/component"
	LabelVersion   = "app.kubernetes.io/version"
)

// Values of LabelPartOf and LabelComponent.
const (
	PartOfScaleSet = "gha-runner-scale-set"
	// PartOfHarrier has what ARC's charts lack: ComponentHistory is the ledger of jobs.
	PartOfHarrier    = "harrier"
	ComponentHistory = "history"

	ComponentListener  = "runner-scale-set-listener"
	ComponentRunnerSet = "runner-set"
	ComponentRunner    = "runner"
)

// Labels of claims, besides those that name the scale set.
const (
	// LabelVolumeClaimTemplate is the name of the template that the claim was made from.
	LabelVolumeClaimTemplate = "actions.github.com/volume-claim-template"
	// LabelVolumeClaimScope is a hash of the GitHub address and the runner group whose jobs have written to the claim.
	// No set that serves another address or group uses it.
	LabelVolumeClaimScope = "actions.github.com/volume-claim-scope"
)

// Annotations of claims, and of the runners that clone them.
const (
	// AnnotationVolumeClaimUsedAt, on a claim, has the time when a runner last had it: not exact, so that it is seldom
	// written.
	AnnotationVolumeClaimUsedAt = "actions.github.com/volume-claim-used-at"
	// AnnotationVolumeClaimFailures, on a claim, lists the last runners in a row whose pods could not use it, as
	// RUNNER@TIME, separated by spaces.
	AnnotationVolumeClaimFailures = "actions.github.com/volume-claim-failures"
	// AnnotationVolumeClaimSeed, on a runner, is the suffix of the claims that its own new claims are copies of; in mode
	// Snapshot that of the VolumeSnapshots.
	AnnotationVolumeClaimSeed = "actions.github.com/volume-claim-seed"
	// AnnotationVolumeClaimCommit, on a claim in mode Snapshot, says that a snapshot may be made of it, and after which
	// job, as JSON. A VolumeSnapshot that was made of it has the same.
	AnnotationVolumeClaimCommit = "actions.github.com/volume-claim-commit"
)

// Annotations.
const (
	// AnnotationRunnerScaleSetID holds the decimal id of the scale set on GitHub. It has no prefix because ARC's has
	// none. It is kept alongside status.registration so that users can go back to ARC.
	AnnotationRunnerScaleSetID   = "runner-scale-set-id"
	AnnotationRunnerGroupName    = "actions.github.com/runner-group-name"
	AnnotationRunnerScaleSetName = "actions.github.com/runner-scale-set-name"
	// AnnotationStandalone, "true" on an EphemeralRunner that somebody else than the manager creates, lets the runner set
	// of the scale set that its labels name take it in, before anything else has become of it.
	AnnotationStandalone = "actions.github.com/standalone"
	// AnnotationPatchID is the patchID of the EphemeralRunnerSet at the moment a runner was created.
	AnnotationPatchID = "actions.github.com/patch-id"
	// AnnotationRunnerSpecHash, on an EphemeralRunner, is the hash of the ephemeralRunnerSpec it was created from; a
	// runner whose hash differs from its set's belongs to an old template.
	AnnotationRunnerSpecHash = "actions.github.com/runner-spec-hash"
	// AnnotationRunnerID, on a runner pod, is the id of the runner on GitHub. With it a runner can be deregistered even
	// if its status was never written.
	AnnotationRunnerID = "actions.github.com/runner-id"
	// AnnotationPhases, on a runner pod, are the runner's status.phases in a form that a shell can compute with:
	// NAME=SECONDS since 1970, with spaces between them. At first it has those of the runner so far, and from the start
	// of the job on all that are known.
	AnnotationPhases = "actions.github.com/phases"
	// AnnotationHookTemplate, on a runner pod, is the template of its job's pods, which the runner's container hooks find
	// as a file.
	AnnotationHookTemplate = "actions.github.com/hook-template"
	// AnnotationDrained, on an AutoscalingRunnerSet, has the set take no more jobs while its value is DrainedValue.
	// Those that GitHub has assigned to it run, and no runner is kept idle. The spec stays as it is, so that tools
	// which apply it undo nothing.
	AnnotationDrained = "actions.github.com/drained"
	DrainedValue      = "true"
	// AnnotationListenerSession, on an EphemeralRunnerSet, is the id of the message session that its listener holds. A
	// new listener process deletes that session before it creates its own.
	AnnotationListenerSession = "actions.github.com/listener-session-id"
	// AnnotationIntegrityHash is the hash of everything that decides whether a dependent object must be replaced.
	AnnotationIntegrityHash = "actions.github.com/integrity-hash"
	// AnnotationValuesHash, on an AutoscalingRunnerSet, changes with each upgrade that changes the chart's values.
	AnnotationValuesHash = "actions.github.com/values-hash"
	// AnnotationCleanupPrefix is the prefix of the annotations in which the chart names the objects that ARC protects
	// with its own finalizer.
	AnnotationCleanupPrefix = "actions.github.com/cleanup-"
)

// Annotations that a runner pod gets when its job starts, taken from the runner's status. They say whose work a pod
// does, for tools that only see pods: logs, cost reports, audits.
const (
	AnnotationJobRepository = "actions.github.com/job-repository" // OWNER/REPO
	AnnotationJobWorkflow   = "actions.github.com/job-workflow"   // OWNER/REPO/PATH of the workflow's file
	AnnotationJobRef        = "actions.github.com/job-ref"        // refs/heads/main
	AnnotationJobRunID      = "actions.github.com/job-run-id"     // of the workflow run
	AnnotationJobID         = "actions.github.com/job-id"
	AnnotationJobName       = "actions.github.com/job-name"
	// AnnotationJobResult is added if the pod is still running when its job is reported completed.
	AnnotationJobResult = "actions.github.com/job-result"
)

// Labels that a runner pod gets at the same time if the value is a valid label value, so that pods can be selected by
// them.
const (
	// LabelJobRepository is OWNER_REPO: a label value can't have a slash, and an owner can't have an underscore.
	LabelJobRepository = AnnotationJobRepository
	LabelJobRunID      = AnnotationJobRunID
	LabelJobID         = AnnotationJobID
)

// LabelRunnerBusy marks, with the value RunnerBusy, the pods that run a job: a runner's own while it has one, and those
// that container hooks start for a job. A new runner's pod has the value RunnerMayBeBusy until its job is reported, or
// until it has been up for a while without one. The PodDisruptionBudget of the scale set's chart selects both.
const (
	LabelRunnerBusy = "actions.github.com/runner-busy"
	RunnerBusy      = "true"
	RunnerMayBeBusy = "unknown"
)

// Annotations of node autoscalers that protect a pod from eviction when nodes are consolidated. A runner pod has them
// while it has LabelRunnerBusy, whatever its template says.
const (
	AnnotationDoNotDisrupt = "karpenter.sh/do-not-disrupt"
	AnnotationSafeToEvict  = "cluster-autoscaler.kubernetes.io/safe-to-evict"
)

// Finalizers.
const (
	FinalizerAutoscalingRunnerSet = "autoscalingrunnerset.actions.github.com/finalizer"
	FinalizerAutoscalingListener  = "autoscalinglistener.actions.github.com/finalizer"
	FinalizerEphemeralRunner      = "ephemeralrunner.actions.github.com/finalizer"
	// FinalizerEphemeralRunnerSet is the runner's: ARC has given both kinds the same one in its releases 0.4 to 0.14. So neither a set that is taken over from ARC nor one that goes back to it is kept by a finalizer that
	// nobody serves.
	FinalizerEphemeralRunnerSet = FinalizerEphemeralRunner
	// FinalizerFormerRunnerSet is given to an EphemeralRunnerSet by ARC 0.15, and was by earlier builds of this manager.
	// It is replaced, and removed with the other, wherever it is found.
	FinalizerFormerRunnerSet = "ephemeralrunnerset.actions.github.com/finalizer"
	// FinalizerRunnerRegistration is ARC's second finalizer on runners. Our runners have only the first; the second is
	// removed wherever it is found.
	FinalizerRunnerRegistration = "ephemeralrunner.actions.github.com/runner-registration-finalizer"
	// FinalizerCleanupProtection is ARC's finalizer on objects of its charts. We never set it, and remove it wherever
	// it is found.
	FinalizerCleanupProtection = "actions.github.com/cleanup-protection"
)

// RunnerContainerName and ListenerContainerName are the names of the containers in pod templates that have a meaning.
const (
	RunnerContainerName   = "runner"
	ListenerContainerName = "listener"
)
