package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RunnerVersionStatus has what a set's GitHub said of versions of its runner.
type RunnerVersionStatus struct {
	// Config URL of the set when GitHub was asked.
	URL string `json:"url"`
	// When GitHub was asked, whether it has answered or refused.
	CheckedAt metav1.Time `json:"checkedAt"`
	// Newest version that GitHub offers at the address; empty if the credentials may not read it.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Newest string `json:"newest,omitempty"`
	// When that version was first seen.
	// +optional
	NewestSince *metav1.Time `json:"newestSince,omitempty"`
	// Releases that GitHub lists and the manager's build does not know.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Releases []RunnerRelease `json:"releases,omitempty"`
}

// RunnerRelease is a release of GitHub's runner.
type RunnerRelease struct {
	// Version of the release.
	// +kubebuilder:validation:MaxLength=32
	Version string `json:"version"`
	// When it was published.
	PublishedAt metav1.Time `json:"publishedAt"`
}
