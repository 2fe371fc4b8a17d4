package admission

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
)

// newClaimTemplate returns a template that is accepted.
func newClaimTemplate(name string) v1alpha1.VolumeClaimTemplate {
	return v1alpha1.VolumeClaimTemplate{
		Metadata: v1alpha1.VolumeClaimTemplateMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: resource.MustParse("10Gi"),
			}},
		},
	}
}

// refused is a mistake in the claims of a set, with the field and the cause that the API server names.
type refused struct {
	spoil func(*v1alpha1.AutoscalingRunnerSetSpec)
	field string
	cause string
}

func first(s *v1alpha1.AutoscalingRunnerSetSpec) *v1alpha1.VolumeClaimTemplate {
	return &s.VolumeClaimTemplates[0]
}

// checkRefused fails the test unless the API server refuses each mistake, with its field and cause.
func checkRefused(t *testing.T, mistakes map[string]refused) {
	t.Helper()
	cluster := testkube.Shared(t)
	namespace := cluster.NewNamespace(t)
	for name, test := range mistakes {
		t.Run(name, func(t *testing.T) {
			set := newSet(namespace)
			set.Spec.VolumeClaimTemplates = []v1alpha1.VolumeClaimTemplate{newClaimTemplate("docker")}
			set.Spec.VolumeClaimPool = &v1alpha1.VolumeClaimPool{}
			test.spoil(&set.Spec)
			err := cluster.Client().Create(t.Context(), set)
			if err == nil || !strings.Contains(err.Error(), test.field) || !strings.Contains(err.Error(), test.cause) {
				t.Errorf("error %v, want one that names %s and says %q", err, test.field, test.cause)
			}
		})
	}
}

func TestClaimsThatCannotWorkAreRefusedWithFieldAndCause(t *testing.T) {
	checkRefused(t, map[string]refused{
		"no name": {func(s *v1alpha1.AutoscalingRunnerSetSpec) { first(s).Metadata.Name = "" },
			"spec.volumeClaimTemplates[0].metadata.name", "at least 1"},
		"a name that no volume can have": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			first(s).Metadata.Name = "Docker.Layers"
		},
			"spec.volumeClaimTemplates[0].metadata.name", "match"},
		"a name used twice": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.VolumeClaimTemplates = append(s.VolumeClaimTemplates, newClaimTemplate("go"), newClaimTemplate("docker"))
		}, "spec.volumeClaimTemplates", "only once"},
		"no size": {func(s *v1alpha1.AutoscalingRunnerSetSpec) { first(s).Spec.Resources.Requests = nil },
			"spec.volumeClaimTemplates[0].spec.resources", "requests.storage, the size, is required"},
		"no access mode": {func(s *v1alpha1.AutoscalingRunnerSetSpec) { first(s).Spec.AccessModes = nil },
			"spec.volumeClaimTemplates[0].spec.accessModes", "is required"},
		"one volume for all": {func(s *v1alpha1.AutoscalingRunnerSetSpec) { first(s).Spec.VolumeName = "disk" },
			"spec.volumeClaimTemplates[0].spec.volumeName", "a volume of its own"},
		"too many templates": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			for i := range 16 {
				s.VolumeClaimTemplates = append(s.VolumeClaimTemplates, newClaimTemplate(fmt.Sprint("more-", i)))
			}
		}, "spec.volumeClaimTemplates", "at most 16"},
		"no claim at all": {func(s *v1alpha1.AutoscalingRunnerSetSpec) { s.VolumeClaimPool.Max = new(0) }, "spec.volumeClaimPool.max", "greater than or equal to 1"},
		"an unknown answer to exhaustion": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.VolumeClaimPool.WhenExhausted = "Fail"
		},
			"spec.volumeClaimPool.whenExhausted", `"Ephemeral"`},
		"a time for more than ever": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.VolumeClaimPool.IdleTTL = &metav1.Duration{Duration: 100_000 * time.Hour}
		}, "spec.volumeClaimPool.idleTTL", "at most 87600h"},
		"an age below zero": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.VolumeClaimPool.MaxAge = &metav1.Duration{Duration: -time.Hour}
		}, "spec.volumeClaimPool.maxAge", "match"},
		"a result that GitHub does not report": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.VolumeClaimPool.KeepAfter = &v1alpha1.KeepClaimsAfter{Results: []string{"success"}}
		}, "spec.volumeClaimPool.keepAfter.results[0]", `"succeeded"`},
		"an event without a name": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.VolumeClaimPool.KeepAfter = &v1alpha1.KeepClaimsAfter{Events: []string{""}}
		}, "spec.volumeClaimPool.keepAfter.events[0]", "at least 1"},
		"two seeds": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.VolumeClaimPool.SeedFrom = &v1alpha1.VolumeClaimSeed{PersistentVolumeClaim: "golden", Newest: true}
		}, "spec.volumeClaimPool.seedFrom", "at most one of"},
		"a seed beside a source": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			first(s).Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "golden"}
			s.VolumeClaimPool.SeedFrom = &v1alpha1.VolumeClaimSeed{Newest: true}
		}, "spec.volumeClaimPool.seedFrom", "must be left out"},
		"one seed for several templates": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.VolumeClaimTemplates = append(s.VolumeClaimTemplates, newClaimTemplate("go"))
			s.VolumeClaimPool.SeedFrom = &v1alpha1.VolumeClaimSeed{VolumeSnapshot: "golden"}
		}, "spec.volumeClaimPool.seedFrom", "a single template"},
		"an unknown retention": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.PersistentVolumeClaimRetentionPolicy = &v1alpha1.VolumeClaimRetentionPolicy{WhenDeleted: "Keep"}
		}, "spec.persistentVolumeClaimRetentionPolicy.whenDeleted", `"Retain"`},
	})
}

