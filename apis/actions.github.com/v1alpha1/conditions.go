package v1alpha1

// Condition types. kstatus, and so Argo CD, Flux and `kubectl wait`, understands Ready and Stalled; Progressing is never
// true beside Ready. Types that name a trouble (Stalled, Degraded, RunnerOutdated, QuotaExceeded, RunnersPending, Draining) are present only while it lasts
// or stay with status False and the reason that ended it.
const (
	// ConditionReady: the object does what its spec asks for.
	ConditionReady = "Ready"
	// ConditionProgressing: work towards the spec is under way.
	ConditionProgressing = "Progressing"
	// ConditionStalled: nothing more will happen until somebody changes something; the message says what.
	ConditionStalled = "Stalled"
	// ConditionScaleSetRegistered: the scale set exists on GitHub as the spec wants it.
	ConditionScaleSetRegistered = "ScaleSetRegistered"
	// ConditionLabelsInSync: GitHub accepted all labels of the spec. Older GitHub Enterprise Servers drop all but the first.
	ConditionLabelsInSync = "LabelsInSync"
	// ConditionCredentialsValid: the credential Secret exists, is complete and was accepted by GitHub.
	ConditionCredentialsValid = "CredentialsValid"
	// ConditionListenerReady: a listener holds the message session and polls.
	ConditionListenerReady = "ListenerReady"
	// ConditionDegraded: runners fail before they get a job, and the message carries the pod's own reason; or none can be made, or seen.
	ConditionDegraded = "Degraded"
	// ConditionRunnerOutdated: GitHub refuses the runner version in the image; until the template changes there is only a probe now and then.
	ConditionRunnerOutdated = "RunnerOutdated"
	// ConditionVersionSupported: the chart that made the object is of the manager's minor version, or the manager is a development build.
	ConditionVersionSupported = "VersionSupported"
	// ConditionPodStarted: the runner's pod runs; while False the message is the scheduler's or kubelet's own.
	ConditionPodStarted = "PodStarted"
	// ConditionQuotaExceeded: a ResourceQuota refuses the runner's pod or Secret; it is tried again.
	ConditionQuotaExceeded = "QuotaExceeded"
	// ConditionRunnersPending: runners that were asked for wait, for a reason other than a ResourceQuota; the message has
	// the commonest reason, which is the scheduler's, the kubelet's, GitHub's or the API server's own.
	ConditionRunnersPending = "RunnersPending"
	// ConditionDraining: deletion waits for a running job.
	ConditionDraining = "Draining"
)
