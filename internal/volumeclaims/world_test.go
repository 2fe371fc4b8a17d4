package volumeclaims_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

func duration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

func TestOnlyClaimsOfTheSetCount(t *testing.T) {
	mine := []metav1.OwnerReference{{UID: "set-uid", Controller: new(true)}}
	for name, test := range map[string]struct {
		change func(*corev1.PersistentVolumeClaim)
		ours   bool
	}{
		"its own":           {func(*corev1.PersistentVolumeClaim) {}, true},
		"retained, adopted": {func(c *corev1.PersistentVolumeClaim) { c.OwnerReferences = nil }, true},
		"retained, of another address": {func(c *corev1.PersistentVolumeClaim) {
			c.OwnerReferences, c.Labels[v1alpha1.LabelVolumeClaimScope] = nil, "x"
		}, false},
		"its own, of another address":   {func(c *corev1.PersistentVolumeClaim) { c.Labels[v1alpha1.LabelVolumeClaimScope] = "x" }, true},
		"of an earlier set":             {func(c *corev1.PersistentVolumeClaim) { c.OwnerReferences[0].UID = "earlier" }, false},
		"of a set with another name":    {func(c *corev1.PersistentVolumeClaim) { c.Labels[v1alpha1.LabelScaleSetName] = "windows" }, false},
		"of a set in another namespace": {func(c *corev1.PersistentVolumeClaim) { c.Labels[v1alpha1.LabelScaleSetNamespace] = "team" }, false},
		"in another namespace":          {func(c *corev1.PersistentVolumeClaim) { c.Namespace = "team" }, false},
		"under a name that is not ours": {func(c *corev1.PersistentVolumeClaim) { c.Name = "linux-docker-data" }, false},
		"of another template":           {func(c *corev1.PersistentVolumeClaim) { c.Labels[v1alpha1.LabelVolumeClaimTemplate] = "go" }, false},
		"of no template":                {func(c *corev1.PersistentVolumeClaim) { delete(c.Labels, v1alpha1.LabelVolumeClaimTemplate) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, newSet("docker"))
			claim := s.claim("docker", "22222")
			if diff := cmp.Diff(mine[0].UID, claim.OwnerReferences[0].UID); diff != "" {
				t.Fatalf("a new claim is not the set's: %s", diff)
			}
			test.change(claim)
			if _, ours := volumeclaims.ClaimOf(s.Set, claim); ours != test.ours {
				t.Errorf("ours: %t", ours)
			}
		})
	}
}

func TestSpellingsOfOneAddressAndGroupAreOneScope(t *testing.T) {
	set := newSet()
	scope := func(url, group string) string {
		set.Spec.GitHubConfigUrl, set.Spec.RunnerGroup = url, group
		return volumeclaims.Scope(set)
	}
	same := scope("https://github.com/acme", "")
	for _, other := range []string{
		scope("https://GitHub.com/Acme/", "Default"), scope(" https://github.com/acme ", "default"),
	} {
		if other != same {
			t.Error("a spelling makes another scope")
		}
	}
	for _, other := range []string{
		scope("https://github.com/acme/web", ""), scope("https://github.com/acme", "prod"),
		scope("https://github.com", "/acme"),
	} {
		if other == same {
			t.Error("two scopes have one hash")
		}
	}
	if len(same) > 63 {
		t.Errorf("%q can't be the value of a label", same)
	}
}

