package volumeclaims

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Mount gives the pod the volumes of a runner's claims, its spec.volumeClaims. As in a StatefulSet, a claim replaces the volume
// of the same name. A claim without a name is an emptyDir.
func Mount(pod *corev1.PodSpec, claims map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		volume := corev1.Volume{Name: name}
		if claim := claims[name]; claim == "" {
			volume.EmptyDir = &corev1.EmptyDirVolumeSource{}
		} else {
			volume.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}
		}
		at := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == name })
		if at < 0 {
			pod.Volumes = append(pod.Volumes, volume)
		} else {
			pod.Volumes[at] = volume
		}
	}
}

// MountedBy returns the names of the claims that a pod mounts, none if it has ended.
func MountedBy(pod *corev1.Pod) []string {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	var names []string
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			names = append(names, claim.ClaimName)
		}
	}
	return names
}

// returning are the rules by which a runner's claims are passed on, or not. The first that applies decides. why follows on "the
// claim is not kept: ".
var returning = []struct {
	name    string
	applies func(*v1alpha1.KeepClaimsAfter, *Runner) bool
	returns bool
	why     func(*Runner) string
}{
	{"nothing has run", func(_ *v1alpha1.KeepClaimsAfter, r *Runner) bool { return !r.Started }, true, nil},
	{"GitHub has said that there was no job", func(_ *v1alpha1.KeepClaimsAfter, r *Runner) bool { return r.Job.Never }, true, nil},
	{"the event is not among those named", func(keep *v1alpha1.KeepClaimsAfter, r *Runner) bool {
		return len(keep.Events) > 0 && !slices.Contains(keep.Events, r.Job.Event)
	}, false, func(r *Runner) string { return fmt.Sprintf("the job's event is %s", orUnknown(r.Job.Event)) }},
	{"the result is not among those named", func(keep *v1alpha1.KeepClaimsAfter, r *Runner) bool {
		return len(keep.Results) > 0 && !slices.Contains(keep.Results, r.Job.Result)
	}, false, func(r *Runner) string { return fmt.Sprintf("the job's result is %s", orUnknown(r.Job.Result)) }},
}

// Returns reports whether the claims of a runner that has ended may be passed on to another one and, if not, why. Claims that may
// not are deleted before the runner goes; until its pod is gone, Kubernetes keeps them from use by others.
func Returns(set *v1alpha1.AutoscalingRunnerSet, runner *Runner) (bool, string) {
	pool := set.Spec.EffectiveVolumeClaimPool()
	for _, rule := range returning {
		if rule.applies(pool.KeepAfter, runner) {
			if rule.returns {
				return true, ""
			}
			return false, rule.why(runner)
		}
	}
	return true, ""
}

func orUnknown(word string) string {
	if word == "" {
		return "unknown"
	}
	return word
}
