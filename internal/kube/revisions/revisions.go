// Package revisions tells the pods of one Deployment apart by the template that they were made from. The manager asks
// it which pods it must not act beside, and the doctor why a manager doesn't act.
//
// What decides is written by Kubernetes' own controllers: the ReplicaSet that controls a pod, and the hash of the
// template in the ReplicaSet's name. A label alone could be anybody's.
package revisions

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/build"
)

// Revision is a template of a Deployment: pods with the same one are the same program with the same settings.
type Revision struct{ Namespace, Deployment, Hash string }

// Of returns the revision of a pod. ok is false for a pod that no Deployment has made.
func Of(pod *corev1.Pod) (revision Revision, ok bool) {
	owner, hash := metav1.GetControllerOf(pod), pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if owner == nil || owner.Kind != "ReplicaSet" || hash == "" ||
		!strings.HasPrefix(owner.APIVersion, appsv1.GroupName+"/") {
		return Revision{}, false
	}
	deployment, ok := strings.CutSuffix(owner.Name, "-"+hash)
	return Revision{Namespace: pod.Namespace, Deployment: deployment, Hash: hash}, ok && deployment != ""
}

// Selector selects the pods that any Deployment may have made, and leaves out those of scale sets: ARC's runners have
// the hash's label, too.
func Selector() labels.Selector {
	selector, err := labels.Parse(appsv1.DefaultDeploymentUniqueLabelKey + ",!" + v1alpha1.LabelScaleSetName)
	if err != nil {
		panic(err) // both are valid keys
	}
	return selector
}

// Others returns the pods of the revision's Deployment that were made from another template and live, by name. A pod
// that is being deleted lives until it is gone: its containers may run until then, whatever its deadline says. One that
// has ended doesn't run again.
func (r Revision) Others(pods []corev1.Pod) (others []corev1.Pod) {
	for i := range pods {
		other, ok := Of(&pods[i])
		if ok && other.Namespace == r.Namespace && other.Deployment == r.Deployment && other.Hash != r.Hash &&
			!ended(&pods[i]) {
			others = append(others, pods[i])
		}
	}
	slices.SortFunc(others, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return others
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// AllDeleted reports whether each of the pods is being deleted.
func AllDeleted(pods []corev1.Pod) bool {
	return !slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.DeletionTimestamp == nil })
}

// Acting returns those of a manager's pods that may act without holding its Lease: a container has started, and it
// wasn't told that it is of this program, whose managers all take the Lease. ARC's takes none with one replica.
func Acting(pods []corev1.Pod) (acting []corev1.Pod) {
	for i := range pods {
		if pods[i].Status.Phase == corev1.PodRunning && !takesLease(&pods[i]) {
			acting = append(acting, pods[i])
		}
	}
	return acting
}

func takesLease(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(container corev1.Container) bool {
		return slices.Contains(container.Args, "--"+build.ProgramFlag+"="+build.Program)
	})
}

// most is how many pods a text names.
const most = 3

// Describe names pods in a text for people, and says which of them are being deleted.
func Describe(pods []corev1.Pod) string {
	var named []string
	for i := range pods[:min(most, len(pods))] {
		pod := &pods[i]
		text := pod.Name
		if since := pod.DeletionTimestamp; since != nil {
			text += " (is being deleted, and had time until " + since.UTC().Format(time.RFC3339)
			if pod.Spec.NodeName != "" {
				text += ", node " + pod.Spec.NodeName
			}
			text += ")"
		}
		named = append(named, text)
	}
	if more := len(pods) - len(named); more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	return strings.Join(named, ", ")
}

// Advice says what to do about pods that keep a manager from acting.
func (r Revision) Advice(pods []corev1.Pod) string {
	if AllDeleted(pods) {
		return fmt.Sprintf("wait: a pod is gone when its node has ended it. If a node is lost for good, delete the "+
			"Node; or, if you know that nothing runs there any more, kubectl -n %s delete pod NAME --force", r.Namespace)
	}
	return fmt.Sprintf("find out why the Deployment keeps them: kubectl -n %s rollout status deployment/%s; one that is "+
		"paused goes on with kubectl -n %[1]s rollout resume deployment/%[2]s", r.Namespace, r.Deployment)
}
