package ephemeralrunnerset

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// reasonExitedWithoutJob says that a runner ended well but never had a job: a wrong image or command must not loop.
const reasonExitedWithoutJob = "RunnerExitedWithoutJob"

// apply does what was planned: questions first, for they only queue, then writes, in parallel.
func (c *Controller) apply(ctx context.Context, set *v1alpha1.EphemeralRunnerSet, m *setMemory, p *plan, specHash string) error {
	for _, r := range p.remove {
		c.questions.remove(set, m.memory, r)
	}
	for _, r := range p.lookUp {
		c.questions.lookUp(set, m.memory, r)
	}
	logPlan(ctx, p)
	return errors.Join(
		c.failExitedIdle(ctx, set, p.exitedIdle),
		c.drop(ctx, set, p.drop, false),
		c.drop(ctx, set, p.dropUnseen, true),
		c.create(ctx, set, m, p.create, specHash),
	)
}

func logPlan(ctx context.Context, p *plan) {
	if p.create > 0 || len(p.dropUnseen) > 0 || len(p.remove) > 0 {
		log.FromContext(ctx).Info("Scaling runners",
			"create", p.create, "drop", len(p.dropUnseen), "askToRemove", len(p.remove))
	}
}

// create makes runners under names chosen here. A name whose creation had no answer is tried again before new ones are
// chosen: whichever try succeeds, there is one runner.
func (c *Controller) create(ctx context.Context, set *v1alpha1.EphemeralRunnerSet, m *setMemory, n int, specHash string) error {
	names := m.unanswered
	m.unanswered = nil
	if n == 0 && len(names) == 0 {
		return nil
	}
	proxySecret, err := c.ensureProxySecret(ctx, set, m)
	if err != nil {
		m.unanswered = names
		return err
	}
	for range n {
		names = append(names, kube.RunnerName(set.Name))
	}
	key := client.ObjectKeyFromObject(set)
	c.expectations.Expect(key, names...)
	outcomes := make(chan string, len(names))
	err = kube.ForEach(ctx, kube.Parallel, names, func(ctx context.Context, name string) error {
		err := c.Client.Create(ctx, newRunner(set, name, specHash, proxySecret))
		switch {
		case err == nil || apierrors.IsAlreadyExists(err):
			return nil
		case refused(err):
			c.expectations.Met(key, name)
		default:
			outcomes <- name
		}
		return ignoreTerminating(fmt.Errorf("create runner %s: %w", name, err))
	})
	close(outcomes)
	for name := range outcomes {
		m.unanswered = append(m.unanswered, name)
	}
	return err
}

// refused says that the server answered, and that the object does not exist.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout
}

// ignoreTerminating drops the refusal of a namespace that is being deleted: nothing can be made there any more.
func ignoreTerminating(err error) error {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}

// drop deletes runners. With unseenOnly a runner goes only if nobody wrote to it since it was seen, so one that got a
// job or a registration meanwhile stays.
func (c *Controller) drop(ctx context.Context, set *v1alpha1.EphemeralRunnerSet, runners []*runner, unseenOnly bool) error {
	return kube.ForEach(ctx, kube.Parallel, runners, func(ctx context.Context, r *runner) error {
		preconditions := metav1.Preconditions{UID: ptr.To(r.uid)}
		if unseenOnly {
			preconditions.ResourceVersion = ptr.To(r.version)
		}
		object := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: r.name}}
		err := c.Client.Delete(ctx, object, client.Preconditions(preconditions))
		if err = ignoreConflict(client.IgnoreNotFound(err)); err != nil {
			return fmt.Errorf("delete runner %s: %w", r.name, err)
		}
		return nil
	})
}

// failExitedIdle gives runners that ended without a job the phase that makes them count as failures.
func (c *Controller) failExitedIdle(ctx context.Context, set *v1alpha1.EphemeralRunnerSet, runners []*runner) error {
	return kube.ForEach(ctx, kube.Parallel, runners, func(ctx context.Context, r *runner) error {
		object := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: r.name}}
		before := object.DeepCopy()
		object.Status.Phase = v1alpha1.EphemeralRunnerPhaseFailed
		object.Status.Reason = reasonExitedWithoutJob
		object.Status.Message = "the runner container exited with code 0 before it got a job: check the image and its command"
		_, err := kube.PatchStatus(ctx, c.Client, object, before)
		return client.IgnoreNotFound(err)
	})
}

// newRunner returns the runner to create. It has its finalizer from the start, so that no pass can miss its end.
func newRunner(set *v1alpha1.EphemeralRunnerSet, name, specHash, proxySecret string) *v1alpha1.EphemeralRunner {
	labels, annotations := kube.Metadata(set.Spec.EphemeralRunnerMetadata)
	runner := &v1alpha1.EphemeralRunner{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: name,
			Finalizers:      []string{v1alpha1.FinalizerEphemeralRunner},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.GroupVersion.WithKind("EphemeralRunnerSet"))},
			Labels: kube.Labels(nil, labels, set.Labels, map[string]string{
				v1alpha1.LabelComponent: v1alpha1.ComponentRunner,
			}),
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
