package conditions

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// ready has one series per scale set, troubles one per trouble of a set, so none for a healthy set. All are deleted with the set.
var (
	ready = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gha_controller_scale_set_ready",
		Help: "1 while the scale set is registered, its listener polls and its runners start; 0 otherwise.",
	}, []string{"name", "namespace"})
	troubles = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gha_controller_scale_set_trouble",
		Help: "1 while a condition of the scale set reports a problem, by condition and reason; no series while none does.",
	}, []string{"name", "namespace", "condition", "reason"})
)

func init() { metrics.Registry.MustRegister(ready, troubles) }

// trouble is a condition with a status that keeps jobs waiting or that nobody intended.
type trouble struct{ condition, reason string }

// bad has the conditions that name a cause, with the status that is a trouble. It leaves out Ready, Progressing and Stalled, which
// summarize the others.
var bad = []metav1.Condition{
	{Type: v1alpha1.ConditionVersionSupported, Status: metav1.ConditionFalse},
	{Type: v1alpha1.ConditionCredentialsValid, Status: metav1.ConditionFalse},
	{Type: v1alpha1.ConditionScaleSetRegistered, Status: metav1.ConditionFalse},
	{Type: v1alpha1.ConditionLabelsInSync, Status: metav1.ConditionFalse},
	{Type: v1alpha1.ConditionListenerTemplateAccepted, Status: metav1.ConditionFalse},
	{Type: v1alpha1.ConditionListenerReady, Status: metav1.ConditionFalse},
	{Type: v1alpha1.ConditionRunnerOutdated, Status: metav1.ConditionTrue},
	{Type: v1alpha1.ConditionPodTemplateRefused, Status: metav1.ConditionTrue},
	{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue},
	{Type: v1alpha1.ConditionQuotaExceeded, Status: metav1.ConditionTrue},
	{Type: v1alpha1.ConditionRunnersPending, Status: metav1.ConditionTrue},
	{Type: v1alpha1.ConditionRunnersUnprotected, Status: metav1.ConditionTrue},
	{Type: v1alpha1.ConditionDeletionBlocked, Status: metav1.ConditionTrue},
	{Type: v1alpha1.ConditionStatisticsDoubtful, Status: metav1.ConditionTrue},
}

// troublesOf returns the conditions that are a trouble. It leaves out the listener of a set that is not registered, because what
// the listener waits for is a trouble already.
func troublesOf(conditions []metav1.Condition) (found []trouble) {
	for _, b := range bad {
		if c := withStatus(conditions, b.Type, b.Status); c != nil && c.Reason != reasonWaitingForScaleSet {
			found = append(found, trouble{c.Type, report.KnownReason(c.Reason)})
		}
	}
	return found
}

// Shown is what the metrics show of one set between passes. The zero value is nothing.
type Shown struct{ troubles []trouble }

// Show sets the series of the set's conditions. A set that has never been ready has a series with 0, and one that is being deleted has none,
// so that no alert fires for it. Series of troubles that are over are deleted one by one, so that no scrape misses a trouble that lasts.
func (s *Shown) Show(set types.NamespacedName, conditions []metav1.Condition, deleting bool) {
	before := s.troubles
	if deleting {
		Unpublish(set)
		s.troubles = nil
		return
	}
	value := 0.0
	if meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionReady) {
		value = 1
	}
	ready.WithLabelValues(set.Name, set.Namespace).Set(value)
	s.troubles = troublesOf(conditions)
	for _, t := range s.troubles {
		troubles.WithLabelValues(set.Name, set.Namespace, t.condition, t.reason).Set(1)
	}
	for _, t := range before {
		if !slices.Contains(s.troubles, t) {
			troubles.DeleteLabelValues(set.Name, set.Namespace, t.condition, t.reason)
		}
	}
}

// Unpublish deletes all series of a set that is gone.
func Unpublish(set types.NamespacedName) {
	ready.DeleteLabelValues(set.Name, set.Namespace)
	troubles.DeletePartialMatch(prometheus.Labels{"name": set.Name, "namespace": set.Namespace})
}
