package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// MaxRunnersUnlimited is the effective maximum of a set whose maxRunners is unset: the largest 32-bit integer, which is
// also the value sent to the Actions service.
const MaxRunnersUnlimited = 1<<31 - 1

// AutoscalingRunnerSetSpec has what a user asks for.
// +kubebuilder:validation:XValidation:rule="!has(self.minRunners) || !has(self.maxRunners) || self.minRunners <= self.maxRunners || (oldSelf.hasValue() && has(oldSelf.value().minRunners) && has(oldSelf.value().maxRunners) && oldSelf.value().minRunners == self.minRunners && oldSelf.value().maxRunners == self.maxRunners)",optionalOldSelf=true,fieldPath=".minRunners",message="must not be greater than maxRunners"
type AutoscalingRunnerSetSpec struct {
	// Address of the repository, organization or enterprise that the runners serve, such as https://github.com/my-org.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self.matches('^/*https?://[^/?#]+(/[^/?#]+){1,2}/*$') || (oldSelf.hasValue() && oldSelf.value() == self)",optionalOldSelf=true,message="must be the address of a repository (https://HOST/OWNER/REPO), an organization (https://HOST/ORG) or an enterprise (https://HOST/enterprises/NAME)"
	GitHubConfigUrl string `json:"githubConfigUrl,omitempty"`

	// Name of a Secret in the same namespace with either github_token, or github_app_id, github_app_installation_id and
	// github_app_private_key. With a vault, the name of a secret in the vault.
	// +optional
	GitHubConfigSecret string `json:"githubConfigSecret,omitempty"`

	// Any word; another one says that the content of githubConfigSecret has changed. Then it is read immediately, and
	// the condition Ready is not True until GitHub has accepted it. The chart derives it from credentials in its
	// values. Not in ARC.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	GitHubConfigSecretRevision string `json:"githubConfigSecretRevision,omitempty"`

	// Runner group on GitHub. Empty means the default group.
	// +optional
	RunnerGroup string `json:"runnerGroup,omitempty"`

	// Name of the scale set on GitHub, for use in runs-on. Empty means the name of this object.
	// +optional
	RunnerScaleSetName string `json:"runnerScaleSetName,omitempty"`

	// Labels of the scale set on GitHub, in addition to its name.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	RunnerScaleSetLabels []string `json:"runnerScaleSetLabels,omitempty"`

	// Proxy for everything that talks to GitHub: manager, listener and runners.
	// +optional
	Proxy *ProxyConfig `json:"proxy,omitempty"`

	// Additional certificate authorities for talking to GitHub.
	// +optional
	GitHubServerTLS *TLSConfig `json:"githubServerTLS,omitempty"`

	// Vault that holds the credentials.
	// +optional
	VaultConfig *VaultConfig `json:"vaultConfig,omitempty"`

	// Template of the runner pod. The container named runner runs the runner.
	// +optional
	Template corev1.PodTemplateSpec `json:"template,omitempty"`

	// Metadata for the AutoscalingListener.
	// +optional
	AutoscalingListenerMetadata *ResourceMeta `json:"autoscalingListener,omitempty"`

	// Metrics of the listener. Absent means the default metrics and labels.
	// +optional
	ListenerMetrics *MetricsConfig `json:"listenerMetrics,omitempty"`

	// Merged into the listener pod.
	// +optional
	ListenerTemplate *corev1.PodTemplateSpec `json:"listenerTemplate,omitempty"`

	// Metadata for the listener's ServiceAccount.
	// +optional
	ListenerServiceAccountMetadata *ResourceMeta `json:"listenerServiceAccountMetadata,omitempty"`
	// Metadata for the listener's Role.
	// +optional
	ListenerRoleMetadata *ResourceMeta `json:"listenerRoleMetadata,omitempty"`
	// Metadata for the listener's RoleBinding.
	// +optional
	ListenerRoleBindingMetadata *ResourceMeta `json:"listenerRoleBindingMetadata,omitempty"`
	// Metadata for the Secret with the listener's configuration.
	// +optional
	ListenerConfigSecretMetadata *ResourceMeta `json:"listenerConfigSecretMetadata,omitempty"`
	// Metadata for the EphemeralRunnerSet.
	// +optional
	EphemeralRunnerSetMetadata *ResourceMeta `json:"ephemeralRunnerSetMetadata,omitempty"`
	// Metadata for each EphemeralRunner.
	// +optional
	EphemeralRunnerMetadata *ResourceMeta `json:"ephemeralRunnerMetadata,omitempty"`
	// Metadata for the Secret with a runner's registration.
	// +optional
	EphemeralRunnerConfigSecretMetadata *ResourceMeta `json:"ephemeralRunnerConfigSecretMetadata,omitempty"`

	// Maximum number of runners at a time, with and without a job. Absent means no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	MaxRunners *int `json:"maxRunners,omitempty"`

	// Idle runners to keep ready on top of those with a job.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	MinRunners *int `json:"minRunners,omitempty"`

	PlannedCapacity `json:",inline"`

	RunnerTimeouts `json:",inline"`

	// How many runners that failed without a job are kept for inspection. Default 3. Not in ARC.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	FailedHistoryLimit *int `json:"failedHistoryLimit,omitempty"`

	// Which runners the PodDisruptionBudget of the scale set's chart protects from eviction: None, Busy (those with a
	// job, and new ones until they have been up for 15 s without one) or All. The chart creates the budget; this field says what it should cover. Default Busy. Not in ARC.
	// +optional
	// +kubebuilder:validation:Enum=None;Busy;All
	ProtectRunners RunnerProtection `json:"protectRunners,omitempty"`

	// What happens for the author of a job after it was lost. Not in ARC.
	// +optional
	Feedback *Feedback `json:"feedback,omitempty"`

	// Value of the annotation karpenter.sh/do-not-disrupt of a runner pod while its job runs: true, false, or for how
	// long after the job's start, such as 6h. Default true. Not in ARC.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(true|false|([0-9]+(\.[0-9]+)?(ms|s|m|h))+)$`
	// +kubebuilder:validation:XValidation:rule="self in ['true', 'false'] || duration(self) > duration('0s') && duration(self) <= duration('8760h') || (oldSelf.hasValue() && oldSelf.value() == self)",optionalOldSelf=true,message="must be true, false, or a duration of more than 0s and at most 8760h, a year"
	JobProtection string `json:"jobProtection,omitempty"`

	RunnerVolumeClaims `json:",inline"`
	// For how many jobs at a time GitHub is told that there is room. Not in ARC.
	// +optional
	Capacity *CapacitySpec `json:"capacity,omitempty"`
}