// Each mode has fields that the other can't have.
func TestModesOfAPoolExcludeEachOthersFields(t *testing.T) {
	checkRefused(t, map[string]refused{
		"a limit in mode Snapshot": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.VolumeClaimPool.Mode, s.VolumeClaimPool.Max = v1alpha1.SnapshotClaims, new(3)
		}, "spec.volumeClaimPool.max", "must be left out in mode Snapshot"},
		"an idle time in mode Snapshot": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.VolumeClaimPool.Mode, s.VolumeClaimPool.IdleTTL = v1alpha1.SnapshotClaims, &metav1.Duration{}
		}, "spec.volumeClaimPool.idleTTL", "must be left out in mode Snapshot"},
		"an age in mode Snapshot": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.VolumeClaimPool.Mode, s.VolumeClaimPool.MaxAge = v1alpha1.SnapshotClaims, &metav1.Duration{}
		}, "spec.volumeClaimPool.maxAge", "must be left out in mode Snapshot"},
		"a fullest disk in mode Snapshot": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.VolumeClaimPool.Mode, s.VolumeClaimPool.MaxUsedPercent = v1alpha1.SnapshotClaims, new(90)
		}, "spec.volumeClaimPool.maxUsedPercent", "must be left out in mode Snapshot"},
		"keepAfter in mode Snapshot": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.VolumeClaimPool.Mode, s.VolumeClaimPool.KeepAfter = v1alpha1.SnapshotClaims, &v1alpha1.KeepClaimsAfter{}
		}, "spec.volumeClaimPool.keepAfter", "use commitAfter"},
		"a seed in mode Snapshot": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.VolumeClaimPool.Mode = v1alpha1.SnapshotClaims
			s.VolumeClaimPool.SeedFrom = &v1alpha1.VolumeClaimSeed{Newest: true}
		}, "spec.volumeClaimPool.seedFrom", "copy of the newest snapshot"},
		"a source in mode Snapshot": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.VolumeClaimPool.Mode = v1alpha1.SnapshotClaims
			first(s).Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "golden"}
		}, "spec.volumeClaimTemplates", "must have no dataSource in mode Snapshot"},
		"commitAfter without snapshots": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.VolumeClaimPool.CommitAfter = &v1alpha1.CommitClaimsAfter{}
		}, "spec.volumeClaimPool.commitAfter", "needs mode Snapshot"},
		"an interval in mode Claims": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.VolumeClaimPool.Mode = v1alpha1.PassedOnClaims
			s.VolumeClaimPool.SnapshotInterval = &metav1.Duration{Duration: time.Hour}
		}, "spec.volumeClaimPool.snapshotInterval", "needs mode Snapshot"},
		"a number of snapshots in mode Claims": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.VolumeClaimPool.KeepSnapshots = new(3)
		}, "spec.volumeClaimPool.keepSnapshots", "needs mode Snapshot"},
		"a snapshot class in mode Claims": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.VolumeClaimPool.SnapshotClassName = "fast"
		}, "spec.volumeClaimPool.snapshotClassName", "needs mode Snapshot"},
		"an interval of seconds": {func(s *v1alpha1.AutoscalingRunnerSetSpec) {
			s.VolumeClaimPool.Mode = v1alpha1.SnapshotClaims
			s.VolumeClaimPool.SnapshotInterval = &metav1.Duration{Duration: 5 * time.Second}
		}, "spec.volumeClaimPool.snapshotInterval", "at least 1m"},
		"an unknown mode": {func(s *v1alpha1.AutoscalingRunnerSetSpec) { s.VolumeClaimPool.Mode = "Sticky" },
			"spec.volumeClaimPool.mode", `"Snapshot"`},
	})
}

