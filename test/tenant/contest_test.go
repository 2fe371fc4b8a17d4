package tenant

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// Hosts of team a's GitHub. It has the second without TLS.
const (
	securedHost = "github.team-a.example"
	plainHost   = "plain.team-a.example"
)

// A runner group, a label and an end of names that team a's sets get later.
const (
	laterGroup, laterLabel, laterName = "later", "gpu", "-renamed"
)

// sharedToken is a token that team b has for team a's GitHub, too: with it b is as honest as a.
const sharedToken = "ghp_tokenOfBothTeams0123456789abcdefghij"

// Secrets of a namespace with the token for its GitHub, with the shared one, and one that doesn't exist.
const (
	tokenSecret, sharedSecret, noSecret = "github", "shared", "none"
)

// contest is a stage on which both teams have scale sets at the same addresses. Everybody reaches team a's GitHub by
// the platform's proxy. Team b's sets may have a proxy of their own, by which its own server is every host.
type contest struct {
	*stage
	// proxies lead to team a's GitHub and to team b's server.
	proxies struct{ victims, attackers *server }
	// forger is team b's server. It takes every token.
	forger *fakegithub.Server
	// counting is another server of team b.
	counting *counting
	owned    []*owned
}

// owned is a scale set of team a, about which team b makes a claim.
type owned struct {
	claim  claim
	object string // of the AutoscalingRunnerSet
	name   string // on GitHub
	id     int
	uid    string // of the listener
}

// newContest starts both teams' servers, and the installation with a set of each.
func newContest(t *testing.T, claims []claim) *contest {
	t.Helper()
	cluster := testkube.Shared(t)
	s := &stage{T: t, canaries: map[string]*server{}, own: map[string]*server{}}
	c := &contest{stage: s}
	genuineKey, genuineApp := c.newKey()
	forgedKey, forgedApp := c.newKey()
	c.forger = fakegithub.New(fakegithub.Options{
		Apps: []fakegithub.App{forgedApp}, PATExpires: time.Now().Add(expiresSoon), RegistrationLimit: fewRequests,
	})
	t.Cleanup(c.forger.Close)
	s.own["github"] = loopback(t, c.forger.Handler())
	c.openCounting()
	hosts := []string{securedHost, "www." + securedHost, plainHost}
	s.own["secured"], c.proxies.attackers = impersonate(t, c.forger.Handler(), hosts...)
	runners, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// The rig's GitHub begins with the rig.
	var github *fakegithub.Server
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { github.Handler().ServeHTTP(w, r) })
	genuine, proxy := impersonate(t, handler, hosts...)
	c.proxies.victims = proxy
	victims, attackers := cluster.NewNamespace(t), cluster.NewNamespace(t)
	s.create(cluster.Client(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: victims, Name: "ca"},
		Data:       map[string]string{"ca.crt": genuine.authority()},
	})
	allowed := []string{
		"https://" + securedHost, "http://" + securedHost, "https://www." + securedHost,
		"http://" + plainHost, "https://" + plainHost, proxy.URL, c.proxies.attackers.URL, s.own["github"].URL,
		s.own["counting"].URL,
	}
	options := rig.Options{
		AsShipped: true, RunnerNamespace: victims, FurtherNamespaces: []string{attackers},
		AllowedAddresses: allowed,
		GitHub: fakegithub.Options{
			Rules: fakegithub.Rules{MultiLabel: true}, PATs: []string{sharedToken},
			Apps: []fakegithub.App{genuineApp}, PATExpires: time.Now().Add(expires),
			RunnerGroups: []string{laterGroup}, RunnerURL: "http://" + runners.Addr().String(),
		},
		ScaleSetValues: rig.Values{"githubServerTLS": rig.Values{"certificateFrom": rig.Values{
			"configMapKeyRef": rig.Values{"name": "ca", "key": "ca.crt"}}}},
	}
	s.rig = rig.Start(t, cluster, options)
	github = s.rig.GitHub
	serving := &http.Server{Handler: github.Handler()}
	go func() { _ = serving.Serve(runners) }()
	t.Cleanup(func() { _ = serving.Close() })
	s.victim, s.attacker = newTeam(t, cluster, victims), newTeam(t, cluster, attackers)
	s.installOwn()
	t.Cleanup(s.uninstallOwn)
	c.giveSecrets(genuine.authority())
	s.create(s.victim.client, appSecretOf(victims, genuineKey))
	s.create(s.attacker.client, appSecretOf(attackers, forgedKey))
	for i, made := range claims {
		c.owned = append(c.owned, &owned{
			claim: made, object: fmt.Sprintf("precious-%d", i), name: fmt.Sprintf("scale-set-%d", i),
		})
	}
	return c
}

// giveSecrets gives each team its credentials. What is honest in team b also has team a's authority.
func (c *contest) giveSecrets(authority string) {
	c.Helper()
	secret := func(namespace, name, token string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Data:       map[string][]byte{"github_token": []byte(token)},
		}
	}
	c.create(c.victim.client, secret(c.victim.namespace, tokenSecret, rig.PAT))
	c.create(c.attacker.client, secret(c.attacker.namespace, tokenSecret, attackersToken),
		secret(c.attacker.namespace, sharedSecret, sharedToken),
		&corev1.ConfigMap{ObjectMeta: c.named("genuine"), Data: map[string]string{"ca.crt": authority}})
}

// address is the one at which team a's set is registered.
func (o *owned) address() string {
	if o.claim.plain {
		return "http://" + plainHost + "/acme"
	}
	return "https://" + securedHost + "/acme"
}

// victims is the AutoscalingRunnerSet of team a for a scale set, as it is without a status.
func (c *contest) victims(object, name, address string) *v1alpha1.AutoscalingRunnerSet {
	c.Helper()
	pattern, err := c.read(c.victim, rig.DefaultSet)
	if err != nil {
		c.Fatal(err)
	}
	set := &v1alpha1.AutoscalingRunnerSet{Spec: pattern.Spec, ObjectMeta: metav1.ObjectMeta{
		Namespace: c.victim.namespace, Name: object,
		Labels: map[string]string{
			v1alpha1.LabelPartOf: v1alpha1.PartOfScaleSet, v1alpha1.LabelScaleSetName: object,
			v1alpha1.LabelScaleSetNamespace: c.victim.namespace,
		},
	}}
	set.Spec.RunnerScaleSetName = name
	reach(set, address, c.proxies.victims, "ca")
	return set
}

// reach has a set use an address by a proxy and with an authority, which is the key of a ConfigMap.
func reach(set *v1alpha1.AutoscalingRunnerSet, address string, proxy *server, authority string) {
	set.Spec.GitHubConfigUrl, set.Spec.GitHubConfigSecret = address, tokenSecret
	server := &v1alpha1.ProxyServerConfig{Url: proxy.URL}
	set.Spec.Proxy = &v1alpha1.ProxyConfig{HTTP: server, HTTPS: server}
	set.Spec.GitHubServerTLS = nil
	if strings.HasPrefix(strings.ToLower(address), "https:") {
		set.Spec.GitHubServerTLS = &v1alpha1.TLSConfig{CertificateFrom: &v1alpha1.TLSCertificateSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: authority}, Key: "ca.crt",
			},
		}}
	}
}

// read returns a set of a team.
func (c *contest) read(of *team, name string) (*v1alpha1.AutoscalingRunnerSet, error) {
	set := &v1alpha1.AutoscalingRunnerSet{}
	err := c.rig.Cluster.Client().Get(c.Context(), client.ObjectKey{Namespace: of.namespace, Name: name}, set)
	return set, err
}
