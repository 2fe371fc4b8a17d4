package ephemeralrunnerset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/registrations"
)

// apply carries out the plan: first questions to GitHub, which are only queued, then writes to the API server, in parallel.
func (c *Controller) apply(ctx context.Context, p *pass) error {
	s := p.state
	asked := c.ask(p)
	unregistered := s.WithoutRecentlyDeleted(p.plan.With(scaling.DeleteUnregistered), c.options.Clock.Now())
	create := s.CreateLimit(p.plan)
	if create > 0 || len(unregistered) > 0 || asked > 0 {
		log.FromContext(ctx).Info("Scaling runners", "create", create, "drop", len(unregistered), "askToRemove", asked)
	}
	c.giveVerdicts(p)
	err := errors.Join(
		c.deleteRunners(ctx, p, p.plan.With(scaling.Delete), false),
		c.deleteRunners(ctx, p, unregistered, true),
	)
	if create > 0 {
		err = errors.Join(err, c.create(ctx, p, create))
	} else if p.plan.Tally.Starting > 0 && !s.Creations.Closed {
		_, secretErr := c.ensureProxySecret(ctx, p) // somebody may have deleted it
		err = errors.Join(err, secretErr)
	}
	return errors.Join(err, c.dropProxySecret(ctx, p))
}

// ask asks GitHub what is planned, except about runners with a question already under way. It returns how many removals it requested.
func (c *Controller) ask(p *pass) int {
	deregister, lookUp := p.plan.With(scaling.Deregister), p.plan.With(scaling.LookUp)
	if len(deregister)+len(lookUp) == 0 {
		return 0
	}
	set, removals := p.set.DeepCopy(), 0 // the calls outlast the pass, which goes on to write the set's status
	for _, r := range deregister {
		if c.questions.Remove(set, p.state.Subject(r)) {
			p.state.NoteAsked(r, true)
			removals++
		}
	}
	for _, r := range lookUp {
		if c.questions.LookUp(set, p.state.Subject(r)) {
			p.state.NoteAsked(r, false)
		}
	}
	return removals
}

// noteAnswers moves the answers that have arrived into the history. Failures are logged once for all runners: they seldom concern a
// single one.
func (c *Controller) noteAnswers(ctx context.Context, h *scaling.History, set types.NamespacedName, runners []*roster.Runner) {
	failed, cause := 0, error(nil)
	for _, r := range runners {
		if !h.Asked(r) {
			continue
		}
		call, answered := c.questions.Take(set, registrations.Registration{Runner: r.UID, ID: r.RegistrationID})
		if !answered {
			continue
		}
		h.NoteAnswer(r, call)
		if call.Err != nil {
			failed, cause = failed+1, call.Err
		}
	}
	if cause != nil {
		log.FromContext(ctx).Error(cause, "GitHub did not answer questions about runners, asking again", "runners", failed)
	}
}

// create creates n runners, unless there are some that the plan did not count.
func (c *Controller) create(ctx context.Context, p *pass, n int) error {
	requested := p.state.Creations
	inherited, err := c.inherit(ctx, p)
	if inherited > 0 {
		p.requeueBy(c.options.Clock.Now()) // the plan did not count them
		return nil
	}
	var proxySecret string
	if err == nil {
		proxySecret, err = c.ensureProxySecret(ctx, p) // the runners need it
	}
	if err == nil {
		err = c.createRunners(ctx, p, n, proxySecret)
	}
	if requested.Settle(err, c.options.Clock.Now()); requested.Closed {
		log.FromContext(ctx).Info("The namespace is being deleted: no more runners are created in it")
		return nil
	}
	return err
}

// createRunners creates n runners under names chosen here.
func (c *Controller) createRunners(ctx context.Context, p *pass, n int, proxySecret string) error {
	tries := p.state.Creations.Begin(n, p.views, func() string { return kube.RunnerName(p.set.Name) })
	labels := inheritedLabels(p.set, p.origin)
	err := kube.ForEach(ctx, kube.MaxParallelism, tries, func(ctx context.Context, t *creations.Try) error {
		t.Asked, t.Err = true, c.options.Client.Create(ctx, newRunner(p.set, labels, t.Name, p.specHash, proxySecret))
		if creations.Made(t.Err) {
			return nil
		}
		return fmt.Errorf("create runner %s: %w", t.Name, t.Err)
	})
	p.state.Creations.End(tries)
	return err
}

// deleteRunners deletes runners; if they must be unchanged, only those that nobody has written to since they were seen. One that got a
// registration or a job in the meantime stays.
func (c *Controller) deleteRunners(ctx context.Context, p *pass, runners []*roster.Runner, unchanged bool) error {
	now := c.options.Clock.Now()
	remaining := p.state.WithoutRecentlyDeleted(runners, now)
	deleted := make(chan types.UID, len(remaining))
	err := kube.ForEach(ctx, kube.MaxParallelism, remaining, func(ctx context.Context, r *roster.Runner) error {
		object := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Namespace: p.set.Namespace, Name: r.Name, UID: r.UID}}
		precondition := kube.UIDPrecondition(object)
		if unchanged {
			precondition.ResourceVersion = &r.ResourceVersion
		}
		err := client.IgnoreNotFound(c.options.Client.Delete(ctx, object, precondition))
		if err == nil {
			deleted <- r.UID
		}
		if err = kube.IgnoreOvertaken(err); err != nil {
			return fmt.Errorf("delete runner %s: %w", r.Name, err)
		}
		return nil
	})
	close(deleted)
	for uid := range deleted {
		p.state.NoteDeleted(uid, now)
	}
	return err
}

