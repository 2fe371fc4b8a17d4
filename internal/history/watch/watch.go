package watch

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/history/ledger"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
)

// Objects are the runners, their pods and the scale sets of a cluster, as far as rows and pages are made of them.
type Objects struct {
	// Name is the cluster's.
	Name string
	// Nodes reads nodes by name; nil if their types are not to be told.
	Nodes client.Reader
	Clock clock.PassiveClock

	cache     cache.Cache
	nodeTypes *lru.Cache
	// nodesRefused is the time of the API server's last refusal to let a node be read.
	nodesRefused time.Time
}

// After a refusal no node is read for nodeRefusalBackoff: somebody has to change a role first.
const nodeRefusalBackoff = 10 * time.Minute

// NewObjects returns objects of one namespace, or of all if it is empty. They are read by Start.
func NewObjects(
	config *rest.Config, namespace, name string, nodes client.Reader, now clock.PassiveClock,
) (*Objects, error) {
	runnerPods := labels.SelectorFromSet(labels.Set{v1alpha1.LabelRunner: "True"})
	options := cache.Options{
		Scheme: kinds.Scheme(), Mapper: kinds.Mapper(),
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.AutoscalingRunnerSet{}: {Transform: stripSet},
			&v1alpha1.EphemeralRunnerSet{}:   {Transform: stripRunnerSet},
			&v1alpha1.EphemeralRunner{}:      {Transform: stripRunner},
			&corev1.Pod{}:                    {Label: runnerPods, Transform: stripPod},
		},
	}
	if namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	objects, err := cache.New(config, options)
	if err != nil {
		return nil, fmt.Errorf("set up the watch of runners: %w", err)
	}
	return &Objects{Name: name, Nodes: nodes, Clock: now, cache: objects, nodeTypes: lru.New(maxNodeTypes)}, nil
}

// maxNodeTypes bounds what is remembered of nodes: 5,000 are the most that Kubernetes supports in a cluster.
const maxNodeTypes = 5000

// Start watches until the context ends, and reports each job that it sees. It returns when all objects have been read.
func (o *Objects) Start(ctx context.Context, report func(ledger.Job)) error {
	handlers := map[client.Object]toolscache.ResourceEventHandler{
		&v1alpha1.EphemeralRunner{}: toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { o.runner(ctx, object, report) },
			UpdateFunc: func(_, object any) { o.runner(ctx, object, report) },
			DeleteFunc: func(object any) { o.runnerGone(ctx, object, report) },
		},
		&corev1.Pod{}: toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { o.pod(ctx, object, report) },
			UpdateFunc: func(_, object any) { o.pod(ctx, object, report) },
			DeleteFunc: func(object any) { o.pod(ctx, object, report) },
		},
	}
	for kind, handler := range handlers {
		informer, err := o.cache.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	for _, kind := range []client.Object{&v1alpha1.AutoscalingRunnerSet{}, &v1alpha1.EphemeralRunnerSet{}} {
		if _, err := o.cache.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch scale sets: %w", err)
		}
	}
	go func() { _ = o.cache.Start(ctx) }() // it ends with the context only
	if !o.cache.WaitForCacheSync(ctx) {
		return fmt.Errorf("read runners, their pods and scale sets: %w", context.Cause(ctx))
	}
	return nil
}

func (o *Objects) runner(ctx context.Context, object any, report func(ledger.Job)) {
	runner, ok := object.(*v1alpha1.EphemeralRunner)
	if !ok {
		return
	}
	pod := &corev1.Pod{}
	if o.cache.Get(ctx, client.ObjectKeyFromObject(runner), pod) != nil {
		pod = nil
	}
	if job, had := JobOf(o.Name, runner, pod); had {
		report(job)
	}
}

func (o *Objects) runnerGone(ctx context.Context, object any, report func(ledger.Job)) {
	if last, missed := object.(toolscache.DeletedFinalStateUnknown); missed {
		object = last.Obj
	}
	runner, ok := object.(*v1alpha1.EphemeralRunner)
	if !ok {
		return
	}
	o.runner(ctx, runner, report)
	if job, had := JobOf(o.Name, runner, nil); had && job.Finished.IsZero() {
		job.Finished = o.Clock.Now().UTC().Truncate(time.Second)
		if job.Result == "" {
			job.Result = ledger.ResultUnknown
		}
		report(job)
	}
}

func (o *Objects) pod(ctx context.Context, object any, report func(ledger.Job)) {
	if last, missed := object.(toolscache.DeletedFinalStateUnknown); missed {
		object = last.Obj
	}
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	runner := &v1alpha1.EphemeralRunner{}
	if o.cache.Get(ctx, client.ObjectKeyFromObject(pod), runner) != nil {
		return // its runner comes later, and finds the pod
	}
	if job, had := JobOf(o.Name, runner, pod); had {
		report(job)
	}
}

