package kube_test

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/testkube"
)

func TestMain(m *testing.M) {
	os.Exit(testkube.Main(m, testkube.Options{AddToScheme: []func(*runtime.Scheme) error{v1alpha1.AddToScheme}}))
}

// TestLastFieldOfAMapGoes: whatever map loses all of its fields, what else changed is applied, and the next passes find
// nothing to do.
func TestLastFieldOfAMapGoes(t *testing.T) {
	cluster := testkube.Shared(t)
	full := v1alpha1.EphemeralRunnerSetSpec{
		EphemeralRunnerMetadata: &v1alpha1.ResourceMeta{Labels: map[string]string{"a": "b"}},
		EphemeralRunnerSpec: v1alpha1.EphemeralRunnerSpec{
			PodMetadata: metav1.ObjectMeta{
				Labels:      map[string]string{"team": "a"},
				Annotations: map[string]string{"c": "d"},
			},
			Proxy: &v1alpha1.ProxyConfig{HTTPS: &v1alpha1.ProxyServerConfig{Url: "http://proxy"}},
			PodSpec: corev1.PodSpec{
				SecurityContext: &corev1.PodSecurityContext{RunAsUser: new(int64(1))},
				Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "zone"}},
				}},
			},
		},
	}
	for name, empty := range map[string]func(*v1alpha1.EphemeralRunnerSetSpec){
		"metadata of the pod": func(s *v1alpha1.EphemeralRunnerSetSpec) {
			s.EphemeralRunnerSpec.PodMetadata = metav1.ObjectMeta{}
		},
		"labels of the pod": func(s *v1alpha1.EphemeralRunnerSetSpec) {
			s.EphemeralRunnerSpec.PodMetadata.Labels = nil
		},
		"metadata of the runner": func(s *v1alpha1.EphemeralRunnerSetSpec) {
			s.EphemeralRunnerMetadata = &v1alpha1.ResourceMeta{}
		},
		"proxy": func(s *v1alpha1.EphemeralRunnerSetSpec) { s.EphemeralRunnerSpec.Proxy = &v1alpha1.ProxyConfig{} },
		"security context": func(s *v1alpha1.EphemeralRunnerSetSpec) {
			s.EphemeralRunnerSpec.PodSpec.SecurityContext = &corev1.PodSecurityContext{}
		},
		"affinity within affinity": func(s *v1alpha1.EphemeralRunnerSetSpec) {
			s.EphemeralRunnerSpec.PodSpec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			set := applied{
				T:      t,
				client: cluster.Client(),
				key:    client.ObjectKey{Namespace: cluster.NewNamespace(t), Name: "set"},
			}
			set.apply(full)
			wanted := *full.DeepCopy()
			empty(&wanted)
			wanted.EphemeralRunnerSpec.PodSpec.Hostname = "new"
			set.apply(wanted)
			if got := set.live().Spec.EphemeralRunnerSpec.PodSpec.Hostname; got != "new" {
				t.Errorf("hostname = %q: what else changed was not applied", got)
			}
			set.apply(wanted) // {} where the first left nothing
			if set.apply(wanted) {
				t.Error("applied without end")
			}
			if got, want := kube.Hash(set.live().Spec), kube.Hash(wanted); got != want {
				t.Errorf("spec = %+v, want %+v", set.live().Spec, wanted)
			}
		})
	}
}

// applied is an object that is applied again and again.
type applied struct {
	*testing.T
	client client.Client
	key    client.ObjectKey
}

func (a applied) live() *v1alpha1.EphemeralRunnerSet {
	a.Helper()
	live := &v1alpha1.EphemeralRunnerSet{}
	err := a.client.Get(a.Context(), a.key, live)
	if client.IgnoreNotFound(err) != nil {
		a.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return live
}

// apply reports whether it wrote.
func (a applied) apply(spec v1alpha1.EphemeralRunnerSetSpec) bool {
	a.Helper()
	wanted := &v1alpha1.EphemeralRunnerSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.key.Namespace, Name: a.key.Name},
		Spec:       spec,
	}
	var before client.Object
	if live := a.live(); live != nil {
		before = live
	}
	wrote, err := kube.Apply(a.Context(), a.client, wanted, before)
	if err != nil {
		a.Fatal(err)
	}
	return wrote
}