// giveVerdicts tells the controller of runners which of them exited without a job. It sets their phase to Failed, so that they count as
// failures.
func (c *Controller) giveVerdicts(p *pass) {
	for _, r := range p.plan.With(scaling.MarkFailed) {
		name := types.NamespacedName{Namespace: p.set.Namespace, Name: r.Name}
		c.options.Verdicts.Give(name, registrations.Registration{Runner: r.UID}, p.state.ExitedIdleVerdict(r))
	}
}

// sampleSuffix ends the name of a sample. It is as long as the random end of a runner's name, which never has an e.
const sampleSuffix = "check"

// SampleRunner returns a runner as origin's runner set would create it, to find out whether its pod would be admitted. It is never
// created.
func SampleRunner(origin *v1alpha1.AutoscalingRunnerSet, set *v1alpha1.EphemeralRunnerSet) *v1alpha1.EphemeralRunner {
	proxySecret := ""
	if set.Spec.EphemeralRunnerSpec.Proxy != nil {
		proxySecret = kube.RunnerProxySecretName(set.Name, set.Namespace)
	}
	sample := newRunner(set, inheritedLabels(set, origin), kube.RunnerPrefix(set.Name)+sampleSuffix, templateHash(set), proxySecret)
	sample.UID = origin.UID // an owner needs one
	return sample
}

// newRunner returns the runner to create, with the labels that it inherits. It has its finalizer from the start, so that no pass can miss its deletion.
func newRunner(set *v1alpha1.EphemeralRunnerSet, inherited map[string]string, name, specHash, proxySecret string) *v1alpha1.EphemeralRunner {
	labels, annotations := kube.Metadata(set.Spec.EphemeralRunnerMetadata)
	runner := &v1alpha1.EphemeralRunner{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: name,
			Finalizers:      []string{v1alpha1.FinalizerEphemeralRunner},
			OwnerReferences: kube.OwnedBy(set),
			Labels:          kube.Labels(nil, labels, inherited),
			Annotations: kube.Annotations(annotations, map[string]string{
				v1alpha1.AnnotationPatchID:        strconv.Itoa(set.Spec.PatchID),
				v1alpha1.AnnotationRunnerSpecHash: specHash,
			}),
		},
		Spec: *set.Spec.EphemeralRunnerSpec.DeepCopy(),
	}
	for _, key := range []string{v1alpha1.AnnotationRunnerGroupName, v1alpha1.AnnotationRunnerScaleSetName} {
		if value, found := set.Annotations[key]; found {
			runner.Annotations[key] = value
		}
	}
	runner.Spec.ProxySecretRef = proxySecret
	return runner
}

// templateHash identifies the template that runners are created from.
func templateHash(set *v1alpha1.EphemeralRunnerSet) string {
	return kube.Hash(set.Spec.EphemeralRunnerSpec)
}

// proxyReapplyPeriod is how long the proxy Secret is assumed to be unchanged after it was written. Secrets aren't watched: if
// somebody deletes it, no pod can start until it is written again after this time.
const proxyReapplyPeriod = time.Minute

// ensureProxySecret writes the Secret that gives runner containers their proxy and returns its name, empty if the set has no
// proxy. An unchanged Secret is written again after proxyReapplyPeriod.
func (c *Controller) ensureProxySecret(ctx context.Context, p *pass) (string, error) {
	set, s := p.set, p.state
	if set.Spec.EphemeralRunnerSpec.Proxy == nil {
		return "", nil
	}
	data, err := c.options.Proxy(ctx, credentials.ForEphemeralRunnerSet(set))
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
	now := c.options.Clock.Now()
	if hash == s.proxyHash && now.Sub(s.proxyAppliedAt) < proxyReapplyPeriod {
		return secret.Name, nil
	}
	if _, err := kube.Apply(ctx, c.options.Client, secret, nil); err != nil {
		return "", err
	}
	s.proxyHash, s.proxyAppliedAt = hash, now
	return secret.Name, nil
}

// noProxySecret replaces proxyHash when the Secret has been deleted.
const noProxySecret = "none"

// dropProxySecret deletes, once, the Secret of a proxy that is no longer in the spec, unless a runner that may still get a
// pod needs it. It does not check first whether the Secret exists, so that a manager that has just started sends one request
// per set.
func (c *Controller) dropProxySecret(ctx context.Context, p *pass) error {
	set, s, now := p.set, p.state, c.options.Clock.Now()
	if set.Spec.EphemeralRunnerSpec.Proxy != nil || s.proxyHash == noProxySecret {
		return nil
	}
	if p.unseen.Expected > 0 || slices.ContainsFunc(p.views, (*roster.Runner).NeedsProxySecret) {
		return nil
	}
	if now.Before(s.proxyDropAt) {
		p.requeueBy(s.proxyDropAt)
		return nil
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: kube.RunnerProxySecretName(set.Name, set.Namespace)}}
	if err := c.options.Client.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
		s.proxyDropAt = now.Add(proxyReapplyPeriod)
		return fmt.Errorf("delete Secret %s of a proxy that is no longer in the spec: %w", secret.Name, err)
	}
	s.proxyHash = noProxySecret
	return nil
}
