package ephemeralrunnerset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// apply carries out the plan: first questions to GitHub, which are only queued, then writes to the API server, in parallel.
func (c *Controller) apply(ctx context.Context, p *pass) error {
	s := p.state
	asked := c.questions.ask(p.set, s.history, p.plan)
	unregistered := s.withoutRecentlyDeleted(p.plan.with(actionDeleteUnregistered), c.options.Clock.Now())
	create := s.createLimit(p.plan)
	if create > 0 || len(unregistered) > 0 || asked > 0 {
		log.FromContext(ctx).Info("Scaling runners", "create", create, "drop", len(unregistered), "askToRemove", asked)
	}
	err := errors.Join(
		c.failExitedIdle(ctx, p),
		c.deleteRunners(ctx, p, p.plan.with(actionDelete)),
		c.deleteUnchangedRunners(ctx, p, unregistered),
	)
	if create > 0 {
		err = errors.Join(err, c.create(ctx, p, create))
	} else {
		err = errors.Join(err, c.restoreProxySecret(ctx, p))
	}
	return errors.Join(err, c.dropProxySecret(ctx, p))
}

// createLimit returns how many of the planned runners to create now.
func (h *history) createLimit(p *plan) int {
	if !h.creations.allowed(h.now) {
		return 0
	}
	return p.repeat + p.create
}

// create creates n runners, unless there are some that the plan did not count.
func (c *Controller) create(ctx context.Context, p *pass, n int) error {
	creations := &p.state.creations
	inherited, err := c.inherit(ctx, p)
	if inherited > 0 {
		p.requeueBy(c.options.Clock.Now()) // the plan did not count them
		return nil
	}
	if err == nil {
		err = c.createPlanned(ctx, p, n)
	}
	if creations.settle(err, c.options.Clock.Now()); creations.closed {
		log.FromContext(ctx).Info("The namespace is being deleted: no more runners are created in it")
		return nil
	}
	return err
}

// inherit asks the API server, before this process creates the set's first runner, for runners that an earlier process has
// created and the watch does not show yet: without them a leader that takes over while watches lag would create the
// same number again, beyond maxRunners. It returns how many there are.
func (c *Controller) inherit(ctx context.Context, p *pass) (int, error) {
	creations := &p.state.creations
	if !creations.unlisted {
		return 0, nil
	}
	existing, err := c.existing(ctx, p)
	if err != nil {
		return 0, err
	}
	unseen := creations.inherit(existing, p.views)
	if unseen > 0 {
		log.FromContext(ctx).Info("Planning again with runners that an earlier manager created and the watch does not show yet", "runners", unseen)
	}
	return unseen, nil
}

// createPlanned creates n runners, after the proxy Secret that they need.
func (c *Controller) createPlanned(ctx context.Context, p *pass, n int) error {
	proxySecret, err := c.ensureProxySecret(ctx, p)
	if err != nil {
		return err
	}
	return c.createRunners(ctx, p, n, proxySecret)
}

// createRunners creates n runners under names chosen here.
func (c *Controller) createRunners(ctx context.Context, p *pass, n int, proxySecret string) error {
	tries := p.state.creations.begin(n, p.views, func() string { return kube.RunnerName(p.set.Name) })
	labels := inheritedLabels(p.set, p.origin)
	err := kube.ForEach(ctx, kube.MaxParallelism, tries, func(ctx context.Context, t *try) error {
		t.asked, t.err = true, c.options.Client.Create(ctx, newRunner(p.set, labels, t.name, p.specHash, proxySecret))
		if made(t.err) {
			return nil
		}
		return fmt.Errorf("create runner %s: %w", t.name, t.err)
	})
	p.state.creations.end(tries)
	return err
}

// deleteRunners deletes runners.
func (c *Controller) deleteRunners(ctx context.Context, p *pass, runners []*runnerView) error {
	return c.deleteEach(ctx, p, runners, func(*runnerView) *string { return nil })
}

// deleteUnchangedRunners deletes runners that nobody has written to since they were seen. A runner that got a registration or
// a job in the meantime stays.
func (c *Controller) deleteUnchangedRunners(ctx context.Context, p *pass, runners []*runnerView) error {
	return c.deleteEach(ctx, p, runners, func(r *runnerView) *string { return new(r.resourceVersion) })
}

