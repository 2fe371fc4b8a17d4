package rig

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// telling are the kinds of objects that must not reveal a secret to those who may read them.
var telling = []schema.GroupVersionKind{
	corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithKind("Secret"),
	corev1.SchemeGroupVersion.WithKind("ConfigMap"),
	corev1.SchemeGroupVersion.WithKind("Event"), eventsv1.SchemeGroupVersion.WithKind("Event"),
	v1alpha1.GroupVersion.WithKind("AutoscalingRunnerSet"), v1alpha1.GroupVersion.WithKind("AutoscalingListener"),
	v1alpha1.GroupVersion.WithKind("EphemeralRunnerSet"), v1alpha1.GroupVersion.WithKind("EphemeralRunner"),
}

// Sightings lists where a secret text can be read, as it is or in base64: in objects of both namespaces and in the
// programs' logs. Helm's record of a release is compressed and is not searched.
func (r *Rig) Sightings(ctx context.Context, text string) ([]string, error) {
	var seen []string
	for _, namespace := range []string{r.SystemNamespace, r.RunnerNamespace} {
		for _, kind := range telling {
			found, err := r.sightings(ctx, kind, namespace, text)
			if err != nil {
				return nil, err
			}
			seen = append(seen, found...)
		}
	}
	for program, log := range map[string]string{"manager": r.ManagerLog(), "listener": r.ListenerLog()} {
		if strings.Contains(log, text) {
			seen = append(seen, "log of the "+program)
		}
	}
	return seen, nil
}

func (r *Rig) sightings(ctx context.Context, kind schema.GroupVersionKind, namespace, text string) ([]string, error) {
	var objects unstructured.UnstructuredList
	objects.SetGroupVersionKind(kind)
	if err := r.Cluster.Client().List(ctx, &objects, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list %s of %s: %w", kind.Kind, namespace, err)
	}
	var seen []string
	for i := range objects.Items {
		content, err := json.Marshal(objects.Items[i].Object)
		if err != nil {
			return nil, fmt.Errorf("encode %s %s: %w", kind.Kind, objects.Items[i].GetName(), err)
		}
		if reveals(string(content), text) {
			seen = append(seen, kind.Kind+" "+objects.Items[i].GetName())
		}
	}
	return seen, nil
}

// reveals looks for the text as it is and as base64 at every alignment of its first byte.
func reveals(content, text string) bool {
	if strings.Contains(content, text) {
		return true
	}
	for offset := range 3 {
		encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(" ", offset) + text))
		// The first and last characters also depend on what precedes and follows the text.
		if strings.Contains(content, encoded[4:len(encoded)-4]) {
			return true
		}
	}
	return false
}

// Reveals reports whether a content has the text, as it is or in base64.
func Reveals(content, text string) bool { return reveals(content, text) }
