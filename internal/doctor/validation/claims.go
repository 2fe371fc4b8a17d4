package validation

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// maxClaimAge is the longest duration that the kind allows for claims: ten years.
const maxClaimAge = 87_600 * time.Hour

// claims checks the rules that the kind's schema has in CEL for volumeClaimTemplates and their pool.
func (c *checks) claims(spec *v1alpha1.RunnerVolumeClaims, invalid string) {
	pool := spec.EffectiveVolumeClaimPool()
	seed := pool.SeedFrom
	named := map[string]bool{}
	for i := range spec.VolumeClaimTemplates {
		template := &spec.VolumeClaimTemplates[i]
		field, claim := fmt.Sprintf("volumeClaimTemplates[%d]", i), &template.Spec
		c.require(!named[template.Metadata.Name], invalid, field+" has the name of an earlier one, "+template.Metadata.Name, "give each volume a name of its own")
		named[template.Metadata.Name] = true
		size := claim.Resources.Requests[corev1.ResourceStorage]
		c.require(size.Sign() > 0, invalid, field+" has no size", "set spec.resources.requests.storage")
		c.require(claim.VolumeMode == nil || *claim.VolumeMode == corev1.PersistentVolumeFilesystem, invalid, field+" has a volumeMode that containers can't mount", "leave it out")
		c.require(len(claim.AccessModes) > 0, invalid, field+" has no spec.accessModes", "set them, such as [ReadWriteOnce]")
		c.require(claim.VolumeName == "", invalid, field+" has a volumeName, but each claim needs a volume of its own", "leave it out")
		sourced := claim.DataSource != nil || claim.DataSourceRef != nil
		c.require(!sourced || *seed == v1alpha1.VolumeClaimSeed{}, invalid, field+" has a dataSource beside volumeClaimPool.seedFrom", "leave out one of them")
	}
	chosen := 0
	for _, choice := range []bool{seed.PersistentVolumeClaim != "", seed.VolumeSnapshot != "", seed.Newest} {
		if choice {
			chosen++
		}
	}
	c.require(chosen <= 1, invalid, "volumeClaimPool.seedFrom names several sources", "keep one of persistentVolumeClaim, volumeSnapshot and newest")
	c.require(len(named) < 2 || chosen == 0 || seed.Newest, invalid, "volumeClaimPool.seedFrom names one volume for several templates",
		"give each template its own dataSource, or use newest")
	for field, age := range map[string]time.Duration{"idleTTL": pool.IdleTTL.Duration, "maxAge": pool.MaxAge.Duration} {
		c.require(age <= maxClaimAge, invalid, "volumeClaimPool."+field+" is too long", "use at most ten years, 87600h")
	}
}
