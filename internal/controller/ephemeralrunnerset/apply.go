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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// apply carries out the plan: questions to GitHub first, which are only queued, then writes to the API server, in parallel.
func (c *Controller) apply(ctx context.Context, p *pass) error {
	s := p.state
	asked := c.questions.ask(p.set, s.history, p.plan)
	unregistered := s.withoutRecentlyDeleted(p.plan.deleteUnregistered, c.options.Clock.Now())
	s.createWanted = p.plan.repeat+p.plan.create > 0
	create := s.createLimit(p.plan)
	if create > 0 || len(unregistered) > 0 || asked > 0 {
		log.FromContext(ctx).Info("Scaling runners", "create", create, "drop", len(unregistered), "askToRemove", asked)
	}
	return errors.Join(
		c.failExitedIdle(ctx, p),
		c.deleteRunners(ctx, p, p.plan.delete),
		c.deleteUnchangedRunners(ctx, p, unregistered),
		c.create(ctx, p, create),
		c.dropProxySecret(ctx, p),
	)
}

const (
	// firstCreatePause is the pause after a failed creation. It doubles with every further one in a row, up to
	// longestCreatePause, so that what refuses (a quota, a webhook) is not asked again at every event of a runner.
	firstCreatePause   = time.Second
	longestCreatePause = time.Minute
	// longestAwayPause takes the place of longestCreatePause while the API server gives no answer, or only an error of its
	// own: its return has to be noticed within seconds, because jobs wait.
	longestAwayPause = 10 * time.Second
)

// createLimit returns how many runners to create now of those that are planned.
func (h *history) createLimit(p *plan) int {
	if !h.mayCreate() {
		return 0
	}
	return p.repeat + p.create
}

// create creates n runners. Where n is 0 it restores the proxy Secret, which runners that are starting need as well.
// After an error the next creation waits, longer after each error in a row.
func (c *Controller) create(ctx context.Context, p *pass, n int) error {
	if n == 0 {
		return c.restoreProxySecret(ctx, p)
	}
	s := p.state
	proxySecret, err := c.ensureProxySecret(ctx, p)
	if err == nil {
		err = c.createRunners(ctx, p, n, proxySecret)
	}
	if err == nil {
		s.createFailures, s.createError = 0, nil
		return nil
	}
	s.namespaceTerminating = apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
	if s.namespaceTerminating {
		log.FromContext(ctx).Info("The namespace is being deleted: no more runners are made in it")
		return nil
	}
	s.createFailures, s.createError = s.createFailures+1, err
	longest := longestCreatePause
	if len(s.unanswered) > 0 {
		longest = longestAwayPause
	}
	s.createAt = c.options.Clock.Now().Add(kube.ExponentialBackoff(firstCreatePause, longest, s.createFailures))
	return err
}

// createRunners creates n runners under names chosen here. The names whose creation had no answer, and that the plan repeats,
// are tried again before new ones are chosen: whichever try succeeds, there is one runner.
func (c *Controller) createRunners(ctx context.Context, p *pass, n int, proxySecret string) error {
	s := p.state
	names, retried := s.unanswered, slices.Clone(s.unanswered)
	s.unanswered = nil
	names = withNew(names, n, c.namesInUse(p), func() string { return kube.RunnerName(p.set.Name) })
	key := client.ObjectKeyFromObject(p.set)
	c.expectations.Expect(key, names...)
	outcomes := make(chan string, len(names))
	err := kube.ForEach(ctx, kube.MaxParallelism, names, func(ctx context.Context, name string) error {
		err := c.options.Client.Create(ctx, newRunner(p.set, name, p.specHash, proxySecret))
		switch {
		case err == nil || apierrors.IsAlreadyExists(err):
			return nil
		case refused(err) && slices.Contains(retried, name):
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
		s.unanswered = append(s.unanswered, name)
	}
	return err
}

// namesInUse returns the names of the set's runners: those in p.views and those that are expected.
func (c *Controller) namesInUse(p *pass) sets.Set[string] {
	used := sets.KeySet(c.expectations.Pending(client.ObjectKeyFromObject(p.set)))
	for _, r := range p.views {
		used.Insert(r.name)
	}
	return used
}

// withNew adds names from pick until there are n, none of them in use: a creation under a name that is in use is answered
// with AlreadyExists, which counts as success, and while jobs end all the time nothing would show that a runner is missing.
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

// refused reports whether err is the API server's answer that it did not create the object. After any other error the
// object may exist.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout
}

// deleteRunners deletes runners.
func (c *Controller) deleteRunners(ctx context.Context, p *pass, runners []*runnerView) error {
	return c.deleteEach(ctx, p, runners, func(*runnerView) *string { return nil })
}

// deleteUnchangedRunners deletes runners to which nobody has written since they were seen: one that got a registration or a job
// in the meantime stays.
func (c *Controller) deleteUnchangedRunners(ctx context.Context, p *pass, runners []*runnerView) error {
	return c.deleteEach(ctx, p, runners, func(r *runnerView) *string { return new(r.resourceVersion) })
}

// deleteEach deletes runners, each on condition that it has the resourceVersion given for it; nil is any.
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
		if err = ignoreConflict(err); err != nil {
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

// failExitedIdle sets the phase of runners that exited without a job to Failed, so that they count as failures. Conditions and
// Event follow from the runner's own controller: this patch would replace its whole list of conditions.
func (c *Controller) failExitedIdle(ctx context.Context, p *pass) error {
	return kube.ForEach(ctx, kube.MaxParallelism, p.plan.exitedIdle, func(ctx context.Context, r *runnerView) error {
		object := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Namespace: p.set.Namespace, Name: r.name}}
		before := object.DeepCopy()
		object.Status.Phase = v1alpha1.EphemeralRunnerPhaseFailed
		object.Status.Reason = v1alpha1.ReasonRunnerExitedWithoutJob
		object.Status.Message = exitedIdleMessage(p.state.historyOf(r))
		_, err := kube.PatchStatus(ctx, c.options.Client, object, before)
		return client.IgnoreNotFound(err)
	})
}

func exitedIdleMessage(past *runnerHistory) string {
	if past.recordKept() {
		return "the runner container exited with code 0 before it got a job: check the image and its command"
	}
	return "the runner container exited with code 0, and neither a report nor GitHub says that it had a job: check the image and its command"
}

// newRunner returns the runner to create. It has its finalizer from the start, so that no pass can miss its deletion.
func newRunner(set *v1alpha1.EphemeralRunnerSet, name, specHash, proxySecret string) *v1alpha1.EphemeralRunner {
	labels, annotations := kube.Metadata(set.Spec.EphemeralRunnerMetadata)
	runner := &v1alpha1.EphemeralRunner{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: name,
			Finalizers:      []string{v1alpha1.FinalizerEphemeralRunner},
			OwnerReferences: ownedBy(set),
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

// ownedBy returns the owner references of what is made for the set.
func ownedBy(set *v1alpha1.EphemeralRunnerSet) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.GroupVersion.WithKind("EphemeralRunnerSet"))}
}