// RunnerProtection chooses the runners that a PodDisruptionBudget protects.
type RunnerProtection string

// Values of RunnerProtection.
const (
	ProtectNoRunners   RunnerProtection = "None"
	ProtectBusyRunners RunnerProtection = "Busy"
	ProtectAllRunners  RunnerProtection = "All"
)

// RunnerTimeouts limit the waits of a runner. Not in ARC.
type RunnerTimeouts struct {
	// How long a runner pod may take to start on its node before it is recreated. A pod without a node is kept; after
	// 30s the status says why it waits. If it waits so long with claims of volumeClaimTemplates, another one with other
	// claims may take its place. Default 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('8760h') || (oldSelf.hasValue() && oldSelf.value() == self)",optionalOldSelf=true,message="must be at most 8760h, a year"
	PendingTimeout *metav1.Duration `json:"pendingTimeout,omitempty"`

	// How long jobs may wait beside idle runners before one of these is replaced and the jobs are doubted. Default 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('8760h') || (oldSelf.hasValue() && oldSelf.value() == self)",optionalOldSelf=true,message="must be at most 8760h, a year"
	RegistrationTimeout *metav1.Duration `json:"registrationTimeout,omitempty"`

	// How long the other containers of a runner pod may take to end after the runner has, before they are killed, and at
	// most the pod's terminationGracePeriodSeconds. Default 20s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h') || (oldSelf.hasValue() && oldSelf.value() == self)",optionalOldSelf=true,message="must be at least 1s and at most 24h, a day"
	SidecarGracePeriod *metav1.Duration `json:"sidecarGracePeriod,omitempty"`

	// How long a job may go on after somebody has asked for the end of its pod, as a handler of spot interruptions does;
	// then the runner is told to end, and cancels it. The pod's terminationGracePeriodSeconds is 10 s more, unless it is
	// greater already. Default 0s: GitHub's runner cancels its job at once.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('24h') || (oldSelf.hasValue() && oldSelf.value() == self)",optionalOldSelf=true,message="must be at most 24h, a day"
	JobGracePeriod *metav1.Duration `json:"jobGracePeriod,omitempty"`
}

// AutoscalingRunnerSetPhase sums up the state in one word, for the column that ARC has; conditions say more.
type AutoscalingRunnerSetPhase string

// Phases of an AutoscalingRunnerSet.
const (
	AutoscalingRunnerSetPhasePending  AutoscalingRunnerSetPhase = "Pending"
	AutoscalingRunnerSetPhaseRunning  AutoscalingRunnerSetPhase = "Running"
	AutoscalingRunnerSetPhaseOutdated AutoscalingRunnerSetPhase = "Outdated"
)

