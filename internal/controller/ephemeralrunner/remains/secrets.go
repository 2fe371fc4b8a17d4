package remains

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

const (
	// A Secret that nothing leads to goes within the hour: there is no watch of Secrets, so they are listed.
	secretsPeriod = 50 * time.Minute
	// Of one namespace so many are looked at in a period, so that nobody's Secrets occupy the controller: each costs a
	// read of the API server.
	mostSecrets = 100
)

// RunSecrets looks for Secrets of runners that don't exist, until the context ends, and calls found with each, after
// which a pass for the runner of that name removes it. A backup may have brought back the Secret alone. It looks in the
// namespaces in which it has once found a scale set. It doesn't know any other, and without a scale set there is usually
// no Role that lets the manager list Secrets: the doctor names what is left there.
func (r *Remover) RunSecrets(ctx context.Context, found func(client.Object)) {
	known := sets.New[string]()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(secretsPeriod):
		}
		if err := r.findSecrets(ctx, known, found); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Can't look for Secrets that restored runners have left")
		}
	}
}

// findSecrets looks once, and adds to known the namespaces that have a scale set. One namespace that can't be looked at
// keeps nobody from the others; the error names each.
func (r *Remover) findSecrets(ctx context.Context, known sets.Set[string], found func(client.Object)) error {
	var scaleSets v1alpha1.AutoscalingRunnerSetList
	if err := r.options.Client.List(ctx, &scaleSets, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list AutoscalingRunnerSets: %w", err)
	}
	for i := range scaleSets.Items {
		known.Insert(scaleSets.Items[i].Namespace)
	}
	var failed []error
	for _, namespace := range sets.List(known) {
		secrets, err := kube.ListMetadataOf(ctx, r.options.Reader, corev1.SchemeGroupVersion.WithKind("Secret"),
			client.InNamespace(namespace), client.HasLabels{v1alpha1.LabelScaleSetName})
		switch {
		case apierrors.IsForbidden(err):
			continue // the Role went with the last scale set, and may be restored without one
		case err != nil:
			failed = append(failed, fmt.Errorf("namespace %s: %w", namespace, err))
			continue
		}
		left := 0
		for i := range secrets {
			if secret := &secrets[i]; left < mostSecrets && r.mayBeLeft(ctx, secret) {
				left++
				r.RememberVanished(client.ObjectKeyFromObject(secret))
				found(secret)
			}
		}
	}
	return errors.Join(failed...)
}

// mayBeLeft reports whether a Secret has no owner, and no runner has its name, as far as its metadata and the cache
// tell. Whether it is a runner's at all its data tell.
func (r *Remover) mayBeLeft(ctx context.Context, secret *metav1.PartialObjectMetadata) bool {
	if metav1.GetControllerOfNoCopy(secret) != nil || secret.DeletionTimestamp != nil {
		return false
	}
	runner := &v1alpha1.EphemeralRunner{}
	err := r.options.Client.Get(ctx, client.ObjectKeyFromObject(secret), runner, client.UnsafeDisableDeepCopy)
	return apierrors.IsNotFound(err)
}
