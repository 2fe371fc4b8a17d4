package kube

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// What the server adds, its creation time above all, is no reason to write again; a lost field or a new wish is.
func TestApplyWritesOnlyWhatChanged(t *testing.T) {
	wanted := func() *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c", Labels: map[string]string{"a": "b"}},
			Data:       map[string]string{"k": "v"},
		}
	}
	for name, test := range map[string]struct {
		live   func(*corev1.ConfigMap) *corev1.ConfigMap
		writes bool
	}{
		"absent":            {func(*corev1.ConfigMap) *corev1.ConfigMap { return nil }, true},
		"as the server has": {func(c *corev1.ConfigMap) *corev1.ConfigMap { return c }, false},
		"others added":      {func(c *corev1.ConfigMap) *corev1.ConfigMap { c.Labels["other"] = "x"; return c }, false},
		"a field was lost":  {func(c *corev1.ConfigMap) *corev1.ConfigMap { c.Data = nil; return c }, true},
		"made for another wish": {func(c *corev1.ConfigMap) *corev1.ConfigMap {
			SetAnnotation(c, v1alpha1.AnnotationIntegrityHash, "other")
			return c
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			served := wanted()
			SetAnnotation(served, v1alpha1.AnnotationIntegrityHash, Hash(wanted()))
			served.UID, served.ResourceVersion, served.CreationTimestamp = "u", "1", metav1.NewTime(time.Unix(1, 0))
			var live client.Object
			if object := test.live(served); object != nil {
				live = object
			}
			written := false
			c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
					written = true
					return nil
				},
			}).Build()
			applied, err := Apply(t.Context(), c, wanted(), live)
			if err != nil {
				t.Fatal(err)
			}
			if applied != test.writes || written != test.writes {
				t.Errorf("applied %t, written %t, want %t", applied, written, test.writes)
			}
		})
	}
}
