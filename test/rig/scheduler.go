package rig

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/podstatus"
)

// NoRoom is the message of the rig's scheduler about a pod that doesn't fit.
const NoRoom = "0/1 nodes are available: 1 Too many pods"

// startScheduler plays the scheduler of a cluster with room for some runner pods at a time, until the test ends. It
// binds the pods that fit to the node, in any order, and leaves alone those with a scheduling gate.
func (r *Rig) startScheduler(node string) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for Wait(ctx, interval) {
			r.schedule(ctx, node)
		}
	}()
	r.t.Cleanup(func() {
		stop()
		<-ended
	})
}

// schedule looks at all runner pods. It does the next time what fails, as while the API server is away.
func (r *Rig) schedule(ctx context.Context, node string) {
	var pods corev1.PodList
	if r.Cluster.Client().List(ctx, &pods, client.InNamespace(r.RunnerNamespace)) != nil {
		return
	}
	free := r.options.Slots()
	var waiting []*corev1.Pod
	for i := range pods.Items {
		pod := &pods.Items[i]
		switch {
		case podstatus.IsFinished(pod):
		case pod.Spec.NodeName != "":
			free--
		case pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0:
			waiting = append(waiting, pod)
		}
	}
	for _, pod := range waiting { // listed by name, which is random: a scheduler promises no order either
		if free > 0 {
			free--
			_ = r.Cluster.Client().SubResource("binding").Create(ctx, pod,
				&corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}})
			continue
		}
		r.markUnschedulable(ctx, pod)
	}
}

func (r *Rig) markUnschedulable(ctx context.Context, pod *corev1.Pod) {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonUnschedulable {
			return
		}
	}
	patch, err := json.Marshal(map[string]any{"status": corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message:            NoRoom,
		LastTransitionTime: metav1.NewTime(time.Now()),
	}}}})
	if err == nil {
		_ = r.Cluster.Client().Status().Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, patch))
	}
}
