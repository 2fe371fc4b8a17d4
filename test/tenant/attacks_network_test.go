package tenant

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Reasons and conditions of refused addresses.
const (
	addressNotAllowed = "AddressNotAllowed"
	insecureRedirect  = "InsecureRedirect"
)

// redirected are the reasons for which a redirect is not followed: it is an answer of a GitHub that may be asked.
var redirected = []string{addressNotAllowed, v1alpha1.ReasonRefusedByGitHub, v1alpha1.ReasonGitHubUnavailable}

var onGitHub = []string{v1alpha1.ConditionCredentialsValid, v1alpha1.ConditionScaleSetRegistered}

// addressAttacks have the manager or a listener call an address that isn't team b's, or send a token to one: defects 9
// and 10.
func addressAttacks() []attack {
	// at is a set whose GitHub is the named server of team b.
	at := func(name, server string) func(*stage) []client.Object {
		return one(name, func(s *stage, set *v1alpha1.AutoscalingRunnerSet) {
			set.Spec.GitHubConfigUrl = s.own[server].URL + "/org"
		})
	}
	attacks := []attack{
		{name: "a redirect from https to http", objects: at("downgrading", "downgrading"), says: toldBy("downgrading", onGitHub, insecureRedirect)},
		{name: "a service at http behind https", objects: at("plain-service", "plain service"), says: toldBy("plain-service", onGitHub, insecureRedirect)},
		{
			name: "a queue at http behind https", objects: at("plain-queue", "plain queue"),
			says: toldBy("plain-queue", []string{v1alpha1.ConditionListenerReady}, insecureRedirect),
		},
		{
			name: "a redirect to an internal address", objects: at("redirecting", "redirecting"),
			says: toldBy("redirecting", onGitHub, redirected...),
		},
		{
			name: "a queue that redirects to an internal address", objects: at("straying", "straying"),
			says: toldBy("straying", []string{v1alpha1.ConditionListenerReady}, redirected...),
		},
		{
			name: "an answer that isn't GitHub's", objects: at("babbling", "babbling"),
			says: toldBy("babbling", onGitHub, v1alpha1.ReasonUnauthorized, v1alpha1.ReasonRefusedByGitHub,
				v1alpha1.ReasonGitHubUnavailable),
		},
		{
			name: "an internal address as proxy",
			objects: one("internal-proxy", func(s *stage, set *v1alpha1.AutoscalingRunnerSet) {
				server := &v1alpha1.ProxyServerConfig{Url: s.canaries["loopback"].URL}
				set.Spec.GitHubConfigUrl = proxiedGitHub + "/org"
				set.Spec.Proxy = &v1alpha1.ProxyConfig{HTTP: server, HTTPS: server}
			}),
			says: toldBy("internal-proxy", onGitHub, addressNotAllowed),
		},
		{
			name: "an internal address as the vault's proxy",
			objects: one("internal-vault", func(s *stage, set *v1alpha1.AutoscalingRunnerSet) {
				set.Spec.VaultConfig, set.Spec.GitHubConfigSecret = s.vault(), ownSecret
				set.Spec.VaultConfig.Proxy.HTTPS.Url = s.canaries["loopback"].URL
			}),
			says: toldBy("internal-vault", onGitHub, addressNotAllowed),
		},
	}
	return append(attacks, append(spellings(), metadataAttacks()...)...)
}

// spellings are sets whose GitHub is an internal address in several spellings.
func spellings() []attack {
	var attacks []attack
	for name, spell := range map[string]func(s *stage, host, port string) string{
		"as-it-is": func(_ *stage, host, port string) string { return "http://" + host + ":" + port },
		"by-name":  func(_ *stage, _, port string) string { return "http://localhost:" + port },
		"mapped":   func(_ *stage, host, port string) string { return "http://[::ffff:" + host + "]:" + port },
		// It begins like an address that is allowed.
		"as-user": func(s *stage, host, port string) string { return s.own["github"].URL + "@" + host + ":" + port },
	} {
		attacks = append(attacks, attack{
			name: "an internal address as GitHub, " + name,
			objects: one("internal-"+name, func(s *stage, set *v1alpha1.AutoscalingRunnerSet) {
				address, err := url.Parse(s.canaries["loopback"].URL)
				if err != nil {
					s.Fatal(err)
				}
				set.Spec.GitHubConfigUrl = spell(s, address.Hostname(), address.Port()) + "/org"
			}),
			says: toldBy("internal-"+name, onGitHub, addressNotAllowed, v1alpha1.ReasonInvalidConfigURL),
		})
	}
	return attacks
}

