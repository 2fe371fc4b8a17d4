package ephemeralrunner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

var errGitHubAway = errors.New("GitHub is away")

// fakeGitHub knows registrations by name.
type fakeGitHub struct {
	mu         sync.Mutex
	registered map[string]actions.RunnerReference
	nextID     int
	calls      []string
	// jit, find and remove are the errors of the calls; unresolved is the error of reading the credentials.
	jit, find, remove, unresolved error
	// lost makes the next answer to a registration get lost.
	lost bool
	// hold and holdRemove, if set, block registrations and removals until they are closed.
	hold, holdRemove chan struct{}
	recorded         string // the version in the record of each runner
}

func newFakeGitHub() *fakeGitHub {
	return &fakeGitHub{registered: map[string]actions.RunnerReference{}, nextID: 100}
}

func (g *fakeGitHub) GenerateJITConfig(
	_ context.Context, scaleSetID int, request actions.JITConfigRequest,
) (*actions.JITConfig, error) {
	if g.hold != nil {
		<-g.hold
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, "jit")
	if g.jit != nil {
		return nil, g.jit
	}
	if _, taken := g.registered[request.Name]; taken {
		return nil, actions.ErrRunnerExists
	}
	g.nextID++
	reference := actions.RunnerReference{ID: g.nextID, Name: request.Name, RunnerScaleSetID: scaleSetID}
	g.registered[request.Name] = reference
	if g.lost {
		g.lost = false
		return nil, errGitHubAway
	}
	return &actions.JITConfig{Runner: reference, EncodedJITConfig: fmt.Sprintf("config-%d", g.nextID)}, nil
}

func (g *fakeGitHub) GetRunnerByName(_ context.Context, name string) (*actions.RunnerReference, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, "find")
	if g.find != nil {
		return nil, g.find
	}
	if reference, known := g.registered[name]; known {
		reference.Version = g.recorded
		return &reference, nil
	}
	return nil, actions.ErrRunnerNotFound
}

func (g *fakeGitHub) RemoveRunner(_ context.Context, id int) error {
	if g.holdRemove != nil {
		<-g.holdRemove
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, fmt.Sprintf("remove %d", id))
	if g.remove != nil {
		return g.remove
	}
	for name, reference := range g.registered {
		if reference.ID == id {
			delete(g.registered, name)
		}
	}
	return nil
}

// said returns the calls since its last call.
func (g *fakeGitHub) said() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	calls := g.calls
	g.calls = nil
	return calls
}

func (a *recordingAPI) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if err := a.note("create", object); err != nil {
		return err
	}
	// A fake API server sets neither the UID, by which attempts are told apart, nor the creation time.
	object.SetUID(uuid.NewUUID())
	object.SetCreationTimestamp(metav1.Now())
	return a.WithWatch.Create(ctx, object, options...)
}

func (a *recordingAPI) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	if err := a.note("update", object); err != nil {
		return err
	}
	return a.WithWatch.Update(ctx, object, options...)
}

func (a *recordingAPI) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	if err := a.note("delete", object); err != nil {
		return err
	}
	given := (&client.DeleteOptions{}).ApplyOptions(options)
	if _, ok := object.(*corev1.Pod); ok {
		a.grace = given.GracePeriodSeconds
	}
	if object.GetObjectKind().GroupVersionKind().Kind == "Job" {
		a.propagation = given.PropagationPolicy
	}
	return a.WithWatch.Delete(ctx, object, options...)
}

func (a *recordingAPI) Patch(
	ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption,
) error {
	if err := a.note("patch", object); err != nil {
		return err
	}
	<-time.After(a.latency)
	return a.WithWatch.Patch(ctx, object, patch, options...)
}

// Get counts only reads of Secrets: everything else comes from the cache.
func (a *recordingAPI) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	if _, live := object.(*corev1.Secret); live {
		if err := a.note("get", object); err != nil {
			return err
		}
	}
	return a.WithWatch.Get(ctx, key, object, options...)
}

// List doesn't count lists of runners, which come from the cache.
func (a *recordingAPI) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, cached := list.(*v1alpha1.EphemeralRunnerList); !cached {
		if err := a.note("list", list); err != nil {
			return err
		}
	}
	return a.WithWatch.List(ctx, list, options...)
}

func (a *recordingAPI) Status() client.SubResourceWriter {
	return recordingStatus{a.WithWatch.Status(), a}
}

// SubResource only reads: a pod's status subresource returns the whole pod.
func (a *recordingAPI) SubResource(name string) client.SubResourceClient {
	return subResource{a.WithWatch.SubResource(name), a, name}
}

type subResource struct {
	client.SubResourceClient
	api  *recordingAPI
	name string
}

func (s subResource) Get(ctx context.Context, object, into client.Object, _ ...client.SubResourceGetOption) error {
	if err := s.api.note("get "+s.name, object); err != nil {
		return err
	}
	return s.api.WithWatch.Get(ctx, client.ObjectKeyFromObject(object), into)
}

type recordingStatus struct {
	client.SubResourceWriter
	api *recordingAPI
}

func (s recordingStatus) Patch(
	ctx context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption,
) error {
	if err := s.api.note("patch status", object); err != nil {
		return err
	}
	<-time.After(s.api.latency)
	if s.api.unanswered == nil {
		return s.SubResourceWriter.Patch(ctx, object, patch, options...)
	}
	answer := object.DeepCopyObject().(client.Object)
	return errors.Join(s.SubResourceWriter.Patch(ctx, answer, patch, options...), s.api.unanswered)
}

// sent returns the requests since its last call.
func (a *recordingAPI) sent() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	requests := a.requests
	a.requests = nil
	return strings.Join(requests, ", ")
}

// staleCache shows the runner as it was, and the pod too if one is given.
type staleCache struct {
	*recordingAPI
	runner *v1alpha1.EphemeralRunner
	pod    *corev1.Pod
}

func (c staleCache) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	switch object := object.(type) {
	case *v1alpha1.EphemeralRunner:
		c.runner.DeepCopyInto(object)
		return nil
	case *corev1.Pod:
		if c.pod != nil {
			c.pod.DeepCopyInto(object)
			return nil
		}
	}
	return c.recordingAPI.Get(ctx, key, object, options...)
}

// podlessCache does not show the pod yet.
type podlessCache struct{ *recordingAPI }

func (c podlessCache) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	if _, ok := object.(*corev1.Pod); ok {
		return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
	}
	return c.recordingAPI.Get(ctx, key, object, options...)
}

// setlessCache can't tell whose the runner is.
type setlessCache struct{ *recordingAPI }

func (c setlessCache) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	if _, ok := object.(*v1alpha1.EphemeralRunnerSet); ok {
		return errors.New("the cache is not ready")
	}
	return c.recordingAPI.Get(ctx, key, object, options...)
}

// noReader fails the test if the API server is read instead of the cache.
type noReader struct {
	client.Reader
	*fixture
}

func (r noReader) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	r.Errorf("%T is read from the API server", object)
	return errors.New("nothing is read from the API server")
}
