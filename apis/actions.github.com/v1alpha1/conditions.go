package v1alpha1

// Condition types. Ready, Reconciling and Stalled follow kstatus, so that Argo CD, Flux and `kubectl wait` understand
// them. Types that name a trouble (Stalled, Degraded, Outdated, QuotaExceeded, Draining) are present only while it lasts
// or stay with status False and the reason that ended it.
const (
	// ConditionReady: the object does what its spec asks for.
	ConditionReady = "Ready"
	// ConditionReconciling: work towards the spec is under way.
	ConditionReconciling = "Reconciling"
	// ConditionStalled: nothing more will happen until somebody changes something; the message says what.
	ConditionStalled = "Stalled"
	// ConditionRegistered: the scale set exists on GitHub as the spec wants it.
	ConditionRegistered = "Registered"
	// ConditionLabelsInSync: GitHub accepted all labels of the spec. Older GitHub Enterprise Servers drop all but the first.
	ConditionLabelsInSync = "LabelsInSync"
	// ConditionCredentialsValid: the credential Secret exists, is complete and was accepted by GitHub.
	ConditionCredentialsValid = "CredentialsValid"
	// ConditionListenerReady: a listener holds the message session and polls.
	ConditionListenerReady = "ListenerReady"
	// ConditionDegraded: runners fail before they get a job; the message carries the pod's own reason.
	ConditionDegraded = "Degraded"
	// ConditionOutdated: GitHub refuses the runner version in the image; no runners until the template changes.
	ConditionOutdated = "Outdated"
	// ConditionVersionSupported: the chart that made the object is of this manager's version.
	ConditionVersionSupported = "VersionSupported"
	// ConditionPodStarted: the runner's pod runs; while False the message is the scheduler's or kubelet's own.
	ConditionPodStarted = "PodStarted"
	// ConditionQuotaExceeded: a ResourceQuota refuses the runner's pod; it is tried again.
	ConditionQuotaExceeded = "QuotaExceeded"
	// ConditionDraining: deletion waits for a running job.
	ConditionDraining = "Draining"
)