// deleteEach deletes runners, each on condition that it has the resourceVersion given for it; nil matches any.
func (c *Controller) deleteEach(ctx context.Context, p *pass, runners []*runnerView, resourceVersion func(*runnerView) *string) error {
	now := c.options.Clock.Now()
	remaining := p.state.withoutRecentlyDeleted(runners, now)
	deleted := make(chan types.UID, len(remaining))
	err := kube.ForEach(ctx, kube.MaxParallelism, remaining, func(ctx context.Context, r *runnerView) error {
		object := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Namespace: p.set.Namespace, Name: r.name, UID: r.uid}}
		precondition := kube.UIDPrecondition(object)
		precondition.ResourceVersion = resourceVersion(r)
		err := client.IgnoreNotFound(c.options.Client.Delete(ctx, object, precondition))
		if err == nil {
			deleted <- r.uid
		}
		if err = kube.IgnoreOvertaken(err); err != nil {
			return fmt.Errorf("delete runner %s: %w", r.name, err)
		}
		return nil
	})
	close(deleted)
	for uid := range deleted {
		p.state.recentlyDeleted[uid] = now
	}
	return err
}

// deletionSeenTimeout is how long the cache may take to show that a runner was deleted.
const deletionSeenTimeout = 30 * time.Second

// withoutRecentlyDeleted leaves out the runners whose deletion the cache may not show yet.
func (s *setState) withoutRecentlyDeleted(runners []*runnerView, now time.Time) []*runnerView {
	maps.DeleteFunc(s.recentlyDeleted, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= deletionSeenTimeout })
	var remaining []*runnerView
	for _, r := range runners {
		if _, deleted := s.recentlyDeleted[r.uid]; !deleted {
			remaining = append(remaining, r)
		}
	}
	return remaining
}

// failExitedIdle sets the phase of runners that exited without a job to Failed, so that they count as failures. The runner's
// own controller adds conditions and Event: this patch would replace the runner's whole list of conditions.
func (c *Controller) failExitedIdle(ctx context.Context, p *pass) error {
	return kube.ForEach(ctx, kube.MaxParallelism, p.plan.with(actionMarkFailed), func(ctx context.Context, r *runnerView) error {
		object := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Namespace: p.set.Namespace, Name: r.name}}
		before := object.DeepCopy()
		object.Status.Phase = v1alpha1.EphemeralRunnerPhaseFailed
		object.Status.Reason = v1alpha1.ReasonRunnerExitedWithoutJob
		spec := &p.set.Spec.EphemeralRunnerSpec.PodSpec
		if r.template != p.specHash {
			spec = &corev1.PodSpec{} // the runner's own isn't known
		}
		object.Status.Message = exitedIdleMessage(p.state.historyOf(r), spec)
		_, err := kube.PatchStatus(ctx, c.options.Client, object, before)
		return client.IgnoreNotFound(err)
	})
}

// exitedIdleMessage says why the runner counts as failed. The usual image also ends with code 0 if it can't write its work folder.
func exitedIdleMessage(past *runnerHistory, spec *corev1.PodSpec) string {
	what, advice := "the runner container exited with code 0, and neither a report nor GitHub says that it had a job", "check the image and its command"
	if past.recordKept() {
		what = "the runner container exited with code 0 before it got a job"
	}
	if lacksCommand(spec) {
		advice = `it has no command, and the usual image does not start the runner by itself: add command: ["/home/runner/run.sh"] to the template`
	} else if unwritable := kube.UnwritableWork(spec, v1alpha1.RunnerContainerName); unwritable != "" {
		advice += "; " + unwritable
	}
	return what + ": " + advice
}

// lacksCommand reports whether what the runner's container runs is left to its image. That may be right for an image of one's own.
func lacksCommand(spec *corev1.PodSpec) bool {
	runner := kube.Container(spec, v1alpha1.RunnerContainerName)
	return runner != nil && len(runner.Command) == 0 && len(runner.Args) == 0
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
