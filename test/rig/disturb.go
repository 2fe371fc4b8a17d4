package rig

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// KillManager kills every manager with SIGKILL. The node restarts them immediately the first time, and after a back-off
// from then on.
func (r *Rig) KillManager() {
	r.t.Helper()
	for _, pod := range r.managerPods() {
		r.kill(&pod, managerContainer)
	}
}

// kill kills a container. It waits for one that is about to start.
func (r *Rig) kill(pod *corev1.Pod, container string) {
	r.t.Helper()
	gomega.NewWithT(r.t).Eventually(r.Node.Kill, Patience, interval).WithArguments(client.ObjectKeyFromObject(pod),
		container).Should(gomega.Succeed())
}

// StopManager scales the manager's Deployment to zero and returns when its pods are gone.
func (r *Rig) StopManager() {
	r.t.Helper()
	r.scaleManager(0)
	gomega.NewWithT(r.t).Eventually(func() int { return len(r.managerPods()) }, Patience, interval).
		Should(gomega.BeZero())
}

// StartManager scales the Deployment back up. It does not wait for the pods.
func (r *Rig) StartManager() {
	r.t.Helper()
	r.scaleManager(max(1, r.options.ManagerReplicas))
}

func (r *Rig) scaleManager(replicas int) {
	r.t.Helper()
	if err := r.ScaleManagers(r.t.Context(), replicas); err != nil {
		r.t.Fatal(err)
	}
}

// ScaleManagers scales the manager's Deployment as kubectl scale does. It does not wait for the pods.
func (r *Rig) ScaleManagers(ctx context.Context, replicas int) error {
	deployment := &appsv1.Deployment{}
	deployment.Namespace, deployment.Name = r.SystemNamespace, ControllerAccount
	before := deployment.DeepCopy()
	count := int32(replicas)
	// The patch has to contain the count even if it is zero or unchanged, so it is compared with none.
	before.Spec.Replicas, deployment.Spec.Replicas = nil, &count
	return r.Cluster.Client().Patch(ctx, deployment, client.MergeFrom(before))
}

// UpgradeManagers changes the controller chart's replicaCount with helm upgrade. It does not wait for the pods.
func (r *Rig) UpgradeManagers(ctx context.Context, replicas int) error {
	return r.UpgradeController(ctx, Values{"replicaCount": replicas})
}

// UpgradeController replaces values of the controller's chart, by their top-level keys, with helm upgrade. It does not
// wait for the pods.
func (r *Rig) UpgradeController(_ context.Context, more Values) error {
	values := r.controllerValues()
	maps.Copy(values, more)
	_, err := r.tools.HelmWith(context.Background(), values, "upgrade", controllerRelease, r.options.Product.Controller,
		"--namespace", r.SystemNamespace)
	return err
}

// SetClock sets the clock of a program wrong by a duration, from its next start on. The programs have to be built for
// that, see MainWithWrongClocks.
func (r *Rig) SetClock(program Program, ahead time.Duration) {
	pods := &r.managers
	if program == ListenerProgram {
		pods = &r.listeners
	}
	pods.ahead.Store(int64(ahead))
}

// KillListener kills the default set's listener with SIGKILL. The node restarts it.
func (r *Rig) KillListener() {
	r.t.Helper()
	pod := r.ListenerPod()
	if pod == nil {
		r.t.Fatal("there is no listener pod to kill")
	}
	r.kill(pod, v1alpha1.ListenerContainerName)
}

// LoseNodeOf ends a pod as the pod garbage collector does when the pod's node is gone.
func (r *Rig) LoseNodeOf(pod *corev1.Pod) {
	r.t.Helper()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"phase": corev1.PodFailed,
		"conditions": []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC",
			Message:            "PodGC: node no longer exists",
			LastTransitionTime: metav1.Now(),
		}},
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	api := r.Cluster.Client()
	if err := api.Status().Patch(r.t.Context(), pod,
		client.RawPatch(types.StrategicMergePatchType, patch)); client.IgnoreNotFound(err) != nil {
		r.t.Error(err)
	}
	if err := api.Delete(r.t.Context(), pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
		r.t.Error(err)
	}
}

// ListenerPod returns the default set's listener pod, nil if it doesn't exist or is being deleted.
func (r *Rig) ListenerPod() *corev1.Pod {
	r.t.Helper()
	pods := r.pods(r.SystemNamespace, client.MatchingLabels{
		v1alpha1.LabelComponent: v1alpha1.ComponentListener, v1alpha1.LabelScaleSetName: DefaultSet,
	})
	for i := range pods {
		if pods[i].DeletionTimestamp == nil {
			return &pods[i]
		}
	}
	return nil
}

// ManagerPods returns the manager's pods.
func (r *Rig) ManagerPods() []corev1.Pod {
	r.t.Helper()
	return r.managerPods()
}

func (r *Rig) managerPods() []corev1.Pod {
	return r.pods(r.SystemNamespace, client.MatchingLabels{v1alpha1.LabelComponent: "controller-manager"})
}

func (r *Rig) pods(namespace string, options ...client.ListOption) []corev1.Pod {
	r.t.Helper()
	var pods corev1.PodList
	// Not the test's context: pods are listed during cleanup as well.
	if err := r.Cluster.Client().List(context.Background(), &pods,
		append(options, client.InNamespace(namespace))...); err != nil {
		r.t.Fatalf("list pods of %s: %v", namespace, err)
	}
	return pods.Items
}

// AwaitListening waits until the set's listener polls GitHub.
func (r *Rig) AwaitListening(set string) {
	r.t.Helper()
	gomega.NewWithT(r.t).Eventually(func() bool { return r.polls(set) }, Patience, interval).
		Should(gomega.BeTrue(), "the listener of "+set+" does not poll GitHub")
}

func (r *Rig) polls(set string) bool {
	snapshot := r.GitHub.Snapshot()
	for _, known := range snapshot.ScaleSets {
		for _, session := range snapshot.Sessions {
			if known.Name == set && session.ScaleSetID == known.ID && session.Polling {
				return true
			}
		}
	}
	return false
}

// RunnerPods returns the runners' pods.
func (r *Rig) RunnerPods() []corev1.Pod {
	r.t.Helper()
	return r.pods(r.RunnerNamespace, client.MatchingLabels{v1alpha1.LabelRunner: "True"})
}

// Wait returns after the duration, or false as soon as the context ends.
func Wait(ctx context.Context, duration time.Duration) bool {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
