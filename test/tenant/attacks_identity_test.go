package tenant

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/test/rig"
)

const reasonListenerIgnored = "ListenerIgnored"

// listenerAttacks try to take over another team's listener, or its name: defects 1 and 2.
func listenerAttacks() []attack {
	// The Role that the chart makes for the manager in a set's namespace.
	const managersRole = rig.DefaultSet + "-gha-rs-manager"
	stealing := func(name string) func(*stage) []client.Object {
		return func(s *stage) []client.Object { return s.stealing(name, rig.DefaultSet) }
	}
	return []attack{
		{
			name: "a listener for another's set", objects: stealing("steal"),
			says: announced("steal", reasonListenerIgnored), atStart: true,
			act: func(s *stage) error { return s.giveAccount("steal") },
		},
		{
			name: "a listener with the name of another's Role", objects: stealing(managersRole),
			says: announced(managersRole, reasonListenerIgnored), atStart: true,
			act: func(s *stage) error { return s.giveAccount(managersRole) },
		},
		{
			name: "a listener with another listener's name and labels",
			objects: func(s *stage) []client.Object {
				victims := s.listenerOf(rig.DefaultSet)
				objects := s.stealing(victims.Name, rig.DefaultSet)
				objects[0].SetLabels(victims.Labels)
				return objects
			},
			act: func(s *stage) error { return s.giveAccount(s.listenerOf(rig.DefaultSet).Name) },
			says: func(s *stage) error {
				return announced(s.listenerOf(rig.DefaultSet).Name,
					reasonListenerIgnored)(s)
			},
			atStart: true,
		},
		{
			name: "a set whose listener would get another's name",
			objects: func(s *stage) []client.Object {
				return []client.Object{s.set(rig.DefaultSet, func(set *v1alpha1.AutoscalingRunnerSet) {
					set.Spec.GitHubConfigUrl = s.colliding(s.own["github"].URL + "/o")
				})}
			},
			says: works(rig.DefaultSet),
		},
	}
}

// stealing is a listener in team b's namespace that names a set of team a.
func (s *stage) stealing(name, set string) []client.Object {
	// No secret: whoever knows the chart knows these names.
	listener := &v1alpha1.AutoscalingListener{ObjectMeta: s.named(name), Spec: v1alpha1.AutoscalingListenerSpec{
		GitHubConfigUrl: s.own["github"].URL + "/org", GitHubConfigSecret: set + "-gha-rs-github-secret",
		RunnerScaleSetID:              1,
		AutoscalingRunnerSetNamespace: s.victim.namespace, AutoscalingRunnerSetName: set, EphemeralRunnerSetName: set,
		Image: "i", MaxRunners: 1,
	}}
	listener.Labels = map[string]string{
		v1alpha1.LabelScaleSetName:      set,
		v1alpha1.LabelScaleSetNamespace: s.victim.namespace,
	}
	return []client.Object{listener}
}

// giveAccount makes the account that the listener would run as, which the manager may not make in team b's namespace.
func (s *stage) giveAccount(name string) error {
	listener := &v1alpha1.AutoscalingListener{}
	key := client.ObjectKey{Namespace: s.attacker.namespace, Name: name}
	if err := s.attacker.client.Get(s.Context(), key, listener); err != nil {
		return err
	}
	owned := &corev1.ServiceAccount{ObjectMeta: s.named(name)}
	owned.Labels, owned.OwnerReferences = map[string]string{
		v1alpha1.LabelPartOf: v1alpha1.PartOfScaleSet, v1alpha1.LabelComponent: v1alpha1.ComponentListener,
		v1alpha1.LabelScaleSetName: rig.DefaultSet, v1alpha1.LabelScaleSetNamespace: s.victim.namespace,
	}, kube.OwnedBy(listener)
	return s.attacker.client.Create(s.Context(), owned)
}

// listenerOf returns the listener of a set of team a. Team b can compute its name.
func (s *stage) listenerOf(set string) *v1alpha1.AutoscalingListener {
	s.Helper()
	var listeners v1alpha1.AutoscalingListenerList
	err := s.rig.Cluster.Client().List(s.Context(), &listeners, client.InNamespace(s.rig.SystemNamespace),
		client.MatchingLabels{
			v1alpha1.LabelScaleSetName: set, v1alpha1.LabelScaleSetNamespace: s.victim.namespace,
		})
	if err != nil || len(listeners.Items) != 1 {
		s.Fatalf("scale set %s has %d listeners: %v", set, len(listeners.Items), err)
	}
	return &listeners.Items[0]
}

