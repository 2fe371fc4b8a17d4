package check

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/internal/podtrial"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// claims tries the volume claims that runners get, and looks for their StorageClasses.
func (x *examination) claims(ctx context.Context) {
	wanted := volumeclaims.NewClaims(&x.set.Spec)
	for _, volume := range slices.Sorted(maps.Keys(wanted)) {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: x.in, Name: "check"},
			Spec: *wanted[volume].DeepCopy()}
		x.add(judged(Line{Check: "claim", Object: "the claim of volume " + volume},
			x.cluster.Create(ctx, claim, client.DryRunAll)))
	}
	if len(wanted) == 0 {
		return
	}
	classes := &metav1.PartialObjectMetadataList{}
	classes.SetGroupVersionKind(schema.GroupVersionKind{Group: "storage.k8s.io", Version: "v1", Kind: "StorageClassList"})
	if err := x.cluster.List(ctx, classes); err != nil {
		x.add(Line{Check: "claim", Status: Unknown, Object: "StorageClasses",
			Message: fmt.Sprintf("whether they exist is not known: %v", err)})
		return
	}
	row := meaning.For(v1alpha1.ReasonVolumeUnbound)
	for _, missing := range volumeclaims.WithoutClass(&x.set.Spec, classes.Items) {
		x.add(Line{Check: "claim", Status: Problem, Reason: row.Reason, Message: missing, Fix: row.Advice,
			Whose: row.Actor.String()})
	}
}

const dynamicResources = "resource.k8s.io"

// resourceClaims tries the claims of devices that Kubernetes would make for a runner's pod, and looks for those that the
// pod names, and for their classes.
func (x *examination) resourceClaims(ctx context.Context) {
	for _, wanted := range x.set.Spec.Template.Spec.ResourceClaims {
		line := Line{Check: "claim", Object: "the ResourceClaim " + wanted.Name, Reason: "ResourceClaim",
			Whose: meaning.User.String()}
		if name := wanted.ResourceClaimName; name != nil {
			_, line = x.look(ctx, line, "ResourceClaim", x.Namespace, *name)
			if line.Status == OK {
				line.Status, line.Message = Warning, "all runners share it: no more of them run at a time than may use it"
				line.Fix = "name a ResourceClaimTemplate instead, so that each runner gets a claim of its own"
			}
			x.add(line)
			continue
		}
		if wanted.ResourceClaimTemplateName == nil {
			continue
		}
		template, line := x.look(ctx, line, "ResourceClaimTemplate", x.Namespace, *wanted.ResourceClaimTemplateName)
		if line.Status != OK {
			x.add(line)
			continue
		}
		claim := podtrial.ResourceClaim(template, x.in, "check")
		classes := deviceClasses(claim)
		line.Reason = ""
		x.add(judged(line, x.cluster.Create(ctx, claim, client.DryRunAll)))
		for _, class := range classes {
			_, line := x.look(ctx, Line{Check: "claim", Object: "DeviceClass " + class, Reason: "DeviceClass",
				Whose: meaning.Administrator.String()}, "DeviceClass", "", class)
			x.add(line)
		}
	}
}

// deviceClasses returns the classes of the devices that a claim asks for.
func deviceClasses(claim *unstructured.Unstructured) (classes []string) {
	requests, _, _ := unstructured.NestedSlice(claim.Object, "spec", "devices", "requests")
	for _, entry := range requests {
		request, _ := entry.(map[string]any)
		for _, at := range [][]string{{"deviceClassName"}, {"exactly", "deviceClassName"}} {
			if class, _, _ := unstructured.NestedString(request, at...); class != "" {
				classes = append(classes, class)
			}
		}
	}
	return classes
}

// look reads an object of dynamic resource allocation, in the version that the cluster prefers.
func (x *examination) look(ctx context.Context, line Line, kind, namespace, name string) (*unstructured.Unstructured, Line) {
	object := &unstructured.Unstructured{}
	mapping, err := x.cluster.RESTMapper().RESTMapping(schema.GroupKind{Group: dynamicResources, Kind: kind})
	if err == nil {
		object.SetGroupVersionKind(mapping.GroupVersionKind)
		err = x.cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
	}
	switch {
	case err == nil:
		line.Status, line.Reason, line.Message = OK, "", "it is there"
	case meta.IsNoMatchError(err):
		line.Status, line.Message = Problem, "the cluster has no kind "+kind+" of "+dynamicResources
		line.Whose, line.Fix = meaning.Administrator.String(), "use a cluster with dynamic resource allocation"
	case apierrors.IsNotFound(err):
		line.Status, line.Message = Problem, fmt.Sprintf("there is no %s %s", kind, strings.TrimPrefix(namespace+"/"+name, "/"))
		line.Fix = "create it, or correct the name"
	default:
		line.Status, line.Message = Unknown, err.Error()
	}
	return object, line
}
