package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AutoscalingListenerSpec is what the listener of one scale set needs. The manager writes it from the AutoscalingRunnerSet.
type AutoscalingListenerSpec struct {
	// +optional
	GitHubConfigUrl string `json:"githubConfigUrl,omitempty"`
	// Credential Secret in the namespace of the AutoscalingRunnerSet.
	// +optional
	GitHubConfigSecret string `json:"githubConfigSecret,omitempty"`
	// Id of the scale set on GitHub.
	// +optional
	RunnerScaleSetID int `json:"runnerScaleSetId,omitempty"`
	// +optional
	AutoscalingRunnerSetNamespace string `json:"autoscalingRunnerSetNamespace,omitempty"`
	// +optional
	AutoscalingRunnerSetName string `json:"autoscalingRunnerSetName,omitempty"`
	// The EphemeralRunnerSet that the listener scales.
	// +optional
	EphemeralRunnerSetName string `json:"ephemeralRunnerSetName,omitempty"`
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxRunners int `json:"maxRunners,omitempty"`
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinRunners int `json:"minRunners,omitempty"`
	// +optional
	Image string `json:"image,omitempty"`
	// +optional
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// +optional
	Proxy *ProxyConfig `json:"proxy,omitempty"`
	// +optional
	GitHubServerTLS *TLSConfig `json:"githubServerTLS,omitempty"`
	// +optional
	VaultConfig *VaultConfig `json:"vaultConfig,omitempty"`
	// +optional
	Metrics *MetricsConfig `json:"metrics,omitempty"`

	// Merged into the listener pod. Its schema is checked where the user writes it, in the AutoscalingRunnerSet.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`

	// +optional
	ConfigSecretMetadata *ResourceMeta `json:"configSecretMetadata,omitempty"`
	// +optional
	ServiceAccountMetadata *ResourceMeta `json:"serviceAccountMetadata,omitempty"`
	// +optional
	RoleMetadata *ResourceMeta `json:"roleMetadata,omitempty"`
	// +optional
	RoleBindingMetadata *ResourceMeta `json:"roleBindingMetadata,omitempty"`
}

// AutoscalingListenerStatus is what became of the listener.
type AutoscalingListenerStatus struct {
	// Generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
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
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AutoscalingListener struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AutoscalingListenerSpec   `json:"spec,omitempty"`
	Status AutoscalingListenerStatus `json:"status,omitempty"`
}

// AutoscalingListenerList is a list of them.
// +kubebuilder:object:root=true
type AutoscalingListenerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AutoscalingListener `json:"items"`
}