// colliding returns an address that begins with prefix. By the rule for names of ARC and of the first versions, its
// listener has the name of the listener of team a's set: the rule takes the first eight decimal digits of a hash of 32
// bits.
func (s *stage) colliding(prefix string) string {
	s.Helper()
	set := &v1alpha1.AutoscalingRunnerSet{}
	key := types.NamespacedName{Namespace: s.victim.namespace, Name: rig.DefaultSet}
	if err := s.victim.client.Get(s.Context(), key, set); err != nil {
		s.Fatal(err)
	}
	wanted := kube.NameHash(s.victim.namespace + "@@" + set.Spec.GitHubConfigUrl)
	target := fnv(fnvOffset, s.victim.namespace+"@@"+set.Spec.GitHubConfigUrl)
	beginning := fnv(fnvOffset, s.attacker.namespace+"@@"+prefix)
	digits := make([]byte, 0, 20)
	for i := uint64(0); ; i++ {
		digits = strconv.AppendUint(digits[:0], i, 10)
		if matches(fnv(beginning, digits), target) {
			address := prefix + string(digits)
			if kube.NameHash(s.attacker.namespace+"@@"+address) != wanted {
				s.Fatalf("%s does not collide", address)
			}
			return address
		}
	}
}

const (
	fnvOffset = 2166136261
	fnvPrime  = 16777619
)

// fnv continues an FNV-1a hash.
func fnv[T string | []byte](hash uint32, text T) uint32 {
	for i := range len(text) {
		hash = (hash ^ uint32(text[i])) * fnvPrime
	}
	return hash
}

// matches reports whether two numbers have the same first eight decimal digits.
func matches(a, b uint32) bool {
	const most = 99_999_999
	for a > most || b > most {
		if (a > most) != (b > most) {
			return false
		}
		a, b = a/10, b/10
	}
	return a == b
}

// vaultAttacks have to do with the vault that the manager alone can read: defects 3 and 4.
func vaultAttacks() []attack {
	const condition = v1alpha1.ConditionCredentialsValid
	notAllowed := []string{"VaultNotAllowed"}
	attacks := []attack{
		{
			name: "another's secret of the vault",
			objects: one("vault-token", func(s *stage, set *v1alpha1.AutoscalingRunnerSet) {
				set.Spec.VaultConfig, set.Spec.GitHubConfigSecret = s.vault(), victimsSecret
			}),
			says: told("vault-token", condition, notAllowed),
		},
		{
			name: "another's password for a proxy in the vault",
			objects: one("vault-login", func(s *stage, set *v1alpha1.AutoscalingRunnerSet) {
				set.Spec.VaultConfig, set.Spec.GitHubConfigSecret = s.vault(), ownSecret
				server := &v1alpha1.ProxyServerConfig{Url: s.own["babbling"].URL, CredentialSecretRef: victimsLogin}
				set.Spec.GitHubConfigUrl = proxiedGitHub + "/org"
				set.Spec.Proxy = &v1alpha1.ProxyConfig{HTTP: server, HTTPS: server}
			}),
			says: told("vault-login", condition, notAllowed),
		},
		{
			name: "another vault with the manager's identity",
			objects: one("vault-other", func(s *stage, set *v1alpha1.AutoscalingRunnerSet) {
				set.Spec.VaultConfig, set.Spec.GitHubConfigSecret = s.vault(), ownSecret
				set.Spec.VaultConfig.AzureKeyVault.URL = otherVault
			}),
			says: told("vault-other", condition, notAllowed),
		},
	}
	for i, path := range []string{"/dev/zero", "/dev/tty", "/proc/self/environ", "/etc/passwd", "/proc",
		"/no/such/file"} {
		name := fmt.Sprintf("vault-file-%d", i)
		attacks = append(attacks, attack{
			name: "the file " + path + " as the vault's certificate",
			objects: one(name, func(s *stage, set *v1alpha1.AutoscalingRunnerSet) {
				set.Spec.VaultConfig, set.Spec.GitHubConfigSecret = s.vault(), ownSecret
				set.Spec.VaultConfig.AzureKeyVault.CertificatePath = path
			}),
			says: func(s *stage) error { return s.tellsNothingOf(name, path) },
		})
	}
	return attacks
}

// tellsNothingOf checks that a set is refused if its path leads to no certificate, and that the text doesn't tell what
// is there instead.
func (s *stage) tellsNothingOf(name, path string) error {
	if err := told(name, v1alpha1.ConditionCredentialsValid, []string{v1alpha1.ReasonCredentialsInvalid},
		"certificatePath")(s); err != nil {
		return err
	}
	found, err := s.condition(name, v1alpha1.ConditionCredentialsValid)
	if err != nil {
		return err
	}
	text := strings.ReplaceAll(found.Message, path, "PATH")
	if s.fileRefusal == "" {
		s.fileRefusal = text
	}
	if text != s.fileRefusal {
		return fmt.Errorf("the texts about two paths differ: %q and %q", text, s.fileRefusal)
	}
	return nil
}
