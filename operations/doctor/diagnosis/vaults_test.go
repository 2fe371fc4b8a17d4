package diagnosis_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/operations/doctor/diagnosis"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
)

// vaulted adds a set in a namespace that reads a vault.
func vaulted(namespace string) func(*snapshot.Snapshot) {
	return func(s *snapshot.Snapshot) {
		set := snapshot.Set{AutoscalingRunnerSet: *s.Sets[0].DeepCopy()}
		set.Namespace = namespace
		set.Spec.VaultConfig = &v1alpha1.VaultConfig{Type: v1alpha1.VaultTypeAzureKeyVault,
			AzureKeyVault: &v1alpha1.AzureKeyVaultConfig{ClientID: "app"}}
		s.Sets = append(s.Sets, set)
	}
}

// Sets of one namespace may share an application, and with a list of vaults any may.
func TestSharedVaultIdentityIsFineIfItIsLimited(t *testing.T) {
	list := func(argument string) func(*snapshot.Snapshot) {
		return func(s *snapshot.Snapshot) {
			s.Managers[0].Spec.Template.Spec.Containers = []corev1.Container{
				{Args: []string{"--log-level=info", argument}}}
		}
	}
	for name, test := range map[string]struct {
		changes []func(*snapshot.Snapshot)
		want    bool
	}{
		"two namespaces":              {[]func(*snapshot.Snapshot){vaulted("a"), vaulted("b")}, true},
		"two sets of one":             {[]func(*snapshot.Snapshot){vaulted("a"), vaulted("a")}, false},
		"with a list":                 {[]func(*snapshot.Snapshot){vaulted("a"), vaulted("b"), list(`--vaults=[{}]`)}, false},
		"with an empty list":          {[]func(*snapshot.Snapshot){vaulted("a"), vaulted("b"), list("--vaults=[]")}, true},
		"the manager can't be looked": {[]func(*snapshot.Snapshot){vaulted("a"), vaulted("b"), func(s *snapshot.Snapshot) { s.Managers = nil }}, false},
	} {
		found := false
		for _, f := range diagnosis.Diagnose(healthy(test.changes...)) {
			found = found || (f.Reason == "SharedVaultIdentity" && strings.Contains(f.Message, "a, b"))
		}
		if found != test.want {
			t.Errorf("%s: found %t", name, found)
		}
	}
}
