package ephemeralrunnerset_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// shownCache is the cache that the manager reads from. It may show another state of the set, or none.
type shownCache struct {
	client.WithWatch
	set  *v1alpha1.EphemeralRunnerSet
	gone bool
}

func (c *shownCache) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	set, ok := object.(*v1alpha1.EphemeralRunnerSet)
	if ok {
		controllertest.AwaitTurn(ctx, key)
	}
	switch {
	case ok && c.gone:
		return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("ephemeralrunnersets").GroupResource(), key.Name)
	case ok && c.set != nil:
		c.set.DeepCopyInto(set)
		return nil
	}
	return c.WithWatch.Get(ctx, key, object, options...)
}

// interceptors returns functions that count requests, make them fail, and set the fields that a real API server sets in
// new objects.
func (f *fixture) interceptors() interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption,
		) error {
			origin, ok := object.(*v1alpha1.AutoscalingRunnerSet)
			if !ok || f.ownOrigin {
				return c.Get(ctx, key, object, options...)
			}
			set := &v1alpha1.EphemeralRunnerSet{}
			if err := c.Get(ctx, setKey, set); err != nil {
				return err
			}
			*origin = *controllertest.Origin(set)
			return nil
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if _, ok := object.(*eventsv1.Event); ok && f.killed {
				return errors.New("killed")
			}
			f.count("create")
			<-time.After(f.slow)
			object.SetUID(uuid.NewUUID())
			object.SetCreationTimestamp(metav1.Now())
			refuse := f.refusal()
			if refuse != nil && !f.made {
				return refuse
			}
			return errors.Join(c.Create(ctx, object, options...), refuse)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, ok := list.(*metav1.PartialObjectMetadataList); ok {
				f.count("list")
				if f.refuseList != nil {
					return f.refuseList
				}
			}
			return c.List(ctx, list, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			if _, ok := object.(*corev1.Secret); ok {
				f.count("delete secret")
				if f.refuseDrop != nil {
					return f.refuseDrop
				}
				return c.Delete(ctx, object, options...)
			}
			f.count("delete")
			return c.Delete(ctx, object, options...)
		},
		SubResourcePatch: func(
			ctx context.Context, c client.Client, resource string, object client.Object, patch client.Patch,
			options ...client.SubResourcePatchOption,
		) error {
			f.count(fmt.Sprintf("patch %s %T", resource, object))
			return c.SubResource(resource).Patch(ctx, object, patch, options...)
		},
	}
}
