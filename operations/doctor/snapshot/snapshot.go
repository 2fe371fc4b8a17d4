// Package snapshot reads what the doctor has to know of a cluster: scale sets, what belongs to them, and who may do
// what. It changes nothing, sends nothing to GitHub, skips what the caller may not read, and says so.
//
//	Connect ─▶ Cluster ─▶ Gather ─▶ Snapshot
package snapshot

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/informer"
)

// Snapshot is the state of the cluster at one time.
type Snapshot struct {
	// Namespace and Name are those requested.
	Namespace, Name string
	// NotInstalled is set if the API server does not know our kinds.
	NotInstalled bool
	Managers     []appsv1.Deployment
	// ManagerPods are the pods that Deployments have made in the managers' namespaces.
	ManagerPods []corev1.Pod
	// Ledgers keep the ledger of jobs.
	Ledgers []appsv1.StatefulSet
	Sets    []Set
	// Listeners are those of all namespaces, whether they count or not.
	Listeners []v1alpha1.AutoscalingListener
	// Others are the scale sets that were not requested, as NAMESPACE/NAME.
	Others []string
	// LeftClaims are claims of scale sets that don't exist.
	LeftClaims []corev1.PersistentVolumeClaim
	// LeftSnapshots are VolumeSnapshots of scale sets that don't exist.
	LeftSnapshots []metav1.PartialObjectMetadata
	// Left are the Secrets, Roles and RoleBindings of scale sets that don't exist: their metadata and kinds.
	Left []metav1.PartialObjectMetadata
	// OutdatedCRDs is an error that names what the CustomResourceDefinitions lack. It is nil if they lack nothing or could
	// not be read.
	OutdatedCRDs error
	// Unread are the kinds that could not be read, with the error.
	Unread map[string]error
	// Unreadable are objects that can't be decoded as a whole. Sets has the rest of such a set.
	Unreadable []*informer.UnreadableError
}

// Set is a scale set with everything that belongs to it.
type Set struct {
	v1alpha1.AutoscalingRunnerSet
	RunnerSets []v1alpha1.EphemeralRunnerSet
	Runners    []v1alpha1.EphemeralRunner
	Pods       []corev1.Pod
	// JobPods are the pods in which container hooks run the jobs of the set's runners.
	JobPods []corev1.Pod
	Quotas  []corev1.ResourceQuota
	// Claims are those of volumeClaimTemplates, and Volumes their volumes; Nodes are all of the cluster, none if they
	// were not read.
	Claims  []corev1.PersistentVolumeClaim
	Volumes []corev1.PersistentVolume
	Nodes   []corev1.Node
	// StorageClasses are the metadata of all in the cluster, nil if no volume of the set needs one, or they were not read.
	StorageClasses *metav1.PartialObjectMetadataList
	// Budgets are the PodDisruptionBudgets of the set's namespace, nil if they were not read.
	Budgets *policyv1.PodDisruptionBudgetList
	// Listener is the set's listener, nil if there is none or it was not read.
	Listener *v1alpha1.AutoscalingListener
	// Denials are permissions that manager or listener lack.
	Denials []Denial
	// Bindings give rights to the account of the set's runners, as KIND NAMESPACE/NAME. They are read if runners have
	// no token of it.
	Bindings []string
	// Unmarked is set if the manager may not mark pods as busy.
	Unmarked Denial
	// Warnings are Events of type Warning about the set and its runners, which were read at Now.
	Warnings []corev1.Event
	Now      time.Time
	// Credentials is the reason why the Secret can't be used, nil if it can or was not read.
	Credentials error
}

// MayServe reports whether a manager runs in a namespace, so that listeners there count. If no manager is known, one
// may run in any namespace.
func (s *Snapshot) MayServe(namespace string) bool {
	return len(s.Managers) == 0 || slices.ContainsFunc(s.Managers, func(m appsv1.Deployment) bool {
		return m.Namespace == namespace
	})
}

// RunnerSet returns the EphemeralRunnerSet in use, or nil if there is none.
func (s *Set) RunnerSet() *v1alpha1.EphemeralRunnerSet {
	if len(s.RunnerSets) == 0 {
		return nil
	}
	return &s.RunnerSets[0]
}

// SortPods moves the pods of container hooks from the set's pods to its JobPods, and adds those among others that are
// named after its runners.
func (s *Set) SortPods(others []corev1.Pod) {
	runners := s.Pods[:0:0]
	for i := range s.Pods {
		if pod := &s.Pods[i]; kube.IsJobPod(pod) {
			s.JobPods = append(s.JobPods, *pod)
		} else {
			runners = append(runners, *pod)
		}
	}
	s.Pods = runners
	for i := range others {
		if pod := &others[i]; kube.IsJobPod(pod) && s.named(kube.RunnerOfJobPod(pod)) && !s.HasJobPod(pod.Name) {
			s.JobPods = append(s.JobPods, *pod)
		}
	}
}

// HasJobPod reports whether a pod of container hooks has the name.
func (s *Set) HasJobPod(name string) bool {
	return slices.ContainsFunc(s.JobPods, func(p corev1.Pod) bool { return p.Name == name })
}

// UsesContainerHooks reports whether the set's runners run jobs in pods of their own.
func (s *Set) UsesContainerHooks() bool {
	_, uses := kube.RunnerEnv(&s.Spec.Template.Spec, kube.EnvContainerHooks)
	return uses
}

// named reports whether a name begins as those of the set's runners do.
func (s *Set) named(name string) bool {
	return slices.ContainsFunc(s.RunnerSets, func(set v1alpha1.EphemeralRunnerSet) bool {
		return kube.IsRunnerName(set.Name, name)
	})
}
