package ephemeralrunner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// The API server of a simulation: it has one runner, with its pod and Secret, and takes microseconds per request.

var errNoAnswer = errors.New("connection reset")

func notFound() error { return apierrors.NewNotFound(schema.GroupResource{}, name) }

// write records that the API server has something new.
func (s *simulation) write(object client.Object) {
	s.version++
	object.SetResourceVersion(fmt.Sprint(s.version))
}

// Get reads runner and pod from the cache, and the Secret live.
func (s *simulation) Get(ctx context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if _, begins := object.(*v1alpha1.EphemeralRunner); begins {
		controllertest.AwaitTurn(ctx, key)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch object := object.(type) {
	case *v1alpha1.EphemeralRunnerSet:
		newSet().DeepCopyInto(object)
		return nil
	case *v1alpha1.AutoscalingRunnerSet:
		controllertest.Origin(newSet()).DeepCopyInto(object)
		return nil
	case *v1alpha1.EphemeralRunner:
		if s.seenRunner != nil {
			s.seenRunner.DeepCopyInto(object)
			return nil
		}
	case *corev1.Pod:
		if s.seenPod != nil {
			s.seenPod.DeepCopyInto(object)
			return nil
		}
	case *corev1.Secret:
		if s.secret != nil {
			s.secret.DeepCopyInto(object)
			return nil
		}
	}
	return notFound()
}

// List returns the cache's runner.
func (s *simulation) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if runners, ok := list.(*v1alpha1.EphemeralRunnerList); ok && s.seenRunner != nil {
		runners.Items = []v1alpha1.EphemeralRunner{*s.seenRunner.DeepCopy()}
	}
	return nil
}

func (s *simulation) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault(20) {
		return errNoAnswer
	}
	exists := apierrors.NewAlreadyExists(schema.GroupResource{}, name)
	switch object := object.(type) {
	case *corev1.Secret:
		if s.secret != nil {
			return exists
		}
		s.secret = object
		s.secret.UID = types.UID(fmt.Sprint("secret-", s.version))
	case *corev1.Pod:
		if s.pod != nil {
			return exists
		}
		s.pod, s.node = object, node{}
		s.pod.UID, s.pod.CreationTimestamp = types.UID(fmt.Sprint("pod-", s.version)), metav1.Now()
	}
	s.write(object)
	if s.fault(20) {
		return errNoAnswer // although it was done
	}
	return nil
}

func (s *simulation) Update(_ context.Context, object client.Object, _ ...client.UpdateOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault(8) {
		return errNoAnswer
	}
	if s.secret == nil || s.secret.UID != object.GetUID() {
		return notFound()
	}
	s.secret = object.(*corev1.Secret)
	s.write(object)
	if s.fault(8) {
		return errNoAnswer // although it was done
	}
	return nil
}

func (s *simulation) Delete(_ context.Context, object client.Object, options ...client.DeleteOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault(20) {
		return errNoAnswer
	}
	if s.fault(25) {
		return apierrors.NewForbidden(schema.GroupResource{}, name, nil) // like an API server that has just started
	}
	err := s.remove(object, (&client.DeleteOptions{}).ApplyOptions(options))
	if err == nil && s.fault(20) {
		return errNoAnswer // although it was done
	}
	return err
}

func (s *simulation) remove(object client.Object, wanted *client.DeleteOptions) error {
	switch object.(type) {
	case *corev1.Secret:
		if s.secret != nil && wanted.Preconditions != nil && *wanted.Preconditions.UID == s.secret.UID {
			s.secret = nil
		}
	case *v1alpha1.EphemeralRunner:
		s.deleteRunner()
	case *corev1.Pod:
		return s.deletePod(wanted)
	}
	return nil
}

// deleteRunner deletes the runner, which stays for as long as it has finalizers.
func (s *simulation) deleteRunner() {
	if s.runner != nil && len(s.runner.Finalizers) == 0 {
		s.runner = nil
		return
	}
	if s.runner != nil && s.runner.DeletionTimestamp == nil {
		now := metav1.Now()
		s.runner.DeletionTimestamp = &now
		s.write(s.runner)
	}
}