// The values of the chart show seedFrom with three fields that name nothing: that is as if it were left out.
func TestASeedThatNamesNothingIsNone(t *testing.T) {
	cluster := testkube.Shared(t)
	set := newSet(cluster.NewNamespace(t))
	template := newClaimTemplate("docker")
	template.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "golden"}
	set.Spec.VolumeClaimTemplates = []v1alpha1.VolumeClaimTemplate{template, newClaimTemplate("go")}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(set)
	if err != nil {
		t.Fatal(err)
	}
	content := &unstructured.Unstructured{Object: fields}
	content.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AutoscalingRunnerSet"))
	seed := map[string]any{"persistentVolumeClaim": "", "volumeSnapshot": "", "newest": false}
	if err := unstructured.SetNestedMap(content.Object, seed, "spec", "volumeClaimPool", "seedFrom"); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Client().Create(t.Context(), content); err != nil {
		t.Error(err)
	}
}

// Go would compute for minutes what 1e999999999 is, each time it reads the set.
func TestASizeThatNobodyCanReadIsRefused(t *testing.T) {
	cluster := testkube.Shared(t)
	set := newSet(cluster.NewNamespace(t))
	set.Spec.VolumeClaimTemplates = []v1alpha1.VolumeClaimTemplate{newClaimTemplate("docker")}
	if err := cluster.Client().Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	template := `{"metadata":{"name":"docker"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1e999999999"}}}}`
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"volumeClaimTemplates":[`+template+`]}}`))
	err := cluster.Client().Patch(t.Context(), set.DeepCopy(), patch)
	if err == nil || !strings.Contains(err.Error(), "storage") {
		t.Errorf("error %v, want one that names storage", err)
	}
}

func TestEveryFieldOfClaimsIsStored(t *testing.T) {
	cluster := testkube.Shared(t)
	set := newSet(cluster.NewNamespace(t))
	docker, cache := newClaimTemplate("docker"), newClaimTemplate("go")
	docker.APIVersion, docker.Kind = "v1", "PersistentVolumeClaim" // as in manifests of StatefulSets
	docker.Metadata.Labels, docker.Metadata.Annotations = map[string]string{"a": "b"}, map[string]string{"c": "d"}
	docker.Spec.StorageClassName = new("fast")
	set.Spec.VolumeClaimTemplates = []v1alpha1.VolumeClaimTemplate{docker, cache}
	set.Spec.VolumeClaimPool = &v1alpha1.VolumeClaimPool{
		Max: new(20), WhenExhausted: v1alpha1.EphemeralVolume,
		IdleTTL: &metav1.Duration{Duration: time.Hour}, MaxAge: &metav1.Duration{},
		KeepAfter: &v1alpha1.KeepClaimsAfter{Events: []string{"push"}, Results: []string{"succeeded"}},
		SeedFrom:  &v1alpha1.VolumeClaimSeed{Newest: true},
	}
	set.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.VolumeClaimRetentionPolicy{
		WhenDeleted: v1alpha1.RetainVolumeClaims}
	want := set.Spec.DeepCopy()
	if err := cluster.Client().Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	stored := &v1alpha1.AutoscalingRunnerSet{}
	if err := cluster.Client().Get(t.Context(), client.ObjectKeyFromObject(set), stored); err != nil {
		t.Fatal(err)
	}
	if got, want := stored.Spec.RunnerVolumeClaims, want.RunnerVolumeClaims; mustJSON(t, got) != mustJSON(t, want) {
		t.Errorf("stored %s\nwant   %s", mustJSON(t, got), mustJSON(t, want))
	}
}

func mustJSON(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
