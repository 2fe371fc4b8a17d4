package volumeclaims_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
	"github.com/harrier-ci/harrier/internal/volumeclaims/places"
)

// start is the time at which every test begins.
var start = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// patience is the pendingTimeout of runners.
const patience = 10 * time.Minute

// newSet returns a set with a template of each name.
func newSet(templates ...string) *v1alpha1.AutoscalingRunnerSet {
	set := &v1alpha1.AutoscalingRunnerSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "linux", UID: "set-uid"},
		Spec:       v1alpha1.AutoscalingRunnerSetSpec{GitHubConfigUrl: "https://github.com/acme"},
	}
	set.Spec.VolumeClaimPool = &v1alpha1.VolumeClaimPool{}
	for _, name := range templates {
		set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, v1alpha1.VolumeClaimTemplate{
			Metadata: v1alpha1.VolumeClaimTemplateMeta{Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}},
		})
	}
	return set
}

// scene is a world that a test builds, with the memory of one process.
type scene struct {
	*testing.T
	volumeclaims.World
	memory *volumeclaims.Memory
	pvcs   map[string]*corev1.PersistentVolumeClaim
	places map[string]places.Place // of claims whose volumes have been read
	uids   int
}

func newScene(t *testing.T, set *v1alpha1.AutoscalingRunnerSet) *scene {
	t.Helper()
	return &scene{
		T: t, World: volumeclaims.World{Set: set, Now: start, Listed: true, Suffix: volumeclaims.RandomSuffix,
			Mounted: sets.New[string]()},
		memory: volumeclaims.NewMemory(set.Name), pvcs: map[string]*corev1.PersistentVolumeClaim{},
		places: map[string]places.Place{},
	}
}

// claim adds a bound claim of a bundle, as the manager creates it, and returns it for changes.
func (s *scene) claim(template, suffix string) *corev1.PersistentVolumeClaim {
	s.Helper()
	runner := &v1alpha1.EphemeralRunner{Spec: v1alpha1.EphemeralRunnerSpec{
		GitHubConfigUrl: s.Set.Spec.GitHubConfigUrl,
		VolumeClaims:    map[string]string{template: "linux-" + template + "-" + suffix},
	}}
	none := func(string) *corev1.PersistentVolumeClaim { return nil }
	made := volumeclaims.Missing(s.Set, runner, none)
	if len(made) != 1 {
		s.Fatalf("%d claims made of template %s", len(made), template)
	}
	s.uids++
	pvc := made[0]
	pvc.UID = types.UID(fmt.Sprint("claim-", s.uids))
	pvc.CreationTimestamp = metav1.NewTime(s.Now)
	pvc.Status.Phase = corev1.ClaimBound
	if pvc.Annotations == nil {
		pvc.Annotations = map[string]string{}
	}
	s.pvcs[pvc.Name] = pvc
	return pvc
}

// runner adds a runner that names the claims of a bundle and was created now.
func (s *scene) runner(name, suffix string) *volumeclaims.Runner {
	claims := map[string]string{}
	for i := range s.Set.Spec.VolumeClaimTemplates {
		template := s.Set.Spec.VolumeClaimTemplates[i].Metadata.Name
		claims[template] = "linux-" + template + "-" + suffix
	}
	s.Runners = append(s.Runners, volumeclaims.Runner{Name: name, CreatedAt: s.Now, Claims: claims,
		Patience: patience})
	return &s.Runners[len(s.Runners)-1]
}

// after lets time pass.
func (s *scene) after(d time.Duration) { s.Now = s.Now.Add(d) }

// plan observes, plans and follows, as a controller does in a pass.
func (s *scene) plan(wanted int) volumeclaims.Decision {
	s.Claims = nil
	for _, pvc := range s.pvcs {
		if claim, ours := volumeclaims.ClaimOf(s.Set, pvc); ours {
			if place, known := s.places[pvc.Name]; known {
				claim.Place = place
			}
			s.Claims = append(s.Claims, claim)
		}
	}
	d := s.memory.Observe(&s.World).Plan(wanted)
	s.memory.Follow(&d, s.Now)
	return d
}

// names returns the claims that the leases give as the volume of a template.
func names(d volumeclaims.Decision, template string) []string {
	var found []string
	for _, lease := range d.Leases {
		found = append(found, lease.Claims[template])
	}
	return found
}
