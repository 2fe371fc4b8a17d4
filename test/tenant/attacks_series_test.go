package tenant

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/test/rig"
)

// renamingSet has volumes whose name changes, volumeNames times.
const (
	renamingSet = "renaming"
	volumeNames = 15
)

// seriesAttacks make metrics grow: defect B10 of the second reading.
func seriesAttacks() []attack {
	return []attack{{
		name: "volumes that are renamed",
		objects: one(renamingSet, func(_ *stage, set *v1alpha1.AutoscalingRunnerSet) {
			set.Spec.MinRunners = nil
		}),
		act:  (*stage).rename,
		says: works(renamingSet),
		harm: func(s *stage) []string {
			const most = 3 * 5 // templates that were in use a moment ago, each with the states of claims
			series := s.metricsWith(fmt.Sprintf("name=%q,namespace=%q,state=", renamingSet, s.attacker.namespace))
			if len(series) > most {
				return append([]string{fmt.Sprintf("one volume has %d series", len(series))}, series...)
			}
			return nil
		},
	}}
}

// rename gives the volume of a set one name after the other, each as soon as the metrics have the one before.
func (s *stage) rename() error {
	late, cancel := context.WithTimeout(s.Context(), rig.Patience)
	defer cancel()
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: s.named(renamingSet)}
	for i := range volumeNames {
		name := fmt.Sprint("volume-", i)
		patch := fmt.Sprintf(`{"spec":{"volumeClaimTemplates":[{"metadata":{"name":%q},"spec":{"accessModes":`+
			`["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}]}}`, name)
		change := client.RawPatch(types.MergePatchType, []byte(patch))
		if err := s.attacker.client.Patch(s.Context(), set, change); err != nil {
			return err
		}
		for len(s.metricsWith(fmt.Sprintf("template=%q", name))) == 0 {
			if !rig.Wait(late, 100*time.Millisecond) {
				return fmt.Errorf("there is no series of %s", name)
			}
		}
	}
	return nil
}
