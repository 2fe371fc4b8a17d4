package tenant

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/test/rig"
)

// shortest is the length from which a value in a Secret can't be in a text by chance.
const shortest = 24

// secrets are team a's tokens and passwords, and the content of every Secret in team a's namespace during the test,
// such as the registrations of runners. Team b must not see them.
type secrets struct {
	mutex sync.Mutex
	texts map[string]string // by what it is
}

// collect follows team a's Secrets until the context ends.
func (s *stage) collect(ctx context.Context) *secrets {
	s.Helper()
	found := &secrets{texts: map[string]string{
		"token": rig.PAT, "token in the vault": vaultedToken, "proxy's password": proxyPassword, "proxy's password in the vault": vaultPassword,
	}}
	changes, err := s.rig.Cluster.Client().Watch(ctx, &corev1.SecretList{}, client.InNamespace(s.victim.namespace))
	if err != nil {
		s.Fatal(err)
	}
	go func() {
		for change := range changes.ResultChan() {
			if secret, ok := change.Object.(*corev1.Secret); ok {
				found.add(secret)
			}
		}
	}()
	return found
}

// accounts are those that pods of team b have had, by pod.
type accounts struct {
	mutex sync.Mutex
	of    map[string]string
}

// follow notes them until the context ends.
func (s *stage) follow(ctx context.Context) {
	s.Helper()
	s.accounts.of = map[string]string{}
	changes, err := s.rig.Cluster.Client().Watch(ctx, &corev1.PodList{}, client.InNamespace(s.attacker.namespace))
	if err != nil {
		s.Fatal(err)
	}
	go func() {
		for change := range changes.ResultChan() {
			if pod, ok := change.Object.(*corev1.Pod); ok {
				s.accounts.note(pod)
			}
		}
	}()
}

func (a *accounts) note(pod *corev1.Pod) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.of[pod.Name] = pod.Spec.ServiceAccountName
}

func (a *accounts) all() map[string]string {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return maps.Clone(a.of)
}

func (f *secrets) add(secret *corev1.Secret) {
	if strings.HasPrefix(string(secret.Type), "helm.sh/") {
		return // its parts are in Secrets of their own
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for key, value := range secret.Data {
		if len(value) >= shortest {
			f.texts["Secret "+secret.Name+" "+key] = string(value)
		}
	}
}

// in lists the secrets that a text contains, as they are or in base64, which may be part of something longer.
func (f *secrets) in(content string) (found []string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	decoded := decodeAll(content)
	for what, text := range f.texts {
		if rig.Reveals(content, text) ||
			slices.ContainsFunc(decoded, func(part string) bool { return strings.Contains(part, text) }) {
			found = append(found, what)
		}
	}
	return found
}

// decodeAll returns what is in a text in base64, twice at most: a Secret holds JSON that holds base64.
func decodeAll(content string) (parts []string) {
	for _, word := range strings.FieldsFunc(content, func(c rune) bool { return !strings.ContainsRune(alphabet, c) }) {
		if len(word) < shortest {
			continue
		}
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding} {
			if part, err := encoding.DecodeString(word); err == nil {
				parts = append(parts, string(part))
				break
			}
		}
	}
	return parts
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_="

// visible is everything that team b can read: objects, logs of its pods, metrics, and what its servers and containers
// were given.
func (s *stage) visible() map[string]string {
	s.Helper()
	seen := s.metrics()
	objects, err := s.attacker.readable(s.Context(), s.attacker.namespace)
	if err != nil {
		s.Fatal(err)
	}
	for where, found := range objects {
		content, err := json.Marshal(found)
		if err != nil {
			s.Fatal(err)
		}
		seen[where] = string(content)
	}
	for _, pod := range s.podsOf(s.attacker.namespace) {
		for _, container := range pod.Spec.Containers {
			// Only programs have logs.
			if log, err := s.rig.Node.Log(client.ObjectKeyFromObject(&pod), container.Name); err == nil {
				seen["log of pod "+pod.Name] = log
			}
		}
	}
	for name, server := range s.own {
		requests, _ := server.received()
		seen["requests to server "+name] = strings.Join(requests, "\n")
	}
	for name, server := range s.canaries {
		requests, _ := server.received()
		seen["requests to canary "+name] = strings.Join(requests, "\n")
	}
	loot, _ := s.loot.received()
	seen["environment of its containers"] = strings.Join(loot, "\n")
	return seen
}

// leaks lists where team b sees a secret of team a, or a text of an address that it chose.
func (s *stage) leaks(of *secrets) (found []string) {
	for where, content := range s.visible() {
		for _, what := range of.in(content) {
			found = append(found, fmt.Sprintf("%s has %s", where, what))
		}
		if strings.Contains(content, marker) {
			found = append(found, where+" has the text of an address that team b chose")
		}
		if strings.HasPrefix(where, "requests to ") && strings.Contains(content, "Bearer ") {
			found = append(found, accountTokens(where, content)...)
		}
	}
	slices.Sort(found)
	return found
}

// accountTokens lists requests that carry the token of a ServiceAccount.
func accountTokens(where, content string) (found []string) {
	for _, part := range decodeAll(strings.ReplaceAll(content, ".", " ")) {
		if strings.Contains(part, "system:serviceaccount:") {
			found = append(found, where+" carry the token of a ServiceAccount")
		}
	}
	return found
}

// reached lists the canaries to which there was a connection.
func (s *stage) reached() (found []string) {
	for name, server := range s.canaries {
		if requests, connections := server.received(); connections > 0 {
			found = append(found, fmt.Sprintf("canary %s: %d connections, requests %q", name, connections, requests))
		}
	}
	return found
}

// metrics are those of the manager and all listeners, which everybody on the cluster's network can read.
func (s *stage) metrics() map[string]string {
	s.Helper()
	found := map[string]string{}
	for _, pod := range s.podsOf(s.rig.SystemNamespace) {
		address, err := s.rig.Node.Address(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, 8080)
		if err != nil {
			continue // it doesn't run
		}
		answer, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			continue
		}
		content, err := io.ReadAll(answer.Body)
		if err := answer.Body.Close(); err != nil {
			s.Fatal(err)
		}
		if err == nil {
			found["metrics of pod "+pod.Name] = string(content)
		}
	}
	return found
}

// keep remembers an environment.
func (r *record) keep(environment map[string]string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		r.order = append(r.order, name+"="+environment[name])
	}
}

func eachItem(list client.ObjectList, do func(client.Object)) error {
	return meta.EachListItem(list, func(item runtime.Object) error {
		do(item.(client.Object))
		return nil
	})
}

// bindings lists RoleBindings outside of team b's namespace that give its accounts anything.
func (s *stage) bindings() (found []string) {
	s.Helper()
	for where, binding := range s.allBindings() {
		for _, subject := range binding {
			groups := []string{"system:serviceaccounts:" + s.attacker.namespace}
			if subject.Namespace == s.attacker.namespace || slices.Contains(groups, subject.Name) {
				found = append(found, fmt.Sprintf("%s names %s %s", where, subject.Kind, subject.Name))
			}
		}
	}
	return found
}
