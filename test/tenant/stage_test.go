package tenant

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/internal/testkube/fakenode"
	"github.com/harrier-ci/harrier/test/rig"
)

// What team a has and team b must not get. rig.PAT is the token of its first set.
const (
	vaultedToken  = "ghp_victimTokenInTheVault0123456789abcde"
	proxyPassword = "victim-password-of-the-proxy-0123456789"
	vaultPassword = "victim-password-in-the-vault-0123456789"
)

// attackersToken is the only credential that team b's servers may receive.
const attackersToken = "ghp_attackerToken0123456789abcdefghijklm"

// Names in the vault, and the address by which it is known.
const (
	vaultAddress  = "https://shared.vault.azure.net"
	otherVault    = "https://theirs.vault.azure.net"
	victimsSecret = "team-a-github"
	victimsLogin  = "team-a-proxy"
	ownSecret     = "team-b-github"
)

// proxiedGitHub is an address that is asked of a proxy, if there is one. Nothing on loopback ever is.
const proxiedGitHub = "http://github.team-b.example"

// Team a's second set, whose credentials are in the vault, and team b's own set, which is honest.
const (
	vaultedSet = "vaulted"
	ownSet     = "mine"
)

// ceiling is the maxRunners of every set.
const ceiling = 40

// stage is the installation that an attack finds.
type stage struct {
	*testing.T
	rig              *rig.Rig
	victim, attacker *team
	certificatePath  string // of the vault's client

	vaultProxy, proxy *server
	// canaries must not be reached at all.
	canaries map[string]*server
	// own are team b's servers, which stand for its GitHub.
	own map[string]*server
	// loot records what containers of team b find in their environment.
	loot record
	base *v1alpha1.AutoscalingRunnerSet
	// accounts are the ServiceAccounts of team b's pods.
	accounts accounts
	// managersLabels are those of the manager's pod.
	managersLabels map[string]string
	// fileRefusal is the text for the first set whose vault certificate's file is no certificate. The texts for later
	// ones must equal it.
	fileRefusal string
}

// newStage starts all servers and installs the controller and each team's sets.
func newStage(t *testing.T) *stage {
	t.Helper()
	cluster := testkube.Shared(t)
	s := &stage{T: t, canaries: map[string]*server{}, own: map[string]*server{}}
	environment := s.openVault()
	s.proxy = loopback(t, forwarder("team-a", proxyPassword))
	s.openCanaries()
	s.openServers()
	victims, attackers := cluster.NewNamespace(t), cluster.NewNamespace(t)
	s.rig = rig.Start(t, cluster, rig.Options{
		AsShipped: true, Ledger: true, RunnerNamespace: victims, FurtherNamespaces: []string{attackers},
		GitHub:           fakegithub.Options{PATs: []string{vaultedToken}},
		ControllerValues: controllerValues(environment, victims, attackers),
		AllowedAddresses: s.allowed(),
		Flags:            rig.Values{"maxRunnersPerSet": ceiling},
		Containers:       map[string]fakenode.Runner{thief: fakenode.RunnerFunc(s.steal)},
	})
	s.victim, s.attacker = newTeam(t, cluster, victims), newTeam(t, cluster, attackers)
	s.lengthenAnswers()
	s.installVictims()
	s.installOwn()
	t.Cleanup(s.uninstallOwn)
	return s
}

// lengthenAnswers gives the registration of each of team a's runners more bytes than the manager reads without a share of
// its memory: so somebody who takes up that memory delays jobs.
func (s *stage) lengthenAnswers() {
	s.Helper()
	if _, err := s.rig.GitHub.AddFault(fakegithub.Fault{Endpoint: "generate-jit-config", Blanks: 64 << 10}); err != nil {
		s.Fatal(err)
	}
}

// openVault starts a vault behind the only proxy that leads to it, and returns what the manager needs in its
// environment.
func (s *stage) openVault() []any {
	s.Helper()
	name := func(address string) string { return strings.TrimPrefix(address, "https://") }
	hosts := []string{name(vaultAddress), name(otherVault), "login.microsoftonline.com"}
	chain, key, err := certutil.GenerateSelfSignedCertKey(hosts[0], []net.IP{}, hosts)
	if err != nil {
		s.Fatal(err)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		s.Fatal(err)
	}
	vault := httptest.NewUnstartedServer(azure(map[string]map[string]string{
		victimsSecret: {"github_token": vaultedToken},
		victimsLogin:  {"username": "team-a", "password": vaultPassword},
		ownSecret:     {"github_token": attackersToken},
	}))
	vault.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	vault.StartTLS()
	s.Cleanup(vault.Close)
	s.vaultProxy = loopback(s.T, tunnel(s.T, vault.Listener.Addr()))
	s.certificatePath = s.file("client.pem", append(chain, key...))
	// The node would take a path below /tmp for one in the pod's volume of that name.
	return []any{rig.Values{"name": "SSL_CERT_FILE", "value": "/proc/self/root" + s.file("authorities.pem", chain)}}
}