func TestMissingClaimsAreMadeFromTheirTemplate(t *testing.T) {
	set := newSet("docker", "go")
	template := &set.Spec.VolumeClaimTemplates[0]
	template.Metadata.Labels = map[string]string{"team": "web", v1alpha1.LabelScaleSetName: "other",
		v1alpha1.LabelVolumeClaimScope: "other"}
	template.Metadata.Annotations = map[string]string{"backup": "no"}
	template.Spec.StorageClassName = new("fast")
	runner := &v1alpha1.EphemeralRunner{Spec: v1alpha1.EphemeralRunnerSpec{
		GitHubConfigUrl: "https://github.com/before",
		VolumeClaims: map[string]string{
			"docker": "linux-docker-bbbbb", "go": "linux-go-bbbbb", "npm": "linux-npm-bbbbb", // npm is no template any more
		},
	}}
	existing := func(name string) *corev1.PersistentVolumeClaim {
		if name == "linux-go-bbbbb" {
			return &corev1.PersistentVolumeClaim{}
		}
		return nil
	}
	made := volumeclaims.Missing(set, runner, existing)
	if len(made) != 1 {
		t.Fatalf("made %d claims", len(made))
	}
	before := set.DeepCopy()
	before.Spec.GitHubConfigUrl = runner.Spec.GitHubConfigUrl
	want := map[string]string{
		"team": "web", v1alpha1.LabelPartOf: v1alpha1.PartOfScaleSet, v1alpha1.LabelScaleSetName: "linux",
		v1alpha1.LabelScaleSetNamespace:   "ci",
		v1alpha1.LabelVolumeClaimTemplate: "docker",
		// the jobs that write to it are those of the runner's own address
		v1alpha1.LabelVolumeClaimScope: volumeclaims.Scope(before),
	}
	claim := made[0]
	if diff := cmp.Diff(want, claim.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if claim.Name != "linux-docker-bbbbb" || claim.Namespace != "ci" || *claim.Spec.StorageClassName != "fast" ||
		claim.Annotations["backup"] != "no" {
		t.Errorf("made %v", claim)
	}
	if !metav1.IsControlledBy(claim, set) {
		t.Errorf("owners %v", claim.OwnerReferences)
	}
	set.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.VolumeClaimRetentionPolicy{
		WhenDeleted: v1alpha1.RetainVolumeClaims}
	if claim := volumeclaims.Missing(set, runner, existing)[0]; len(claim.OwnerReferences) != 0 {
		t.Errorf("a claim that is retained has owners %v", claim.OwnerReferences)
	}
}

func TestNewClaimsAreCopiesOfTheSeed(t *testing.T) {
	for name, test := range map[string]struct {
		seed   v1alpha1.VolumeClaimSeed
		source func(*corev1.PersistentVolumeClaim)
		want   string
	}{
		"nothing":             {},
		"a claim":             {seed: v1alpha1.VolumeClaimSeed{PersistentVolumeClaim: "golden"}, want: "PersistentVolumeClaim golden"},
		"a snapshot":          {seed: v1alpha1.VolumeClaimSeed{VolumeSnapshot: "golden"}, want: "VolumeSnapshot golden"},
		"the newest":          {seed: v1alpha1.VolumeClaimSeed{Newest: true}, want: "PersistentVolumeClaim linux-docker-22222"},
		"one that is deleted": {seed: v1alpha1.VolumeClaimSeed{Newest: true}, source: func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = new(metav1.Now()) }},
		"one of another address": {seed: v1alpha1.VolumeClaimSeed{Newest: true},
			source: func(c *corev1.PersistentVolumeClaim) { c.Labels[v1alpha1.LabelVolumeClaimScope] = "x" }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, newSet("docker"))
			source := s.claim("docker", "22222")
			if test.source != nil {
				test.source(source)
			}
			s.Set.Spec.VolumeClaimPool.SeedFrom = &test.seed
			runner := &v1alpha1.EphemeralRunner{
				ObjectMeta: metav1.ObjectMeta{
					Annotations: map[string]string{v1alpha1.AnnotationVolumeClaimSeed: "22222"}},
				Spec: v1alpha1.EphemeralRunnerSpec{GitHubConfigUrl: s.Set.Spec.GitHubConfigUrl,
					VolumeClaims: map[string]string{"docker": "linux-docker-bbbbb"}},
			}
			claim := volumeclaims.Missing(s.Set, runner,
				func(name string) *corev1.PersistentVolumeClaim { return s.pvcs[name] })[0]
			got := ""
			if claim.Spec.DataSource != nil {
				got = claim.Spec.DataSource.Kind + " " + claim.Spec.DataSource.Name
			}
			if got != test.want {
				t.Errorf("a copy of %q, want %q", got, test.want)
			}
		})
	}
}
