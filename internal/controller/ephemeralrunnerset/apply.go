package ephemeralrunnerset

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/ownership"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
	"github.com/harrier-ci/harrier/internal/feedback"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/registrations"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// makePlan plans the pass, with the numbers that are in force, and remembers what follows from the plan alone.
func (c *Controller) makePlan(_ context.Context, w *world) error {
	m := w.Memory
	numbers := m.numbers.At(w.origin, c.options.MaxRunnersPerSet, w.Now)
	w.RequeueAt(numbers.Until)
	w.most = numbers.Max
	want := scaling.DemandOf(&w.Object.Spec).Within(numbers, &w.origin.Spec.PlannedCapacity)
	if !kube.HasServer(w.Object) {
		want = want.Unserved()
	}
	if feedback.PolicyOf(&w.origin.Spec) != nil {
		want = want.RerunsLost()
	}
	w.plan = m.Plan(w.views, want, w.unseen)
	m.Follow(w.plan)
	m.Creations.Keep(w.plan.Repeat)
	w.RequeueAt(w.plan.RequeueAt)
	return nil
}

// apply carries out the plan: first questions to GitHub, which are only queued, then writes to the API server, in
// parallel.
func (c *Controller) apply(ctx context.Context, w *world) error {
	m := w.Memory
	defer w.lease.End()
	asked := c.ask(w)
	c.giveVerdicts(w)
	unregistered := m.WithoutRecentlyDeleted(w.plan.With(scaling.DeleteUnregistered), w.Now)
	create := w.lease.Create
	if create > 0 || len(unregistered) > 0 || asked > 0 {
		log.FromContext(ctx).Info("Scaling runners", "create", create, "drop", len(unregistered), "askToRemove", asked)
	}
	err := errors.Join(
		c.deleteRunners(ctx, w, w.plan.With(scaling.Delete), false),
		c.deleteRunners(ctx, w, unregistered, true),
	)
	if create > 0 {
		err = errors.Join(err, c.create(ctx, w, create))
	} else if w.plan.Tally.Starting > 0 && !m.Creations.Closed {
		_, secretErr := c.proxies.Ensure(ctx, w.pass) // somebody may have deleted it
		err = errors.Join(err, secretErr)
	}
	w.RequeueAt(m.Creations.ListDueAt())
	return errors.Join(err, c.proxies.Drop(ctx, w.pass, w.unseen.Expected > 0))
}

// ask asks GitHub what is planned, except about runners with a question already under way. It returns the number of
// removals that it requested.
func (c *Controller) ask(w *world) int {
	deregister, lookUp := w.plan.With(scaling.Deregister), w.plan.With(scaling.LookUp)
	if len(deregister)+len(lookUp) == 0 {
		return 0
	}
	set, removals := w.Object.DeepCopy(), 0 // the calls outlast the pass, which goes on to write the set's status
	for _, r := range deregister {
		if c.questions.Remove(set, w.Memory.Subject(r)) {
			w.Memory.RememberAsked(r, true)
			removals++
		}
	}
	for _, r := range lookUp {
		if c.questions.LookUp(set, w.Memory.Subject(r)) {
			w.Memory.RememberAsked(r, false)
		}
	}
	return removals
}

// create creates n runners, unless there are some that the plan did not count.
func (c *Controller) create(ctx context.Context, w *world, n int) error {
	requested := w.Memory.Creations
	inherited, err := c.inherit(ctx, w)
	if inherited > 0 {
		w.RequeueAt(c.options.Clock.Now()) // the plan did not count them
		return nil
	}
	var proxySecret string
	if err == nil {
		proxySecret, err = c.proxies.Ensure(ctx, w.pass) // the runners need it
	}
	if err == nil {
		err = c.createRunners(ctx, w, n, proxySecret)
	}
	if requested.Settle(err, c.options.Clock.Now()); requested.Closed {
		log.FromContext(ctx).Info("The namespace is being deleted: no more runners are created in it")
		return nil
	}
	return err
}