// Create never takes over what exists, leaves nothing behind that a later apply would not remove, and is completed by
// an apply if it was interrupted.
func TestCreateTakesNothingOver(t *testing.T) {
	cluster := testkube.Shared(t)
	set := applied{
		T:      t,
		client: cluster.Client(),
		key:    client.ObjectKey{Namespace: cluster.NewNamespace(t), Name: "set"},
	}
	object := func(labels map[string]string) *v1alpha1.EphemeralRunnerSet {
		return &v1alpha1.EphemeralRunnerSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: set.key.Namespace,
			Name:      set.key.Name,
			Labels:    labels,
		}}
	}
	bare := func() *v1alpha1.EphemeralRunnerSet { return object(map[string]string{"identity": "set"}) }
	if err := kube.Create(t.Context(), set.client, bare(), object(map[string]string{
		"identity": "set",
		"team":     "a",
	})); err != nil {
		t.Fatal(err)
	}
	if got := set.live().Labels; got["team"] != "a" || got["identity"] != "set" {
		t.Errorf("labels %v", got)
	}
	before := set.live()
	if err := kube.Create(t.Context(), set.client, bare(), object(map[string]string{
		"team": "b",
	})); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a second time: %v", err)
	}
	if now := set.live(); now.ResourceVersion != before.ResourceVersion {
		t.Errorf("what exists was changed: %v", now.Labels)
	}
	if _, err := kube.Apply(t.Context(), set.client, bare(), before); err != nil {
		t.Fatal(err)
	}
	if got := set.live().Labels; len(got) != 1 {
		t.Errorf("labels %v, want the one that is still wanted", got)
	}
}

// An object that has taken the name since the cache saw it is somebody else's.
func TestApplyWritesTheObjectThatWasSeen(t *testing.T) {
	cluster := testkube.Shared(t)
	set := applied{
		T:      t,
		client: cluster.Client(),
		key:    client.ObjectKey{Namespace: cluster.NewNamespace(t), Name: "set"},
	}
	set.apply(v1alpha1.EphemeralRunnerSetSpec{})
	seen := set.live()
	wanted := func() *v1alpha1.EphemeralRunnerSet {
		return &v1alpha1.EphemeralRunnerSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: set.key.Namespace,
			Name:      set.key.Name,
			Labels:    map[string]string{"a": "b"},
		}}
	}
	if err := set.client.Delete(t.Context(), seen); err != nil {
		t.Fatal(err)
	}
	if _, err := kube.Apply(t.Context(), set.client, wanted(), seen); !kube.IsBehind(err) || set.live() != nil {
		t.Errorf("the object is gone: %v", err)
	}
	set.apply(v1alpha1.EphemeralRunnerSetSpec{})
	if _, err := kube.Apply(
		t.Context(), set.client, wanted(), seen,
	); !kube.IsBehind(err) || len(set.live().Labels) > 0 {
		t.Errorf("another object has the name: %v", err)
	}
}

// What was forgotten is not kept any more: not by whoever writes the status of a pod all the time, either.
func TestPodsWithoutARecordGetNoNewOne(t *testing.T) {
	cluster := testkube.Shared(t)
	c := cluster.Client()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.NewNamespace(t), Name: "pod"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "runner", Image: "runner"}}},
	}
	if err := c.Create(t.Context(), pod); err != nil || len(pod.ManagedFields) == 0 {
		t.Fatalf("Create() = %v, managed fields %v", err, pod.ManagedFields)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]any{"a": "b"}, "managedFields": kube.ClearedManagedFields(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		c.Patch(t.Context(), pod, client.RawPatch(types.MergePatchType, patch)),
		c.Status().Patch(
			t.Context(), pod, client.RawPatch(types.StrategicMergePatchType, []byte(`{"status":{"message":"runs"}}`)),
		),
	)
	if err != nil || len(pod.ManagedFields) > 0 || pod.Annotations["a"] != "b" || pod.Status.Message != "runs" {
		t.Errorf(
			"error %v, managed fields %v, annotations %v, status %+v",
			err, pod.ManagedFields, pod.Annotations, pod.Status,
		)
	}
}
