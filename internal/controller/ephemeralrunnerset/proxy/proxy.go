// Package proxy keeps the Secret that gives the runners of a set their proxy: it is written before runners are created,
// and deleted when none needs it any more.
package proxy

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/pass"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
)

// The proxy Secret is written again reapplyInterval after it was last written. Secrets aren't watched: if somebody
// deletes it, no pod can start until then.
const reapplyInterval = time.Minute

// Options are what the Secrets are written with.
type Options struct {
	// Client writes to the API server. It reads no Secret.
	Client client.Client
	// Proxy returns the data of the Secret that gives runners their proxy, nil if there is no proxy.
	Proxy func(context.Context, credentials.Reference) (map[string][]byte, error)
	Clock clock.PassiveClock
}

// Secrets writes and deletes the proxy Secrets of sets.
type Secrets struct {
	options  Options
	memories pass.Memories[memory]
}

// memory is what is remembered of the Secret of one set.
type memory struct {
	// hash identifies the Secret that was last applied, at appliedAt.
	hash      string
	appliedAt time.Time
	// After a failure its deletion is tried again at dropAt.
	dropAt time.Time
}

// New returns Secrets that remember no set.
func New(options Options) *Secrets { return &Secrets{options: options} }

// Forget drops what is remembered of a set that is gone. It owns its Secret, which is garbage collected.
func (s *Secrets) Forget(set types.UID) { s.memories.Forget(set) }

// Ensure writes the Secret that gives runner containers their proxy and returns its name, empty if the set
// has no proxy. An unchanged Secret is written again after reapplyInterval.
func (s *Secrets) Ensure(ctx context.Context, p *pass.Pass) (name string, err error) {
	set, m := p.Set, s.memories.Of(p.Set.UID)
	if set.Spec.EphemeralRunnerSpec.Proxy == nil {
		return "", nil
	}
	data, err := s.options.Proxy(ctx, credentials.ForEphemeralRunnerSet(set))
	if err != nil {
		return "", fmt.Errorf("resolve the runners' proxy: %w", err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: kube.RunnerProxySecretName(set.Name, set.Namespace),
			Labels: map[string]string{
				v1alpha1.LabelScaleSetName:      set.Labels[v1alpha1.LabelScaleSetName],
				v1alpha1.LabelScaleSetNamespace: set.Labels[v1alpha1.LabelScaleSetNamespace],
			},
			OwnerReferences: kube.OwnedBy(set),
		},
		Data: data,
	}
	hash := kube.Hash(secret)
	now := s.options.Clock.Now()
	if hash == m.hash && now.Sub(m.appliedAt) < reapplyInterval {
		return secret.Name, nil
	}
	if _, err := kube.Apply(ctx, s.options.Client, secret, nil); err != nil {
		return "", err
	}
	m.hash, m.appliedAt = hash, now
	return secret.Name, nil
}

// dropped replaces the hash when the Secret has been deleted.
const dropped = "none"

// Drop deletes, a single time, the Secret of a proxy that is no longer in the spec, unless a runner that may
// still get a pod needs it. It does not check first whether the Secret exists, so that a manager that has just started
// sends one request per set. unseen says that there may be runners that the watch has not shown.
func (s *Secrets) Drop(ctx context.Context, p *pass.Pass, unseen bool) error {
	set, m := p.Set, s.memories.Of(p.Set.UID)
	if set.Spec.EphemeralRunnerSpec.Proxy != nil || m.hash == dropped {
		return nil
	}
	if unseen || slices.ContainsFunc(p.Runners, (*roster.Runner).NeedsProxySecret) {
		return nil
	}
	if p.Now.Before(m.dropAt) {
		p.RequeueAt(m.dropAt)
		return nil
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: set.Namespace,
		Name:      kube.RunnerProxySecretName(set.Name, set.Namespace),
	}}
	if err := s.options.Client.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
		m.dropAt = p.Now.Add(reapplyInterval)
		return fmt.Errorf("delete Secret %s of a proxy that is no longer in the spec: %w", secret.Name, err)
	}
	m.hash = dropped
	return nil
}
