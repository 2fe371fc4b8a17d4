package autoscalinglistener

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
)

// report writes the status where it changed, and publishes the metric.
func (c *Controller) report(ctx context.Context, p *pass) error {
	if p.released {
		unpublish(p.key)
		return nil
	}
	publishRunning(p)
	after := p.listener.DeepCopy()
	after.Status.ObservedGeneration = p.listener.Generation
	kube.SetConditions(&after.Status.Conditions, p.listener.Generation, p.now, conditionsOf(p)...)
	_, err := kube.PatchStatus(ctx, c.options.Client, after, p.listener)
	return client.IgnoreNotFound(err)
}

// conditionsOf returns the conditions that kstatus evaluates, and CredentialsValid.
func conditionsOf(p *pass) []kube.Condition {
	reason, message := p.state.reason, p.state.message
	if reason == "" {
		reason = reasonStarting // the pass didn't come as far as the pod
	}
	stalled := p.obstacle != nil
	if stalled {
		reason, message = obstacleReason(p.obstacle), p.obstacle.Error()
	}
	ready := kube.Condition{Type: v1alpha1.ConditionReady, Status: status(p.state.ready), Reason: reason, Message: message}
	conditions := []kube.Condition{
		ready,
		{Type: v1alpha1.ConditionProgressing, Status: status(!p.state.ready && !stalled), Reason: reason},
		{Type: v1alpha1.ConditionStalled, Status: status(stalled), Reason: reason},
	}
	switch {
	case p.resolved != nil:
		conditions = append(conditions, kube.True(v1alpha1.ConditionCredentialsValid, "Complete", ""))
	case stalled:
		conditions = append(conditions, kube.False(v1alpha1.ConditionCredentialsValid, reason, message))
	}
	return conditions
}

// status converts a bool to a condition's status.
func status(holds bool) metav1.ConditionStatus {
	if holds {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// obstacleReason returns the condition reason for an obstacle.
func obstacleReason(err error) string {
	var missing *credentials.MissingError
	var unsupported *credentials.UnsupportedError
	switch {
	case errors.As(err, &missing):
		return v1alpha1.ReasonCredentialsMissing
	case errors.As(err, &unsupported):
		return v1alpha1.ReasonVaultUnsupported
	}
	return "ConfigurationInvalid"
}