func (s *stage) file(name string, content []byte) string {
	s.Helper()
	path := filepath.Join(s.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		s.Fatal(err)
	}
	return path
}

// openCanaries starts what nobody may reach.
func (s *stage) openCanaries() {
	s.Helper()
	s.canaries["loopback"] = canary(s.T, "127.0.0.1:0")
	if *linkLocal {
		for _, address := range metadataAddresses {
			s.canaries[address] = canary(s.T, address+":80")
		}
	}
}

// openServers starts team b's servers. All are addresses that the administrator allows.
func (s *stage) openServers() {
	s.Helper()
	nowhere := s.canaries["loopback"].URL
	s.own["github"] = loopback(s.T, newGitHub(s.T, fakegithub.Options{}).Handler())
	s.own["large"] = loopback(s.T, newGitHub(s.T, fakegithub.Options{}, fakegithub.Fault{
		Endpoint: "generate-jit-config", Status: 200,
		Body: `{"runner":{"id":1,"name":"large"},"encodedJITConfig":"` + strings.Repeat("A", 15<<20) + `"}`,
	}).Handler())
	s.own["talkative"] = loopback(s.T, newGitHub(s.T, fakegithub.Options{}, fakegithub.Fault{
		Endpoint: "get-message", Status: 200,
		Body: `{"messageId":1,"messageType":"RunnerScaleSetJobMessages","body":"` + strings.Repeat("A", 64<<20) + `"}`,
	}).Handler())
	for i := range dribblingSets {
		s.own[fmt.Sprint("dribbling-", i)] = loopback(s.T, dribbling(newGitHub(s.T, fakegithub.Options{}).Handler()))
	}
	s.own["straying"] = loopback(s.T, newGitHub(s.T, fakegithub.Options{}, fakegithub.Fault{
		Endpoint: "get-message", Status: 307, Headers: map[string]string{"Location": nowhere + "/queue"},
	}).Handler())
	s.own["redirecting"] = loopback(s.T, sending(nowhere))
	s.own["babbling"] = loopback(s.T, saying(http.StatusForbidden, marker))
	s.own["hanging"] = serve(s.T, "127.0.0.1:0", true,
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	s.own["downgrading"] = serve(s.T, "127.0.0.1:0", true, sending(nowhere))
	s.own["plain service"] = serve(s.T, "127.0.0.1:0", true,
		newGitHub(s.T, fakegithub.Options{PublicURL: nowhere}).Handler())
	github := newGitHub(s.T, fakegithub.Options{}).Handler()
	s.own["plain queue"] = serve(s.T, "127.0.0.1:0", true,
		rewriting(github, "/sessions", `"messageQueueUrl":"https://`, `"messageQueueUrl":"http://`))
	for _, address := range metadataAddresses {
		if *linkLocal {
			s.own["to "+address] = loopback(s.T, sending("http://"+address))
		}
	}
}

// allowed are the addresses that the administrator names beside the rig's GitHub.
func (s *stage) allowed() []string {
	addresses := []string{s.proxy.URL, s.vaultProxy.URL, proxiedGitHub}
	for _, server := range s.own {
		addresses = append(addresses, server.URL)
	}
	return addresses
}

// controllerValues give the vault to both teams, with names of each one's own.
func controllerValues(environment []any, victims, attackers string) rig.Values {
	return rig.Values{"env": environment, "vaults": []any{
		rig.Values{"url": vaultAddress, "namespaces": []any{victims}, "secretNames": "team-a-*"},
		rig.Values{"url": vaultAddress, "namespaces": []any{attackers}, "secretNames": "team-b-*"},
	}}
}

// installVictims gives team a's set a proxy with a password, and installs its second one.
func (s *stage) installVictims() {
	s.Helper()
	s.create(s.victim.client, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.victim.namespace, Name: "proxy"},
		Data:       map[string][]byte{"username": []byte("team-a"), "password": []byte(proxyPassword)},
	})
	s.rig.UpgradeSet(rig.DefaultSet,
		rig.Values{"proxy": rig.Values{"http": rig.Values{"url": s.proxy.URL, "credentialSecretRef": "proxy"}}})
	vault := s.vault()
	s.rig.InstallSet(vaultedSet, rig.Values{"githubConfigSecret": victimsSecret, "keyVault": rig.Values{
		"type":  string(v1alpha1.VaultTypeAzureKeyVault),
		"proxy": rig.Values{"https": rig.Values{"url": s.vaultProxy.URL}},
		"azureKeyVault": rig.Values{
			"url": vault.AzureKeyVault.URL, "tenantId": vault.AzureKeyVault.TenantID,
			"clientId":        vault.AzureKeyVault.ClientID,
			"certificatePath": vault.AzureKeyVault.CertificatePath,
		},
	}})
	s.rig.AwaitListening(vaultedSet)
	s.rig.AwaitListening(rig.DefaultSet)
}

