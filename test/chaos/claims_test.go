package chaos

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/test/rig"
)

// refuseMounts lets no pod mount a claim.
func (w *world) refuseMounts(f fault) {
	w.rig.Storage.RefuseMounts(func(*corev1.Pod, *corev1.PersistentVolumeClaim) string { return "chaos" })
	w.pause(f.lasts)
	w.rig.Storage.RefuseMounts(nil)
}

// fillZone lets no pod into one of the two zones.
func (w *world) fillZone(f fault) {
	w.rig.Storage.FillZone(f.variant, true)
	w.pause(f.lasts)
	w.rig.Storage.FillZone(f.variant, false)
}

// checkClaims compares the remaining claims with the number in the set's status. Only idle runners may still use
// theirs.
func (w *world) checkClaims() {
	w.t.Helper()
	if len(w.schedule.claims.templates) == 0 {
		return
	}
	wrong := "the claims were never seen"
	if !w.await(leftoverTime, func() bool { wrong = w.wrongClaims(); return wrong == "" }) {
		w.errorf("%s after the jobs: %s", leftoverTime, wrong)
	}
}

// wrongClaims makes one attempt, and returns what is wrong.
func (w *world) wrongClaims() string {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	var set v1alpha1.AutoscalingRunnerSet
	key := types.NamespacedName{Namespace: w.rig.RunnerNamespace, Name: rig.DefaultSet}
	if err := w.cluster.Client().Get(ctx, key, &set); err != nil {
		return err.Error()
	}
	var runners v1alpha1.EphemeralRunnerList
	var claims corev1.PersistentVolumeClaimList
	for _, list := range []client.ObjectList{&runners, &claims} {
		if err := w.cluster.Client().List(ctx, list, client.InNamespace(w.rig.RunnerNamespace)); err != nil {
			return err.Error()
		}
	}
	leased := 0
	for i := range claims.Items {
		claim := &claims.Items[i]
		if claim.DeletionTimestamp != nil {
			return fmt.Sprintf("claim %s is still being deleted", claim.Name)
		}
		has := func(r v1alpha1.EphemeralRunner) bool {
			return r.Spec.VolumeClaims[claim.Labels[v1alpha1.LabelVolumeClaimTemplate]] == claim.Name &&
				r.Status.Phase != v1alpha1.EphemeralRunnerPhaseFailed
		}
		if slices.ContainsFunc(runners.Items, has) {
			leased++
		}
	}
	want := v1alpha1.VolumeClaimCounts{Total: len(claims.Items), Leased: leased, Free: len(claims.Items) - leased}
	if got := set.Status.VolumeClaims; got == nil || *got != want {
		return fmt.Sprintf("the status says %+v, there are %+v", got, want)
	}
	return ""
}

// noteClaims checks the number of claims of each template.
func (o *observer) noteClaims(claims []corev1.PersistentVolumeClaim) {
	counts := map[string]int{}
	for i := range claims {
		counts[claims[i].Labels[v1alpha1.LabelVolumeClaimTemplate]]++
	}
	for template, count := range counts {
		if o.maxClaims > 0 && count > o.maxClaims {
			o.violate("%d claims of template %s, max is %d", count, template, o.maxClaims)
		}
	}
}
