package ephemeralrunnerset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// apply does what was planned: questions first, for they only queue, then writes, in parallel.
func (c *Controller) apply(ctx context.Context, p *pass) error {
	m := p.memory
	asked := c.questions.ask(p.set, m.memory, p.plan)
	dropUnseen := m.notDropped(p.plan.dropUnseen, c.options.Clock.Now())
	m.lacking = p.plan.create+len(m.unanswered) > 0
	create := c.allowed(p)
	if create > 0 || len(dropUnseen) > 0 || asked > 0 {
		log.FromContext(ctx).Info("Scaling runners", "create", create, "drop", len(dropUnseen), "askToRemove", asked)
	}
	return errors.Join(
		c.failExitedIdle(ctx, p),
		c.drop(ctx, p, p.plan.drop, false),
		c.drop(ctx, p, dropUnseen, true),
		c.create(ctx, p, create),
	)
}

const (
	// firstCreatePause doubles with every creation in a row that failed, up to longestCreatePause. What refuses (a quota,
	// a webhook) is not asked again at every event of a runner.
	firstCreatePause   = time.Second
	longestCreatePause = time.Minute
	// longestAwayPause is the longest where the API server gave no answer, or only an error of its own: that it is back
	// has to be noticed within seconds, because jobs wait.
	longestAwayPause = 10 * time.Second
)

// allowed is how many runners may be made now: none in a namespace that is being deleted, or soon after a refusal.
func (c *Controller) allowed(p *pass) int {
	switch m := p.memory; {
	case m.closed:
		return 0
	case c.options.Clock.Now().Before(m.createAfter):
		p.plan.wake(m.createAfter)
		return 0
	default:
		return p.plan.create + len(m.unanswered)
	}
}

// create makes n runners under names chosen here. A name whose creation had no answer is tried again before new ones are
// chosen: whichever try succeeds, there is one runner. Runners under way need what new ones do.
func (c *Controller) create(ctx context.Context, p *pass, n int) error {
	if n == 0 {
		return c.restoreProxySecret(ctx, p)
	}
	m := p.memory
	proxySecret, err := c.ensureProxySecret(ctx, p)
	if err == nil {
		err = c.createRunners(ctx, p, n, proxySecret)
	}
	if err == nil {
		m.refusals, m.refusal = 0, nil
		return nil
	}
	m.closed = apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
	if m.closed {
		log.FromContext(ctx).Info("The namespace is being deleted: no more runners are made in it")
		return nil
	}
	m.refusals, m.refusal = m.refusals+1, err
	longest := longestCreatePause
	if len(m.unanswered) > 0 {
		longest = longestAwayPause
	}
	m.createAfter = c.options.Clock.Now().Add(kube.ExponentialBackoff(firstCreatePause, longest, m.refusals))
	return err
}

func (c *Controller) createRunners(ctx context.Context, p *pass, n int, proxySecret string) error {
	m := p.memory
	names, again := m.unanswered, slices.Clone(m.unanswered)
	m.unanswered = nil
	names = withNew(names, n, c.namesInUse(p), func() string { return kube.RunnerName(p.set.Name) })
	key := client.ObjectKeyFromObject(p.set)
	c.expectations.Expect(key, names...)
	outcomes := make(chan string, len(names))
	err := kube.ForEach(ctx, kube.MaxParallelism, names, func(ctx context.Context, name string) error {
		err := c.options.Client.Create(ctx, newRunner(p.set, name, p.specHash, proxySecret))
		switch {
		case err == nil || apierrors.IsAlreadyExists(err):
			return nil
		case refused(err) && slices.Contains(again, name):
			// The first try may have succeeded all the same, and be what fills the quota. The cache will show it, or not.
		case refused(err):
			c.expectations.Met(key, name)
		default:
			outcomes <- name
		}
		return fmt.Errorf("create runner %s: %w", name, err)
	})
	close(outcomes)
	for name := range outcomes {
		m.unanswered = append(m.unanswered, name)
	}
	return err
}

// namesInUse are those of the set's runners, seen or not yet.
func (c *Controller) namesInUse(p *pass) sets.Set[string] {
	used := sets.KeySet(c.expectations.Pending(client.ObjectKeyFromObject(p.set)))
	for _, r := range p.views {
		used.Insert(r.name)
	}
	return used
}

// withNew adds names until there are n. One that is used would pass for made, and while jobs end all the time nobody would see
// that a runner is missing.
func withNew(names []string, n int, used sets.Set[string], pick func() string) []string {
	used.Insert(names...)
	for len(names) < n {
		if name := pick(); !used.Has(name) {
			used.Insert(name)
			names = append(names, name)
		}
	}
	return names
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

// drop deletes runners. With unseenOnly a runner goes only if nobody wrote to it since it was seen, so one that got a
// job or a registration meanwhile stays.
func (c *Controller) drop(ctx context.Context, p *pass, runners []*runner, unseenOnly bool) error {
	now := c.options.Clock.Now()
	going := p.memory.notDropped(runners, now)
	done := make(chan types.UID, len(going))
	err := kube.ForEach(ctx, kube.MaxParallelism, going, func(ctx context.Context, r *runner) error {
		object := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Namespace: p.set.Namespace, Name: r.name, UID: r.uid}}
		only := kube.UIDPrecondition(object)
		if unseenOnly {
			only.ResourceVersion = ptr.To(r.version)
		}
		err := client.IgnoreNotFound(c.options.Client.Delete(ctx, object, only))
		if err == nil {
			done <- r.uid
		}
		if err = ignoreConflict(err); err != nil {
			return fmt.Errorf("delete runner %s: %w", r.name, err)
		}
		return nil
	})
	close(done)
	for uid := range done {
		p.memory.dropped[uid] = now
	}
	return err
}

// droppedAtMost is how long the cache may take to show that a runner was deleted.
const droppedAtMost = 30 * time.Second

// notDropped leaves out the runners that were deleted just now, which the cache may not show yet.
func (m *setMemory) notDropped(runners []*runner, now time.Time) []*runner {
	maps.DeleteFunc(m.dropped, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= droppedAtMost })
	var left []*runner
	for _, r := range runners {
		if _, dropped := m.dropped[r.uid]; !dropped {
			left = append(left, r)
		}
	}
	return left
}

// failExitedIdle gives runners that ended without a job the phase that makes them count as failures.
func (c *Controller) failExitedIdle(ctx context.Context, p *pass) error {
	return kube.ForEach(ctx, kube.MaxParallelism, p.plan.exitedIdle, func(ctx context.Context, r *runner) error {
		object := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Namespace: p.set.Namespace, Name: r.name}}
		before := object.DeepCopy()
		object.Status.Phase = v1alpha1.EphemeralRunnerPhaseFailed
		object.Status.Reason = v1alpha1.ReasonRunnerExitedWithoutJob
		object.Status.Message = "the runner container exited with code 0 before it got a job: check the image and its command"
		_, err := kube.PatchStatus(ctx, c.options.Client, object, before)
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