// vault is the configuration of the shared vault.
func (s *stage) vault() *v1alpha1.VaultConfig {
	return &v1alpha1.VaultConfig{
		Type: v1alpha1.VaultTypeAzureKeyVault,
		AzureKeyVault: &v1alpha1.AzureKeyVaultConfig{URL: vaultAddress, TenantID: "tenant", ClientID: "client",
			CertificatePath: s.certificatePath},
		Proxy: &v1alpha1.ProxyConfig{HTTPS: &v1alpha1.ProxyServerConfig{Url: s.vaultProxy.URL}},
	}
}

// installOwn installs team b's honest set, with its own account, and takes the object as a pattern for its attacks. It
// has a CA certificate so that the manager may read team b's ConfigMaps.
func (s *stage) installOwn() {
	s.Helper()
	authorities := map[string]string{}
	for _, server := range s.own {
		if server.TLS != nil {
			authorities["ca.crt"] = server.authority() // all have the same
		}
	}
	s.create(s.attacker.client, &corev1.ConfigMap{ObjectMeta: s.named("ca"), Data: authorities})
	for _, name := range []string{"admin", thief} {
		s.create(s.attacker.client, &corev1.ServiceAccount{ObjectMeta: s.named(name)})
	}
	arguments := []string{"install", ownSet, s.rig.SetChart(), "--namespace", s.attacker.namespace}
	for name, value := range map[string]string{
		"githubConfigUrl": s.own["github"].URL + "/org", "githubConfigSecret.github_token": attackersToken,
		"controllerServiceAccount.namespace": s.rig.SystemNamespace, "controllerServiceAccount.name": rig.ControllerAccount,
		"githubServerTLS.certificateFrom.configMapKeyRef.name": "ca", "githubServerTLS.certificateFrom.configMapKeyRef.key": `ca\.crt`,
	} {
		arguments = append(arguments, "--set-string", name+"="+value)
	}
	if _, err := s.rig.HelmAs(s.attacker.kubeconfig, arguments...); err != nil {
		s.Fatal(err)
	}
	s.base = &v1alpha1.AutoscalingRunnerSet{}
	if err := s.attacker.client.Get(s.Context(), client.ObjectKey{Namespace: s.attacker.namespace, Name: ownSet},
		s.base); err != nil {
		s.Fatal(err)
	}
	gomega.NewWithT(s.T).Eventually(func() error { return s.listening(ownSet) }, rig.Patience).Should(gomega.Succeed())
}

// uninstallOwn returns when nothing of team b is left in the manager's namespace: the rig couldn't explain it.
func (s *stage) uninstallOwn() {
	s.Helper()
	if _, err := s.rig.HelmAs(s.attacker.kubeconfig, "uninstall", ownSet, "--namespace",
		s.attacker.namespace); err != nil {
		s.Error(err)
	}
	gomega.NewWithT(s.T).Eventually(func() (left []string, err error) {
		objects, err := everything(context.Background(), s.rig.Cluster.Config(), s.rig.SystemNamespace,
			func(string) bool { return true })
		for name, content := range objects {
			// without labels it is another's
			labels, _, _ := unstructured.NestedStringMap(content, "metadata", "labels")
			if s.ofAttacker(labels) {
				left = append(left, name)
			}
		}
		return left, err
	}, rig.Patience, "500ms").Should(gomega.BeEmpty(), "left of team b in the manager's namespace")
}

// set returns a scale set of team b that differs from its honest one as change says.
func (s *stage) set(name string, change func(*v1alpha1.AutoscalingRunnerSet)) *v1alpha1.AutoscalingRunnerSet {
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: s.named(name), Spec: *s.base.Spec.DeepCopy()}
	set.Labels = map[string]string{}
	for key, value := range s.base.Labels {
		if !strings.HasPrefix(key, "helm.sh/") {
			set.Labels[key] = value
		}
	}
	set.Spec.RunnerScaleSetName = name
	change(set)
	return set
}

func (s *stage) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.attacker.namespace, Name: name}
}

func (s *stage) create(as client.Client, objects ...client.Object) {
	s.Helper()
	for _, made := range objects {
		if err := as.Create(s.Context(), made); err != nil {
			s.Fatal(err)
		}
	}
}

// thief is the name of a container that keeps what it finds in its environment.
const thief = "thief"

func (s *stage) steal(ctx context.Context, container *fakenode.Container) int {
	s.loot.keep(container.Environment)
	<-ctx.Done()
	return 0
}
