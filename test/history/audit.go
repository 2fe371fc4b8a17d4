package history

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
)

// Accounts say who is who in an audit log.
type Accounts struct {
	// Manager is the managers' user name. Listeners have other accounts of its namespace.
	Manager string
	// Namespace is that of the runners.
	Namespace string
}

// collectorAgent is the end of the garbage collector's user agent in kube-controller-manager.
const collectorAgent = "generic-garbage-collector"

func (a Accounts) actor(event testkube.AuditEvent) Actor {
	accounts := a.Manager[:strings.LastIndex(a.Manager, ":")+1] // of the same namespace
	switch {
	case event.User.Username == a.Manager:
		return Manager
	case strings.HasPrefix(event.User.Username, accounts):
		return Listener
	case strings.HasSuffix(event.UserAgent, collectorAgent):
		return Collector
	default:
		return Other
	}
}

// FromAudit adds to the history what the events of an audit log with objects say, given in the order of their answers.
func (h *History) FromAudit(events []testkube.AuditEvent, accounts Accounts) error {
	revision := uint64(0)          // the largest so far
	newest := map[string]*Change{} // by resource and name
	for _, event := range events {
		by := accounts.actor(event)
		if timedOut(event, accounts.Namespace) {
			h.loseTrack(newest[event.Object.Resource+"/"+event.Object.Name], event, by, revision)
		}
		if !changed(event) {
			continue
		}
		// A Lease of a scale set says who holds that, not who leads.
		ofScaleSet := strings.HasPrefix(event.Object.Name, "scale-set-")
		if by == Manager && event.Object.Resource == "leases" && !ofScaleSet {
			if err := h.addLease(event); err != nil {
				return err
			}
			continue
		}
		if by == Manager && leadersOnly(event) {
			h.Writes = append(h.Writes, Write{Received: event.Received, Credential: event.Credential(), What: describe(event)})
		}
		if event.Object.Namespace != accounts.Namespace {
			continue
		}
		change, err := changeOf(event)
		if err != nil {
			return fmt.Errorf("read what was answered to %s: %w", describe(event), err)
		}
		if change == nil {
			continue
		}
		change.Received, change.Answered, change.By, change.Verb = event.Received, event.Answered, by, event.Verb
		// If two deletions of an object were under way, an answer may come without the revision of the deletion, or
		// even without a UID.
		revision = max(revision, change.Revision)
		if change.Revision == 0 || change.Gone {
			change.Revision = revision
		}
		name := event.Object.Resource + "/" + event.Object.Name
		change.complete(newest[name])
		newest[name] = change
		h.Changes = append(h.Changes, *change)
	}
	return nil
}

// complete takes the object from the change before, which may be nil, if the answer had none.
func (c *Change) complete(before *Change) {
	if before != nil && c.uid() == "" {
		c.Set, c.Runner, c.Pod, c.Pool, c.Claim = before.Set, before.Runner, before.Pod, before.Pool, before.Claim
	}
}

// loseTrack adds that nothing more is known of an object, because a request may have changed it. before is its last
// known change or nil. The object counts as gone until its next change.
func (h *History) loseTrack(before *Change, event testkube.AuditEvent, by Actor, revision uint64) {
	if before == nil {
		return
	}
	lost := *before
	lost.Gone, lost.Lost = true, true
	lost.Revision, lost.Received, lost.Answered = revision, event.Received, event.Answered
	lost.By, lost.Verb = by, event.Verb
	h.Changes = append(h.Changes, lost)
}

// changed reports whether the event is the successful end of a request that was meant to change something.
func changed(event testkube.AuditEvent) bool {
	return ended(event) && event.Response.Code < http.StatusMultipleChoices
}

// timedOut reports whether the event is the end of such a request in a namespace, and etcd did not answer it in time,
// as on a machine with too much to do.
func timedOut(event testkube.AuditEvent, namespace string) bool {
	return ended(event) && event.Response.Code == http.StatusGatewayTimeout && event.Object.Namespace == namespace
}