// AutoscalingRunnerSetStatus is the observed state of a set. Counts have a default so that columns show 0 instead of
// nothing.
type AutoscalingRunnerSetStatus struct {
	// Runners that are pending, running or failed.
	// +optional
	// +kubebuilder:default=0
	CurrentRunners int `json:"currentRunners"`
	// Pending, Running or Outdated. Conditions say more.
	// +optional
	Phase AutoscalingRunnerSetPhase `json:"phase"`
	// Runners whose container is not running yet.
	// +optional
	// +kubebuilder:default=0
	PendingEphemeralRunners int `json:"pendingEphemeralRunners"`
	// Runners whose container is running, with and without a job.
	// +optional
	// +kubebuilder:default=0
	RunningEphemeralRunners int `json:"runningEphemeralRunners"`
	// Failed runners that are kept for inspection.
	// +optional
	// +kubebuilder:default=0
	FailedEphemeralRunners int `json:"failedEphemeralRunners"`
	// Running runners that have a job. Not in ARC.
	// +optional
	// +kubebuilder:default=0
	BusyRunners int `json:"busyRunners,omitempty"`
	// Running runners that have no job. Not in ARC.
	// +optional
	// +kubebuilder:default=0
	IdleRunners int `json:"idleRunners,omitempty"`
	// Jobs that GitHub has assigned to the set, including those already running. Not in ARC.
	// +optional
	// +kubebuilder:default=0
	AssignedJobs int `json:"assignedJobs,omitempty"`
	// Jobs that GitHub keeps because the set has no room, by its own figure; absent if it gives none. Not in ARC.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AvailableJobs int `json:"availableJobs,omitempty"`
	// Number of runners that there are to be, as the EphemeralRunnerSet has decided: its status.desired. Not in ARC.
	// +optional
	// +kubebuilder:default=0
	DesiredRunners int `json:"desiredRunners,omitempty"`
	// Jobs that were lost since the set exists: their pods ended before GitHub had a result. Not in ARC.
	// +optional
	// +kubebuilder:default=0
	LostJobs int `json:"lostJobs,omitempty"`
	// Claims of volumeClaimTemplates. Absent for a set that has none. Not in ARC.
	// +optional
	VolumeClaims *VolumeClaimCounts `json:"volumeClaims,omitempty"`
	// The snapshot that new claims are copies of, in mode Snapshot; absent if there is none.
	// +optional
	NewestSnapshot *VolumeSnapshotStatus `json:"newestSnapshot,omitempty"`
	// How many jobs at a time the listener may let GitHub assign to the set; absent if nothing limits that. Not in ARC.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AdvertisedCapacity *int `json:"advertisedCapacity,omitempty"`
	// With capacity.mode Placement, what a new EphemeralRunnerSet takes over of what is known of the cluster. Not in
	// ARC.
	// +optional
	Placement *PlacementStatus `json:"placement,omitempty"`

	EffectiveCapacity `json:",inline"`

	// What keeps the set from running more jobs; absent if nothing does. Not in ARC.
	// +optional
	LimitedBy *Limit `json:"limitedBy,omitempty"`

	// What GitHub said of versions of its runner when it was last asked, every twelve hours. Not in ARC.
	// +optional
	RunnerVersion *RunnerVersionStatus `json:"runnerVersion,omitempty"`

	// Generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// The scale set as it is on GitHub. It is needed to delete the scale set after the URL or the credentials changed.
	// +optional
	Registration *ScaleSetRegistration `json:"registration,omitempty"`

	// The scale sets that GitHub has, or may have, for this object: each is recorded before GitHub is asked to create
	// it, and until it is deleted there. Not in ARC.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Registrations []RegistrationRecord `json:"registrations,omitempty"`

	// Identifies the runner spec that the EphemeralRunnerSet was last given. No runner is created from another one.
	// +optional
	RunnerSpecHash string `json:"runnerSpecHash,omitempty"`

	// Conditions of the object, each with reason and message.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ScaleSetRegistration is the place at which a scale set is registered on GitHub.
type ScaleSetRegistration struct {
	// Config URL that the scale set was registered under.
	// +optional
	URL string `json:"url,omitempty"`
	// Name of the scale set's runner group.
	// +optional
	Group string `json:"group,omitempty"`
	// Name of the scale set on GitHub.
	// +optional
	Name string `json:"name,omitempty"`
	// Id of the scale set on GitHub.
	// +optional
	ID int `json:"id,omitempty"`
}

// MaxRegistrationRecords limits the scale sets that are recorded at a time. A record has an address of at most 2 KiB,
// which the API server checks in the spec, names, and a reference of at most 8 KiB: together the records have far less
// than the 1.5 MiB that an object may have.
const MaxRegistrationRecords = 16

// RegistrationState is the state of a scale set on GitHub.
type RegistrationState string

// States of a scale set.
const (
	// RegistrationWanted means that GitHub was asked whether it has the scale set, and was not asked to create it, or
	// that a set that is being deleted looks for it no longer.
	RegistrationWanted RegistrationState = "Wanted"
	// RegistrationAsked means that GitHub may have been asked to create the scale set, and has not answered yet.
	RegistrationAsked RegistrationState = "Asked"
	// RegistrationCurrent means that GitHub has the scale set, and that listener and runners use it.
	RegistrationCurrent RegistrationState = "Current"
	// RegistrationLeaving means that the scale set is deleted when its last runner is gone.
	RegistrationLeaving RegistrationState = "Leaving"
)

// RegistrationRecord has what is known of one scale set.
type RegistrationRecord struct {
	// UID of the AutoscalingRunnerSet. A record with another one was copied or restored, and proves nothing.
	UID                  types.UID `json:"uid"`
	ScaleSetRegistration `json:",inline"`
	// Wanted, Asked, Current or Leaving.
	// +kubebuilder:validation:Enum=Wanted;Asked;Current;Leaving
	State RegistrationState `json:"state"`
	// How GitHub was reached at the address, as JSON: what the spec said of Secret, proxy, certificate authorities and
	// vault. It has names, no credentials.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Reference string `json:"reference,omitempty"`
	// Since when the scale set has been in this state.
	// +optional
	Since metav1.Time `json:"since"`
}

// AutoscalingRunnerSet is a set of self-hosted runners that grows and shrinks with the jobs GitHub assigns to it.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ars,categories=actions
// +kubebuilder:printcolumn:name="Min",type=integer,JSONPath=`.status.effectiveMinRunners`
// +kubebuilder:printcolumn:name="Max",type=integer,JSONPath=`.status.effectiveMaxRunners`
// +kubebuilder:printcolumn:name="Runners",type=integer,JSONPath=`.status.currentRunners`
// +kubebuilder:printcolumn:name="Minimum Runners",type=integer,JSONPath=`.status.effectiveMinRunners`,priority=1
// +kubebuilder:printcolumn:name="Maximum Runners",type=integer,JSONPath=`.status.effectiveMaxRunners`,priority=1
// +kubebuilder:printcolumn:name="Current Runners",type=integer,JSONPath=`.status.currentRunners`,priority=1
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,priority=1
// +kubebuilder:printcolumn:name="Pending Runners",type=integer,JSONPath=`.status.pendingEphemeralRunners`,priority=1
// +kubebuilder:printcolumn:name="Running Runners",type=integer,JSONPath=`.status.runningEphemeralRunners`,priority=1
// +kubebuilder:printcolumn:name="Failed Runners",type=integer,JSONPath=`.status.failedEphemeralRunners`,priority=1
// +kubebuilder:printcolumn:name="Idle",type=integer,JSONPath=`.status.idleRunners`,priority=1
// +kubebuilder:printcolumn:name="Busy",type=integer,JSONPath=`.status.busyRunners`
// +kubebuilder:printcolumn:name="Jobs",type=integer,JSONPath=`.status.assignedJobs`
// +kubebuilder:printcolumn:name="Desired Runners",type=integer,JSONPath=`.status.desiredRunners`,priority=1
// +kubebuilder:printcolumn:name="Advertised Capacity",type=integer,JSONPath=`.status.advertisedCapacity`,priority=1
// +kubebuilder:printcolumn:name="Lost Jobs",type=integer,JSONPath=`.status.lostJobs`,priority=1
// +kubebuilder:printcolumn:name="Schedules",type=string,JSONPath=`.status.activeSchedules`,priority=1
// +kubebuilder:printcolumn:name="Numbers Until",type=string,JSONPath=`.status.effectiveUntil`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="GitHub Config URL",type=string,JSONPath=`.spec.githubConfigUrl`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AutoscalingRunnerSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec AutoscalingRunnerSetSpec `json:"spec,omitempty"`
	// Observed state. Until the manager has reconciled the object, observedGeneration is -1: kstatus, and so helm
	// --wait, would treat a status without generation and conditions as ready.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status AutoscalingRunnerSetStatus `json:"status,omitempty"`
}

// AutoscalingRunnerSetList is a list of AutoscalingRunnerSets.
// +kubebuilder:object:root=true
type AutoscalingRunnerSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AutoscalingRunnerSet `json:"items"`
}

// Drained reports whether the set is to take no more jobs.
func (s *AutoscalingRunnerSet) Drained() bool {
	return s.Annotations[AnnotationDrained] == DrainedValue
}

// EffectiveMinRunners is minRunners with its default of 0.
func (s *AutoscalingRunnerSetSpec) EffectiveMinRunners() int {
	if s.MinRunners == nil {
		return 0
	}
	return *s.MinRunners
}

// EffectiveMaxRunners is maxRunners, or MaxRunnersUnlimited if it is unset.
func (s *AutoscalingRunnerSetSpec) EffectiveMaxRunners() int {
	if s.MaxRunners == nil {
		return MaxRunnersUnlimited
	}
	return *s.MaxRunners
}