// createRunners creates n runners under names chosen here.
func (c *Controller) createRunners(ctx context.Context, w *world, n int, proxySecret string) error {
	tries := w.Memory.Creations.Begin(n, w.views, func() string { return kube.RunnerName(w.Object.Name) })
	w.Memory.CountStarts(n - w.plan.Repeat)
	granted := make(map[string]volumeclaims.Lease, len(tries))
	for _, t := range tries {
		granted[t.Name] = w.lease.Take(t.Name, t.Repeated, w.Now)
		if !t.Repeated {
			c.snapshots.Started(w.pass, granted[t.Name])
		}
	}
	labels := ownership.InheritedLabels(w.Object, w.origin)
	err := kube.ForEach(ctx, kube.MaxParallelism, tries, func(ctx context.Context, t *creations.Try) error {
		t.Asked, t.Err = true, c.options.Client.Create(ctx,
			withLease(newRunner(w.Object, labels, t.Name, w.specHash, proxySecret), granted[t.Name]))
		if creations.Made(t.Err) {
			return nil
		}
		return fmt.Errorf("create runner %s: %w", t.Name, t.Err)
	})
	w.Memory.Creations.End(tries)
	return err
}

// deleteRunners deletes runners. With unchanged it deletes only those that nobody has written to since they were seen:
// a runner that got a registration or a job in the meantime stays.
func (c *Controller) deleteRunners(ctx context.Context, w *world, runners []*roster.Runner, unchanged bool) error {
	now := c.options.Clock.Now()
	remaining := w.Memory.WithoutRecentlyDeleted(runners, now)
	deleted := make(chan types.UID, len(remaining))
	err := kube.ForEach(ctx, kube.MaxParallelism, remaining, func(ctx context.Context, r *roster.Runner) error {
		object := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Object.Namespace,
			Name:      r.Name,
			UID:       r.UID,
		}}
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
		w.Memory.RememberDeleted(uid, now)
	}
	return err
}

// giveVerdicts tells the controller of runners which of them exited without a job. It sets their phase to Failed, so
// that they count as failures, or to Outdated.
func (c *Controller) giveVerdicts(w *world) {
	for _, r := range w.plan.With(scaling.MarkFailed) {
		name := types.NamespacedName{Namespace: w.Object.Namespace, Name: r.Name}
		c.options.Verdicts.Give(name, registrations.Registration{Runner: r.UID}, w.Memory.ExitedIdleVerdict(r))
	}
}

// sampleSuffix ends the name of a sample. It is as long as the random end of a runner's name, which never has an e.
const sampleSuffix = "check"

// SampleRunner returns a runner as origin's runner set would create it, to find out whether its pod would be admitted.
// It is never created.
func SampleRunner(origin *v1alpha1.AutoscalingRunnerSet, set *v1alpha1.EphemeralRunnerSet) *v1alpha1.EphemeralRunner {
	proxySecret := ""
	if set.Spec.EphemeralRunnerSpec.Proxy != nil {
		proxySecret = kube.RunnerProxySecretName(set.Name, set.Namespace)
	}
	sample := newRunner(set, ownership.InheritedLabels(set, origin), kube.RunnerPrefix(set.Name)+sampleSuffix,
		templateHash(set), proxySecret)
	sample.UID = origin.UID                                     // an owner needs one
	for _, template := range origin.Spec.VolumeClaimTemplates { // no claim has the name
		if sample.Spec.VolumeClaims == nil {
			sample.Spec.VolumeClaims = map[string]string{}
		}
		sample.Spec.VolumeClaims[template.Metadata.Name] = kube.RunnerPrefix(origin.Name) + sampleSuffix
	}
	return sample
}

// newRunner returns the runner to create, with the labels that it inherits. It has its finalizer from the start, so
// that no pass can miss its deletion.
func newRunner(
	set *v1alpha1.EphemeralRunnerSet, inherited map[string]string, name, specHash, proxySecret string,
) *v1alpha1.EphemeralRunner {
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

// withLease gives a new runner its claims.
func withLease(runner *v1alpha1.EphemeralRunner, lease volumeclaims.Lease) *v1alpha1.EphemeralRunner {
	runner.Spec.VolumeClaims = lease.Claims
	if lease.Seed != "" {
		kube.SetAnnotation(runner, v1alpha1.AnnotationVolumeClaimSeed, lease.Seed)
	}
	return runner
}
