package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
)

// ProxyConfig is the proxy through which GitHub is reached. Without it the environment's proxy applies.
type ProxyConfig struct {
	// Proxy for http:// addresses.
	// +optional
	HTTP *ProxyServerConfig `json:"http,omitempty"`
	// Proxy for https:// addresses.
	// +optional
	HTTPS *ProxyServerConfig `json:"https,omitempty"`
	// Hosts and domains that are reached without the proxy. IP addresses and CIDRs work for manager and listener, not
	// for the runner.
	// +optional
	NoProxy []string `json:"noProxy,omitempty"`
}

// ProxyServerConfig is one proxy server.
type ProxyServerConfig struct {
	// Address of the proxy, such as http://proxy.example.com:3128.
	// +optional
	Url string `json:"url,omitempty"`
	// Name of a Secret in the same namespace with keys username and password.
	// +optional
	CredentialSecretRef string `json:"credentialSecretRef,omitempty"`
}

// TLSConfig adds certificate authorities to the system's, for a GitHub Enterprise Server with a private CA.
type TLSConfig struct {
	// Where the certificates are.
	// +optional
	CertificateFrom *TLSCertificateSource `json:"certificateFrom,omitempty"`
}

// TLSCertificateSource names the ConfigMap that holds certificates in PEM.
type TLSCertificateSource struct {
	// Key of a ConfigMap in the same namespace.
	// +optional
	ConfigMapKeyRef *corev1.ConfigMapKeySelector `json:"configMapKeyRef,omitempty"`
}

// VaultType is a kind of vault that holds credentials.
type VaultType string

// VaultTypeAzureKeyVault is the only supported vault.
const VaultTypeAzureKeyVault VaultType = "azure_key_vault"

// VaultConfig says that githubConfigSecret and the proxies' credentials are the names of secrets in a vault, not of
// Secrets.
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type.size() == 0 || self.type == 'azure_key_vault' || (oldSelf.hasValue() && oldSelf.value() == self)",optionalOldSelf=true,fieldPath=".type",message="must be azure_key_vault, the only supported vault"
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'azure_key_vault' || has(self.azureKeyVault) || (oldSelf.hasValue() && oldSelf.value() == self)",optionalOldSelf=true,fieldPath=".azureKeyVault",message="is required when type is azure_key_vault"
type VaultConfig struct {
	// Kind of vault. Empty means no vault.
	// +optional
	Type VaultType `json:"type,omitempty"`
	// Settings of an Azure Key Vault.
	// +optional
	AzureKeyVault *AzureKeyVaultConfig `json:"azureKeyVault,omitempty"`
	// Proxy for talking to the vault.
	// +optional
	Proxy *ProxyConfig `json:"proxy,omitempty"`
}

// AzureKeyVaultConfig has what is needed to reach an Azure Key Vault with a client certificate.
type AzureKeyVaultConfig struct {
	// Address of the vault.
	URL string `json:"url"`
	// Azure tenant.
	TenantID string `json:"tenantId"`
	// Azure client (application).
	ClientID string `json:"clientId"`
	// Path of the certificate in the manager's file system. Listeners get what the manager has read from the vault.
	CertificatePath string `json:"certificatePath"`
}

// MetricsConfig chooses the listener's metrics and their labels. Metrics that are not named are not exported.
type MetricsConfig struct {
	// Counters to export, by name.
	// +optional
	Counters map[string]*CounterMetric `json:"counters,omitempty"`
	// Gauges to export, by name.
	// +optional
	Gauges map[string]*GaugeMetric `json:"gauges,omitempty"`
	// Histograms to export, by name.
	// +optional
	Histograms map[string]*HistogramMetric `json:"histograms,omitempty"`
}

// CounterMetric is a counter's labels.
type CounterMetric struct {
	// Labels of the metric.
	Labels []string `json:"labels"`
}

// GaugeMetric is a gauge's labels.
type GaugeMetric struct {
	// Labels of the metric.
	Labels []string `json:"labels"`
}

// HistogramMetric is a histogram's labels and upper bounds in seconds.
type HistogramMetric struct {
	// Labels of the metric.
	Labels []string `json:"labels"`
	// Upper bounds of the buckets in seconds. Absent means the default buckets.
	// +optional
	Buckets []float64 `json:"buckets,omitempty"`
}

// ResourceMeta is metadata to add to an object that is created for a scale set.
type ResourceMeta struct {
	// Labels to add.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations to add.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}