// deletePod is the place where a live job could be killed.
func (s *simulation) deletePod(options *client.DeleteOptions) error {
	if s.pod == nil {
		return notFound()
	}
	if p := options.Preconditions; (p.UID != nil && *p.UID != s.pod.UID) ||
		(p.ResourceVersion != nil && *p.ResourceVersion != s.pod.ResourceVersion) {
		return apierrors.NewConflict(schema.GroupResource{}, name, nil)
	}
	if s.node.running && s.busy {
		s.wrong("the pod of a running job is deleted")
	}
	switch atOnce := s.pod.Spec.NodeName == "" ||
		(options.GracePeriodSeconds != nil && *options.GracePeriodSeconds == 0); {
	case atOnce && s.fault(20):
		s.terminate(0)
		return errNoAnswer // between its two writes
	case atOnce:
		s.losePod()
	default:
		s.terminate(gracePeriod)
	}
	return nil
}

// gracePeriod is that of the simulated pods, in seconds.
const gracePeriod int64 = 30

// terminate begins a pod's end, which its kubelet must finish.
func (s *simulation) terminate(grace int64) {
	if s.pod.DeletionTimestamp == nil {
		due := metav1.NewTime(time.Now().Add(time.Duration(grace) * time.Second))
		s.pod.DeletionTimestamp = &due
		s.pod.DeletionGracePeriodSeconds = &grace
		s.write(s.pod)
	}
}

// Patch removes the runner's finalizers, or writes its job on its pod.
func (s *simulation) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.PatchOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault(20) {
		return errNoAnswer
	}
	if _, ok := object.(*v1alpha1.EphemeralRunner); !ok {
		return nil
	}
	if s.node.running && s.busy {
		s.wrong("the runner of a running job is released")
	}
	if s.runner != nil && s.runner.DeletionTimestamp == nil {
		s.runner.Finalizers = nil // it is deleted next
		s.write(s.runner)
		s.runner.DeepCopyInto(object.(*v1alpha1.EphemeralRunner))
	} else {
		s.runner = nil
	}
	if s.fault(20) {
		return errNoAnswer // although it was done
	}
	return nil
}

// Status returns the writer of the runner's status.
func (s *simulation) Status() client.SubResourceWriter { return simulatedStatus{simulation: s} }

// SubResource serves readers of the pod's status.
func (s *simulation) SubResource(string) client.SubResourceClient {
	return simulatedStatus{simulation: s}
}

type simulatedStatus struct {
	client.SubResourceClient
	simulation *simulation
}

func (w simulatedStatus) Get(ctx context.Context, object, into client.Object, _ ...client.SubResourceGetOption) error {
	w.simulation.mu.Lock()
	unanswered := w.simulation.fault(20)
	w.simulation.mu.Unlock()
	if unanswered {
		return errNoAnswer
	}
	return uncached{w.simulation}.Get(ctx, client.ObjectKeyFromObject(object), into)
}

func (w simulatedStatus) Patch(
	_ context.Context, object client.Object, patch client.Patch, _ ...client.SubResourcePatchOption,
) error {
	s := w.simulation
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runner == nil {
		return notFound()
	}
	if s.fault(20) {
		return errNoAnswer
	}
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	s.mergeStatus(data)
	s.write(s.runner)
	if s.fault(20) {
		return errNoAnswer // although it was done
	}
	s.runner.DeepCopyInto(object.(*v1alpha1.EphemeralRunner))
	return nil
}

// mergeStatus applies a merge patch to the fields of the status.
func (s *simulation) mergeStatus(patch []byte) {
	cleared := map[string]map[string]any{}
	if err := json.Unmarshal(patch, &cleared); err != nil {
		s.Fatal(err)
	}
	for key, value := range cleared["status"] {
		if value == nil {
			s.clear(key)
		}
	}
	if err := json.Unmarshal(patch, s.runner); err != nil {
		s.Fatal(err)
	}
	for field, noted := range map[string]map[string]metav1.Time{"failures": s.runner.Status.Failures,
		"disruptions": s.runner.Status.Disruptions} {
		patched, _ := cleared["status"][field].(map[string]any)
		for attempt, at := range patched {
			if at == nil {
				delete(noted, attempt)
			}
		}
	}
}

func (s *simulation) clear(key string) {
	status := &s.runner.Status
	switch key {
	case "reason":
		status.Reason = ""
	case "message":
		status.Message = ""
	case "ready":
		status.Ready = false
	case "runnerId":
		status.RunnerID = 0
	case "phase":
		status.Phase = ""
	case "failures":
		status.Failures = nil
	case "disruptions":
		status.Disruptions = nil
	default:
		s.Fatalf("nobody clears %s", key)
	}
}
