package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AutoscalingListenerSpec has what the listener of one scale set needs. The manager writes it from the
// AutoscalingRunnerSet.
type AutoscalingListenerSpec struct {
	// Address of the repository, organization or enterprise that the scale set serves.
	// +optional
	GitHubConfigUrl string `json:"githubConfigUrl,omitempty"`
	// Credential Secret in the namespace of the AutoscalingRunnerSet.
	// +optional
	GitHubConfigSecret string `json:"githubConfigSecret,omitempty"`
	// Id of the scale set on GitHub.
	// +optional
	RunnerScaleSetID int `json:"runnerScaleSetId,omitempty"`
	// Namespace of the AutoscalingRunnerSet that the listener works for.
	// +optional
	AutoscalingRunnerSetNamespace string `json:"autoscalingRunnerSetNamespace,omitempty"`
	// Name of the AutoscalingRunnerSet that the listener works for.
	// +optional
	AutoscalingRunnerSetName string `json:"autoscalingRunnerSetName,omitempty"`
	// The EphemeralRunnerSet that the listener scales.
	// +optional
	EphemeralRunnerSetName string `json:"ephemeralRunnerSetName,omitempty"`
	// Maximum number of runners at a time.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxRunners int `json:"maxRunners,omitempty"`
	// Idle runners to keep ready on top of those with a job.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinRunners int `json:"minRunners,omitempty"`
	// Placement if the EphemeralRunnerSet says for how many jobs there is room, even before it has said so. Not in ARC.
	// +optional
	// +kubebuilder:validation:Enum=Static;Placement
	CapacityMode CapacityMode `json:"capacityMode,omitempty"`
	// Image of the listener's pod, which is the manager's own.
	// +optional
	Image string `json:"image,omitempty"`
	// Secrets to pull the image with.
	// +optional
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// Proxy for talking to GitHub.
	// +optional
	Proxy *ProxyConfig `json:"proxy,omitempty"`
	// Additional certificate authorities for talking to GitHub.
	// +optional
	GitHubServerTLS *TLSConfig `json:"githubServerTLS,omitempty"`
	// Vault that holds the credentials.
	// +optional
	VaultConfig *VaultConfig `json:"vaultConfig,omitempty"`
	// Metrics of the listener. Absent means the default metrics and labels.
	// +optional
	Metrics *MetricsConfig `json:"metrics,omitempty"`

	// Merged into the listener pod. Its schema is checked in the AutoscalingRunnerSet, where the user writes it.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`

	// Metadata for the Secret with the listener's configuration.
	// +optional
	ConfigSecretMetadata *ResourceMeta `json:"configSecretMetadata,omitempty"`
	// Metadata for the listener's ServiceAccount.
	// +optional
	ServiceAccountMetadata *ResourceMeta `json:"serviceAccountMetadata,omitempty"`
	// Metadata for the listener's Role.
	// +optional
	RoleMetadata *ResourceMeta `json:"roleMetadata,omitempty"`
	// Metadata for the listener's RoleBinding.
	// +optional
	RoleBindingMetadata *ResourceMeta `json:"roleBindingMetadata,omitempty"`
}

// AutoscalingListenerStatus is the observed state of the listener.
type AutoscalingListenerStatus struct {
	// Generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions of the object, each with reason and message.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// AutoscalingListener is the listener of one scale set. It lives in the manager's namespace, so that credentials never
// enter a pod that a workflow can reach.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=al,categories=actions
// +kubebuilder:printcolumn:name="GitHub Configure URL",type=string,JSONPath=`.spec.githubConfigUrl`
// +kubebuilder:printcolumn:name="AutoscalingRunnerSet Namespace",type=string,JSONPath=`.spec.autoscalingRunnerSetNamespace`
// +kubebuilder:printcolumn:name="AutoscalingRunnerSet Name",type=string,JSONPath=`.spec.autoscalingRunnerSetName`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AutoscalingListener struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec AutoscalingListenerSpec `json:"spec,omitempty"`
	// Observed state. Until the manager has reconciled the object, observedGeneration is -1: kstatus, and so helm
	// --wait, would treat a status without generation and conditions as ready.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status AutoscalingListenerStatus `json:"status,omitempty"`
}

// AutoscalingListenerList is a list of AutoscalingListeners.
// +kubebuilder:object:root=true
type AutoscalingListenerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AutoscalingListener `json:"items"`
}