// ended reports whether the event is the end of a request that was meant to change something.
func ended(event testkube.AuditEvent) bool {
	switch event.Verb {
	case "create", "update", "patch", "delete":
		return event.Stage == "ResponseComplete" && !event.DryRun()
	default:
		return false
	}
}

// leadersOnly reports whether only the leader may make the change. Events and reviews of tokens are no such changes.
func leadersOnly(event testkube.AuditEvent) bool {
	switch event.Object.Resource {
	case "pods", "persistentvolumeclaims", "secrets", "roles", "rolebindings", "serviceaccounts":
		return event.Object.Subresource == "" || event.Object.Subresource == "status"
	default:
		return event.Object.APIGroup == v1alpha1.GroupVersion.Group
	}
}

func describe(event testkube.AuditEvent) string {
	return fmt.Sprintf("%s %s/%s %s", event.Verb, event.Object.Resource, event.Object.Subresource, event.Object.Name)
}

func (h *History) addLease(event testkube.AuditEvent) error {
	lease := &coordinationv1.Lease{}
	if err := json.Unmarshal(event.ResponseObject, lease); err != nil {
		return fmt.Errorf("read what was answered to %s: %w", describe(event), err)
	}
	holder := ""
	if lease.Spec.HolderIdentity != nil {
		holder = *lease.Spec.HolderIdentity
	}
	h.Leases = append(h.Leases, LeaseWrite{Answered: event.Answered, Credential: event.Credential(), Holder: holder})
	return nil
}

// changeOf reads the object that was answered. It returns nil if the request was about another kind.
func changeOf(event testkube.AuditEvent) (*Change, error) {
	switch event.Object.Resource {
	case "ephemeralrunnersets":
		object := &v1alpha1.EphemeralRunnerSet{}
		change, err := read(event, object)
		change.Set = SetOf(object)
		return change, err
	case "ephemeralrunners":
		object := &v1alpha1.EphemeralRunner{}
		change, err := read(event, object)
		change.Runner = RunnerOf(object)
		return change, err
	case "autoscalingrunnersets":
		object := &v1alpha1.AutoscalingRunnerSet{}
		change, err := read(event, object)
		change.Pool = PoolOf(object)
		return change, err
	case "persistentvolumeclaims":
		object := &corev1.PersistentVolumeClaim{}
		change, err := read(event, object)
		change.Claim = ClaimOf(object)
		return change, err
	case "pods":
		if event.Object.Subresource != "" && event.Object.Subresource != "status" {
			return nil, nil // a binding or an eviction answers no pod
		}
		object := &corev1.Pod{}
		change, err := read(event, object)
		change.Pod = PodOf(object)
		change.Gone = change.Gone || (event.Verb == "delete" && endsAtOnce(event, object))
		return change, err
	default:
		return nil, nil
	}
}

// read decodes the object, or what a Status says about it: that is the answer to a deletion if the object is gone with
// it.
func read(event testkube.AuditEvent, object metav1.Object) (*Change, error) {
	change := &Change{}
	var kind metav1.TypeMeta
	if err := json.Unmarshal(event.ResponseObject, &kind); err != nil {
		return change, err
	}
	if kind.Kind == "Status" {
		var status metav1.Status
		if err := json.Unmarshal(event.ResponseObject, &status); err != nil {
			return change, err
		}
		if status.Details != nil {
			object.SetUID(status.Details.UID)
			object.SetName(status.Details.Name)
		}
		change.Gone = true
		return change, nil
	}
	if err := json.Unmarshal(event.ResponseObject, object); err != nil {
		return change, err
	}
	deleting := object.GetDeletionTimestamp() != nil || event.Verb == "delete"
	_, isPod := object.(*corev1.Pod)
	change.Gone = deleting && len(object.GetFinalizers()) == 0 && !isPod
	if object.GetResourceVersion() == "" {
		return change, nil
	}
	revision, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	change.Revision = revision
	return change, err
}

