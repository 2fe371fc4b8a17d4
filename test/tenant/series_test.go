package tenant

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Boundaries B10: names are series, of the manager's metrics and in its memory.

// renaming is a set whose templates and schedules get other names again and again.
const renaming = "renaming"

// seriesAttacks make names without end.
func seriesAttacks() []attack {
	return []attack{{
		name:    "names without end",
		objects: one(renaming, func(_ *stage, set *v1alpha1.AutoscalingRunnerSet) { rename(set, 0) }),
		act:     (*stage).renameAgainAndAgain,
		says:    works(renaming),
		harm:    (*stage).endlessSeries,
	}}
}

// rename gives a set a volume claim template and a schedule that it didn't have.
func rename(set *v1alpha1.AutoscalingRunnerSet, number int) {
	name := fmt.Sprint("name", number)
	set.Spec.VolumeClaimTemplates = []v1alpha1.VolumeClaimTemplate{{
		Metadata: v1alpha1.VolumeClaimTemplateMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}}
	set.Spec.Schedules = []v1alpha1.Schedule{{
		Name: name, Schedule: "0 0 1 1 *", Duration: metav1.Duration{Duration: time.Hour}, MinRunners: new(0),
	}}
}

func (s *stage) renameAgainAndAgain() error {
	for number := range 100 {
		set := &v1alpha1.AutoscalingRunnerSet{}
		key := types.NamespacedName{Namespace: s.attacker.namespace, Name: renaming}
		if err := s.attacker.client.Get(s.Context(), key, set); err != nil {
			return err
		}
		before := set.DeepCopy()
		rename(set, number+1)
		if err := s.attacker.client.Patch(s.Context(), set, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	return nil
}

// endlessSeries lists the manager's metrics that have more series for the set than one has: 13 for each histogram of
// which a phase has one, and 7 phases.
func (s *stage) endlessSeries() (wrong []string) {
	series := map[string]int{}
	for _, line := range s.metricsWith(fmt.Sprintf("name=%q", renaming)) {
		if _, line, ok := strings.Cut(line, ": "); ok {
			metric, _, _ := strings.Cut(line, "{")
			series[metric]++
		}
	}
	for metric, count := range series {
		if count > 7*13 || (strings.Contains(metric, "schedule") && count > 1) ||
			(strings.Contains(metric, "volume_claims") && count > 10) {
			wrong = append(wrong, fmt.Sprintf("%s has %d series for one set", metric, count))
		}
	}
	return wrong
}