// Samples returns the states of scale sets.
func (o *Objects) Samples(now time.Time) (samples []ledger.Sample) {
	var sets v1alpha1.AutoscalingRunnerSetList
	if o.cache.List(context.Background(), &sets) != nil {
		return nil // it reads memory, and fails before Start only
	}
	for i := range sets.Items {
		samples = append(samples, SampleOf(o.Name, &sets.Items[i], now))
	}
	return samples
}

// Runners returns the UIDs of all runners.
func (o *Objects) Runners() map[string]bool {
	var runners v1alpha1.EphemeralRunnerList
	existing := map[string]bool{}
	if o.cache.List(context.Background(), &runners, client.UnsafeDisableDeepCopy) == nil {
		for i := range runners.Items {
			existing[string(runners.Items[i].UID)] = true
		}
	}
	return existing
}

// NodeType returns the type of a node, such as m7i.4xlarge, empty if it has none or the API server does not say. Nodes
// are only read by name.
func (o *Objects) NodeType(ctx context.Context, name string) string {
	if known, ok := o.nodeTypes.Get(name); ok {
		return known.(string)
	}
	if o.Nodes == nil || o.Clock.Since(o.nodesRefused) < nodeRefusalBackoff {
		return ""
	}
	node := metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := o.Nodes.Get(limited, client.ObjectKey{Name: name}, &node)
	switch {
	case err == nil, apierrors.IsNotFound(err):
		kind := node.Labels[corev1.LabelInstanceTypeStable]
		o.nodeTypes.Add(name, kind)
		return kind
	default:
		o.nodesRefused = o.Clock.Now()
		return ""
	}
}

// stripRunner keeps what rows are made of, and as much of each text: a runner's spec has its whole pod, and a status may
// have been made as large as etcd takes it.
func stripRunner(object any) (any, error) {
	if runner, ok := object.(*v1alpha1.EphemeralRunner); ok {
		runner.Spec, runner.ManagedFields, runner.Annotations = v1alpha1.EphemeralRunnerSpec{}, nil, nil
		runner.Status.Conditions, runner.Status.Failures = nil, nil
		status := &runner.Status
		if status.HadJob() {
			status.Message = "" // what keeps it from starting is told of others
		}
		for _, text := range []*string{&status.Reason, &status.Message, &status.RunnerName, &status.JobID,
			&status.JobRepositoryName, &status.JobWorkflowRef, &status.JobDisplayName, &status.Event, &status.JobResult} {
			*text = ledger.Clean(*text)
		}
		status.Disruptions = nil
	}
	return object, nil
}

// stripSet keeps where the set is on GitHub, and what its limits follow from.
func stripSet(object any) (any, error) {
	if set, ok := object.(*v1alpha1.AutoscalingRunnerSet); ok {
		spec, drained := set.Spec, set.Drained()
		set.Spec, set.ManagedFields, set.Annotations = v1alpha1.AutoscalingRunnerSetSpec{
			GitHubConfigUrl: spec.GitHubConfigUrl, MaxRunners: spec.MaxRunners, MinRunners: spec.MinRunners,
			PlannedCapacity: spec.PlannedCapacity,
		}, nil, nil
		if drained {
			set.Annotations = map[string]string{v1alpha1.AnnotationDrained: v1alpha1.DrainedValue}
		}
	}
	return object, nil
}

// stripRunnerSet keeps the jobs that wait, and what the limits of its scale set follow from.
func stripRunnerSet(object any) (any, error) {
	if set, ok := object.(*v1alpha1.EphemeralRunnerSet); ok {
		set.ManagedFields, set.Annotations = nil, nil
		set.Spec = v1alpha1.EphemeralRunnerSetSpec{AssignedJobs: set.Spec.AssignedJobs, MaxRunners: set.Spec.MaxRunners}
		set.Status = v1alpha1.EphemeralRunnerSetStatus{Listener: set.Status.Listener, Capacity: set.Status.Capacity}
	}
	return object, nil
}

// stripPod keeps the node or, without one, what the pod asks of a node; and the requests, images and states of
// containers.
func stripPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	phases, told := pod.Annotations[v1alpha1.AnnotationPhases]
	pod.ManagedFields, pod.Annotations = nil, nil
	if told {
		pod.Annotations = map[string]string{v1alpha1.AnnotationPhases: phases}
	}
	spec := pod.Spec
	pod.Spec = corev1.PodSpec{
		NodeName: spec.NodeName, Containers: stripContainers(spec.Containers),
		InitContainers: stripContainers(spec.InitContainers),
	}
	if spec.NodeName == "" {
		pod.Spec.NodeSelector, pod.Spec.Affinity = spec.NodeSelector, spec.Affinity
	}
	return pod, nil
}

func stripContainers(containers []corev1.Container) []corev1.Container {
	stripped := make([]corev1.Container, 0, len(containers))
	for i := range containers {
		stripped = append(stripped, corev1.Container{
			Name: containers[i].Name, Image: containers[i].Image, RestartPolicy: containers[i].RestartPolicy,
			Resources: corev1.ResourceRequirements{Requests: containers[i].Resources.Requests},
		})
	}
	return stripped
}
