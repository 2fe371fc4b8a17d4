// Package remains removes what a runner leaves behind and no owner collects: what container hooks created for its job,
// and the pod and Secret of a runner that doesn't exist.
package remains

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/apiaccess"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// Options are what a Remover needs from outside.
type Options struct {
	// Client reads from the manager's cache and writes to the API server. Reader reads from the API server.
	Client client.Client
	Reader client.Reader
	// DeleteSecret deletes the Secret that was the registration of the runner of that name, if there is one and it has
	// no owner.
	DeleteSecret func(context.Context, types.NamespacedName) error
	Recorder     events.EventRecorder
	Clock        clock.PassiveClock
}

// Remover removes remains. Safe for concurrent use.
type Remover struct {
	gone

	options Options
}

// New returns a Remover.
func New(options Options) *Remover { return &Remover{options: options} }

// Hooked remembers what has become of the objects that container hooks created for one runner's job.
type Hooked struct {
	deleted   bool
	refusedAt time.Time // when the API server first refused to delete them
}

// DeleteHooked deletes, a single time, the objects that container hooks created for the runner's job. None of them has
// an owner, so nothing else deletes them, and pods keep the runner's volume claim. As long as the runner container
// runs, its hooks may create more: call it after that. A refusal is believed only if it lasts; an Event then says what
// is left. Roles of earlier charts grant nothing on Jobs. That doesn't matter for a runner that had no job or has
// exited by itself: then no Job of its hooks still runs.
func (r *Remover) DeleteHooked(
	ctx context.Context, runner *v1alpha1.EphemeralRunner, exited bool, hooked *Hooked,
) error {
	hooks, uses := kube.RunnerEnv(&runner.Spec.PodSpec, kube.EnvContainerHooks)
	if hooked.deleted || !uses {
		return nil
	}
	err := errors.Join(r.deleteLabelled(ctx, runner, corev1.SchemeGroupVersion.WithKind("Pod")),
		r.deleteLabelled(ctx, runner, corev1.SchemeGroupVersion.WithKind("Secret")))
	// Hooks that share a volume with the runner may run a step in a container as a Job; those that copy files instead,
	// which GitHub's image has in k8s-novolume, don't. In their mode the manager has no rights on Jobs.
	if !strings.Contains(hooks, "novolume") {
		refused := r.deleteLabelled(ctx, runner, batchv1.SchemeGroupVersion.WithKind("Job"))
		if !apierrors.IsForbidden(refused) || (runner.Status.HadJob() && !exited) {
			err = errors.Join(err, refused)
		}
	}
	switch {
	case err == nil:
	case errors.Is(err, errTooManyLabelled):
		r.recordLeft(ctx, runner, err)
	case !apierrors.IsForbidden(err):
		return err
	default:
		now := r.options.Clock.Now()
		kube.SetIfZero(&hooked.refusedAt, now)
		if apiaccess.MayPass(err, hooked.refusedAt, now) {
			return err
		}
		r.recordLeft(ctx, runner, err)
	}
	hooked.deleted = true
	return nil
}

// recordLeft names what nobody will delete, and how to find it. The API server's words come last because they may be
// long.
func (r *Remover) recordLeft(ctx context.Context, runner *v1alpha1.EphemeralRunner, refusal error) {
	report.RecordEvent(ctx, r.options.Recorder, runner, nil, report.Warning("HookResourcesLeft", "Delete", fmt.Sprintf(
		"pods, Jobs and Secrets that container hooks created for the runner's job may be left, and may keep "+
			"its volume claim: delete those labelled %s=%s; the manager needs the rights that the scale set's chart "+
			"grants it: %v",
		v1alpha1.LabelRunnerPod, runner.Name, refusal)))
}

// A job has a handful of pods, Jobs and Secrets, but a workflow may label what it likes: of each kind, at most
// labelledPages pages of labelledPage objects are read and deleted, labelledAtOnce at a time.
const (
	labelledPage   = 100
	labelledPages  = 10
	labelledAtOnce = 10
)

var errTooManyLabelled = fmt.Errorf("there are more than %d of one kind", labelledPage*labelledPages)

// deleteLabelled deletes the objects of one kind that carry the runner's name as a label, and what they own: a Job's
// pod has no such label. It fails with errTooManyLabelled if some are left because there are too many.
func (r *Remover) deleteLabelled(
	ctx context.Context, runner *v1alpha1.EphemeralRunner, kind schema.GroupVersionKind,
) error {
	list := &metav1.PartialObjectMetadataList{}
	for range labelledPages {
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := r.options.Reader.List(ctx, list, client.InNamespace(runner.Namespace),
			client.MatchingLabels{v1alpha1.LabelRunnerPod: runner.Name},
			client.Limit(labelledPage), client.Continue(list.Continue)); err != nil {
			return fmt.Errorf("list what container hooks made: %w", err)
		}
		if err := kube.ForEach(ctx, labelledAtOnce, list.Items,
			func(ctx context.Context, found metav1.PartialObjectMetadata) error {
				found.SetGroupVersionKind(kind)
				if kind.Kind == "Pod" {
					return r.deletePod(ctx, &found, rules.SidecarSeconds(&runner.Spec.RunnerTimeouts))
				}
				err := r.options.Client.Delete(ctx, &found,
					client.PropagationPolicy(metav1.DeletePropagationBackground))
				return client.IgnoreNotFound(err)
			}); err != nil {
			return fmt.Errorf("delete what container hooks made: %w", err)
		}
		if list.Continue == "" {
			return nil
		}
	}
	return errTooManyLabelled
}

// deletePod deletes a pod of container hooks, which gets its own grace period, and limit seconds at most: its runner has
// ended, and what runs in it may ignore SIGTERM. A grace period that is given with a deletion would also replace a
// shorter one; given to a pod that is being deleted, it only shortens.
func (r *Remover) deletePod(ctx context.Context, pod *metav1.PartialObjectMetadata, limit int64) error {
	if pod.DeletionTimestamp == nil {
		if err := r.options.Client.Delete(ctx, pod); err != nil {
			return client.IgnoreNotFound(err)
		}
	} else if ptr.Deref(pod.DeletionGracePeriodSeconds, 0) <= limit {
		return nil
	}
	return client.IgnoreNotFound(r.options.Client.Delete(ctx, pod, client.GracePeriodSeconds(limit)))
}
