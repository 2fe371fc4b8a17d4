package podtemplate

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/internal/podtrial"
)

var devices = schema.GroupVersion{Group: "resource.k8s.io", Version: "v1"}

// tryClaims sends the ResourceClaims that Kubernetes would make for a runner's pod as dry runs: a pod whose claim is
// refused waits for ever, and no answer about the pod shows it. A template that isn't there may come later, and one that
// can't be read tells nothing; so it is with Kubernetes before 1.34, which has other versions of these kinds.
func (t *Trials) tryClaims(ctx context.Context, pod *corev1.Pod) error {
	for _, wanted := range pod.Spec.ResourceClaims {
		if wanted.ResourceClaimTemplateName == nil {
			continue
		}
		template := &unstructured.Unstructured{}
		template.SetGroupVersionKind(devices.WithKind("ResourceClaimTemplate"))
		name := types.NamespacedName{Namespace: pod.Namespace, Name: *wanted.ResourceClaimTemplateName}
		switch err := t.reader.Get(ctx, name, template); {
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
			continue
		case err != nil:
			return fmt.Errorf("read ResourceClaimTemplate %s: %w", name.Name, err)
		}
		if err := t.send(ctx, podtrial.ResourceClaim(template, pod.Namespace, pod.Name)); err != nil {
			return fmt.Errorf("the pod's ResourceClaim %s: %w", wanted.Name, err)
		}
	}
	return nil
}