// metadataAttacks are redirects to the addresses of clouds' metadata. The list is empty unless these lead nowhere else.
func metadataAttacks() []attack {
	var attacks []attack
	for i, address := range metadataAddresses {
		if !*linkLocal {
			break
		}
		direct, leading, proxied := fmt.Sprintf("metadata-%d", i), fmt.Sprintf("to-metadata-%d", i),
			fmt.Sprintf("by-metadata-%d", i)
		attacks = append(attacks,
			attack{
				name: address + " as GitHub",
				objects: one(direct, func(_ *stage, set *v1alpha1.AutoscalingRunnerSet) {
					set.Spec.GitHubConfigUrl = "http://" + address + "/latest"
				}),
				says: toldBy(direct, onGitHub, addressNotAllowed),
			},
			attack{
				name: "a redirect to " + address,
				objects: one(leading, func(s *stage, set *v1alpha1.AutoscalingRunnerSet) {
					set.Spec.GitHubConfigUrl = s.own["to "+address].URL + "/org"
				}),
				says: toldBy(leading, onGitHub, redirected...),
			},
			attack{
				name: address + " as proxy",
				objects: one(proxied, func(_ *stage, set *v1alpha1.AutoscalingRunnerSet) {
					server := &v1alpha1.ProxyServerConfig{Url: "http://" + address}
					set.Spec.GitHubConfigUrl = proxiedGitHub + "/org"
					set.Spec.Proxy = &v1alpha1.ProxyConfig{HTTP: server, HTTPS: server}
				}),
				says: toldBy(proxied, onGitHub, addressNotAllowed),
			},
		)
	}
	return attacks
}

// limitAttacks are about what one set can make the manager spend: defects 7, 8 and 12.
func limitAttacks() []attack {
	const manyLabels = 40_000
	return []attack{
		{
			name: "answers of 15 MiB",
			objects: one("large", func(s *stage, set *v1alpha1.AutoscalingRunnerSet) {
				set.Spec.GitHubConfigUrl, set.Spec.MinRunners = s.own["large"].URL+"/org", new(128)
			}),
			says: func(s *stage) error { return s.saysSize("large") },
		},
		{
			name: "messages of 64 MiB",
			objects: one("talkative", func(s *stage, set *v1alpha1.AutoscalingRunnerSet) {
				set.Spec.GitHubConfigUrl = s.own["talkative"].URL + "/org"
			}),
			// Each is deleted, as one that can't be read, and the listener goes on.
			says: works("talkative"),
			harm: func(s *stage) []string {
				// in a minute; pauses grow to 15 s
				const each = 30
				most := each * (1 + int(time.Since(s.rig.Started)/time.Minute))
				if count := s.own["talkative"].count(); count > most {
					return []string{fmt.Sprintf("the listener sent %d requests for messages that it can't read", count)}
				}
				return nil
			},
		},
		{
			name: "forty thousand labels",
			objects: one("labelled", func(_ *stage, set *v1alpha1.AutoscalingRunnerSet) {
				for i := range manyLabels {
					set.Spec.RunnerScaleSetLabels = append(set.Spec.RunnerScaleSetLabels, fmt.Sprintf("l%d", i))
				}
			}),
			refused: "spec.runnerScaleSetLabels",
		},
		{
			name: "two thousand million idle runners",
			objects: one("endless", func(_ *stage, set *v1alpha1.AutoscalingRunnerSet) {
				set.Spec.MinRunners, set.Spec.MaxRunners = new(v1alpha1.MaxRunnersUnlimited), nil
			}),
			says: all(works("endless"), func(s *stage) error { return s.saysText("endless", "maxRunnersPerSet") }),
			harm: func(s *stage) []string {
				runners := 0
				for _, pod := range s.podsOf(s.attacker.namespace) {
					if pod.Labels[v1alpha1.LabelScaleSetName] == "endless" && pod.Status.Phase != corev1.PodFailed {
						runners++
					}
				}
				if runners > ceiling {
					return []string{fmt.Sprintf("one set has %d runners", runners)}
				}
				return nil
			},
		},
	}
}

// size finds a limit in a text about an answer that exceeds it.
var size = regexp.MustCompile(`[0-9]+ ?(MiB|KiB|bytes)`)

// saysSize fails until a condition of the set names a size.
func (s *stage) saysSize(name string) error {
	texts, err := s.conditionTexts(name)
	if err == nil && !size.MatchString(texts) {
		return fmt.Errorf("no condition of scale set %s names a size: %s", name, texts)
	}
	return err
}

// saysText fails until a condition of the set has the text.
func (s *stage) saysText(name, text string) error {
	texts, err := s.conditionTexts(name)
	if err == nil && !strings.Contains(texts, text) {
		return fmt.Errorf("no condition of scale set %s names %s: %s", name, text, texts)
	}
	return err
}

func (s *stage) conditionTexts(name string) (string, error) {
	set := &v1alpha1.AutoscalingRunnerSet{}
	err := s.attacker.client.Get(s.Context(), client.ObjectKey{Namespace: s.attacker.namespace, Name: name}, set)
	var texts []string
	for _, found := range set.Status.Conditions {
		texts = append(texts, fmt.Sprintf("%s=%s/%s: %s", found.Type, found.Status, found.Reason, found.Message))
	}
	return strings.Join(texts, "\n"), err
}