// endsAtOnce reports whether the deletion of a pod has no grace period: none was asked for, nothing runs the pod, or it
// has ended.
func endsAtOnce(event testkube.AuditEvent, pod *corev1.Pod) bool {
	var options metav1.DeleteOptions
	if json.Unmarshal(event.RequestObject, &options) == nil && options.GracePeriodSeconds != nil &&
		*options.GracePeriodSeconds == 0 {
		return true
	}
	return pod.DeletionTimestamp == nil || pod.Spec.NodeName == "" || podEnded(pod)
}

func podEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// SetOf returns what the history needs of a set.
func SetOf(object *v1alpha1.EphemeralRunnerSet) *Set {
	return &Set{
		UID: string(object.UID), Name: object.Name,
		Replicas: object.Spec.Replicas, AssignedJobs: object.Spec.AssignedJobs, PatchID: object.Spec.PatchID,
		MaxRunners: object.Spec.MaxRunners,
	}
}

// RunnerOf returns what the history needs of a runner.
func RunnerOf(object *v1alpha1.EphemeralRunner) *Runner {
	status := object.Status
	return &Runner{
		UID: string(object.UID), Name: object.Name, SetUID: ownerOf(object), Deleting: object.DeletionTimestamp != nil,
		Failed:     status.Phase == v1alpha1.EphemeralRunnerPhaseFailed,
		Outdated:   status.Phase == v1alpha1.EphemeralRunnerPhaseOutdated,
		HasJob:     status.JobID != "" || status.JobRequestID != 0,
		Completed:  status.FinishedAt != nil || status.JobResult != "",
		Succeeded:  status.Phase == v1alpha1.EphemeralRunnerPhaseSucceeded,
		JobPatchID: status.JobPatchID, Claims: claimsOf(object),
	}
}

// claimsOf returns the names of a runner's claims. One without a name is an empty directory.
func claimsOf(object *v1alpha1.EphemeralRunner) (names []string) {
	for _, template := range slices.Sorted(maps.Keys(object.Spec.VolumeClaims)) {
		if name := object.Spec.VolumeClaims[template]; name != "" {
			names = append(names, name)
		}
	}
	return names
}

// PodOf returns what the history needs of a pod.
func PodOf(object *corev1.Pod) *Pod {
	var claims []string
	for i := range object.Spec.Volumes {
		if claim := object.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			claims = append(claims, claim.ClaimName)
		}
	}
	return &Pod{
		UID: string(object.UID), Name: object.Name, RunnerUID: ownerOf(object), Deleting: object.DeletionTimestamp != nil,
		Succeeded: object.Status.Phase == corev1.PodSucceeded, Failed: object.Status.Phase == corev1.PodFailed,
		Claims: claims, Started: hasStarted(object),
	}
}

// hasStarted reports whether the runner container of a pod has started, by its own status.
func hasStarted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == v1alpha1.RunnerContainerName && (c.State.Running != nil || c.State.Terminated != nil)
	})
}

// PoolOf returns what the history needs of a set's claims.
func PoolOf(object *v1alpha1.AutoscalingRunnerSet) *Pool {
	pool := object.Spec.EffectiveVolumeClaimPool()
	return &Pool{
		UID: string(object.UID), Name: object.Name, Max: pool.Max, Events: pool.KeepAfter.Events,
		Results: pool.KeepAfter.Results,
	}
}

// ClaimOf returns what the history needs of a claim. Template is empty if it is no scale set's.
func ClaimOf(object *corev1.PersistentVolumeClaim) *Claim {
	return &Claim{
		UID: string(object.UID), Name: object.Name,
		Set: object.Labels[v1alpha1.LabelScaleSetName], Template: object.Labels[v1alpha1.LabelVolumeClaimTemplate],
	}
}

func ownerOf(object metav1.Object) string {
	if owner := metav1.GetControllerOf(object); owner != nil {
		return string(owner.UID)
	}
	return ""
}
