package watch

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/prices"
	"github.com/harrier-ci/harrier/operations/history/watch/limited"
	"github.com/harrier-ci/harrier/operations/history/watch/times"
)

// Objects are the runners, their pods and the scale sets of a cluster, as far as rows and pages are made of them.
type Objects struct {
	// Name is the cluster's.
	Name string
	// Nodes reads nodes by name; nil if their types are not to be told.
	Nodes client.Reader
	// Prices name labels of nodes that are kept with jobs.
	Prices prices.Rules
	Clock  clock.PassiveClock

	cache cache.Cache
	// jobPods are the pods in which container hooks run jobs.
	jobPods cache.Cache
	minutes minutes
	limited limited.Times
	nodes   *lru.Cache
	// nodesRefused is the time of the API server's last refusal to let a node be read.
	nodesRefused time.Time
}

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
	ofJobs, err := labels.Parse(v1alpha1.LabelRunnerPod + ",!" + v1alpha1.LabelRunner)
	if err != nil {
		return nil, err
	}
	options.ByObject = map[client.Object]cache.ByObject{&corev1.Pod{}: {Label: ofJobs, Transform: stripPod}}
	jobPods, err := cache.New(config, options)
	if err != nil {
		return nil, fmt.Errorf("set up the watch of jobs' pods: %w", err)
	}
	return &Objects{Name: name, Nodes: nodes, Clock: now, cache: objects, jobPods: jobPods,
		nodes: lru.New(maxNodes)}, nil
}

// maxNodes bounds what is remembered of nodes: 5,000 are the most that Kubernetes supports in a cluster.
const maxNodes = 5000

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
	handlers[&v1alpha1.AutoscalingRunnerSet{}] = toolscache.ResourceEventHandlerFuncs{
		AddFunc: o.set, UpdateFunc: func(_, object any) { o.set(object) }, DeleteFunc: o.setGone,
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
	if _, err := o.cache.GetInformer(ctx, &v1alpha1.EphemeralRunnerSet{}, cache.BlockUntilSynced(false)); err != nil {
		return fmt.Errorf("watch scale sets: %w", err)
	}
	informer, err := o.jobPods.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err == nil {
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(object any) { o.jobPod(ctx, object, report) },
			UpdateFunc: func(was, object any) {
				if !began(was) && began(object) { // what it requests besides CPU and memory counts from now on
					o.jobPod(ctx, object, report)
				}
			},
		})
	}
	if err != nil {
		return fmt.Errorf("watch jobs' pods: %w", err)
	}
	for _, each := range []cache.Cache{o.jobPods, o.cache} { // a runner finds the pods of its job
		go func() { _ = each.Start(ctx) }() // it ends with the context only
		if !each.WaitForCacheSync(ctx) {
			return fmt.Errorf("read runners, their pods and scale sets: %w", context.Cause(ctx))
		}
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
	o.report(runner, pod, report)
}

// report reports the job of a runner, if it has had one.
func (o *Objects) report(runner *v1alpha1.EphemeralRunner, pod *corev1.Pod, report func(ledger.Job)) {
	if job, had := JobOf(o.Name, runner, pod, o.podsOf(runner)...); had {
		o.limited.Add(&job, o.Clock.Now())
		report(job)
	}
}

// podsOf returns the pods in which container hooks run the job of a runner. Their requests are part of the job's as soon as
// they are there: requests are only ever added to a row.
func (o *Objects) podsOf(runner *v1alpha1.EphemeralRunner) []corev1.Pod {
	var pods corev1.PodList
	_ = o.jobPods.List(context.Background(), &pods, client.InNamespace(runner.Namespace),
		client.MatchingLabels{v1alpha1.LabelRunnerPod: runner.Name}, client.UnsafeDisableDeepCopy) // it fails before Start only
	return pods.Items
}

func (o *Objects) jobPod(ctx context.Context, object any, report func(ledger.Job)) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	runner := &v1alpha1.EphemeralRunner{}
	key := client.ObjectKey{Namespace: pod.Namespace, Name: pod.Labels[v1alpha1.LabelRunnerPod]}
	if o.cache.Get(ctx, key, runner) == nil { // or it comes later, and finds the pod
		o.runner(ctx, runner, report)
	}
}

func (o *Objects) runnerGone(ctx context.Context, object any, report func(ledger.Job)) {
	last, missed := object.(toolscache.DeletedFinalStateUnknown)
	if missed {
		object = last.Obj
	}
	runner, ok := object.(*v1alpha1.EphemeralRunner)
	if !ok {
		return
	}
	o.runner(ctx, runner, report)
	if missed {
		return // nobody saw when it went: the search for absent runners finds it
	}
	job, had := JobOf(o.Name, runner, nil)
	if times.Believe(&job, o.Clock.Now()); had && job.Finished.IsZero() {
		job.Finished, job.Ending = o.Clock.Now().UTC().Truncate(time.Second), ledger.EndingRunnerGone
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
	o.report(runner, pod, report)
}

func (o *Objects) set(object any) {
	if set, ok := object.(*v1alpha1.AutoscalingRunnerSet); ok {
		now := o.Clock.Now()
		o.minutes.saw(SampleOf(o.Name, set, now), now)
		o.limited.Saw(set, now)
	}
}

func (o *Objects) setGone(object any) {
	if last, missed := object.(toolscache.DeletedFinalStateUnknown); missed {
		object = last.Obj
	}
	if set, ok := object.(*v1alpha1.AutoscalingRunnerSet); ok {
		o.limited.Gone(client.ObjectKeyFromObject(set))
		o.minutes.mu.Lock()
		defer o.minutes.mu.Unlock()
		delete(o.minutes.of, client.ObjectKeyFromObject(set))
	}
}

// Samples returns what scale sets looked like in the minute that begins at a time.
func (o *Objects) Samples(minute time.Time) (samples []ledger.Sample) {
	for _, looks := range o.sets(minute) {
		samples = append(samples, o.minutes.in(minute, looks))
	}
	return samples
}

// Sets returns how scale sets look at this moment. Jobs run that have a row which says so: whoever shows both shows the
// same.
func (o *Objects) Sets() []ledger.Sample {
	var runners v1alpha1.EphemeralRunnerList
	_ = o.cache.List(context.Background(), &runners, client.UnsafeDisableDeepCopy) // it fails before Start only
	running := map[types.NamespacedName]int64{}
	for i := range runners.Items {
		if runners.Items[i].Status.JobRunning() {
			running[kube.ScaleSetOf(&runners.Items[i])]++
		}
	}
	now := o.Clock.Now().UTC().Truncate(time.Second)
	sets := o.sets(now)
	for i := range sets {
		s := &sets[i]
		s.At = now
		shown := s.Running
		s.Running = running[types.NamespacedName{Namespace: s.Namespace, Name: s.Set}]
		s.Waiting = max(0, s.Waiting+shown-s.Running)
	}
	return sets
}

func (o *Objects) sets(at time.Time) (samples []ledger.Sample) {
	var sets v1alpha1.AutoscalingRunnerSetList
	if o.cache.List(context.Background(), &sets, client.UnsafeDisableDeepCopy) != nil {
		return nil // it reads memory, and fails before Start only
	}
	for i := range sets.Items {
		samples = append(samples, SampleOf(o.Name, &sets.Items[i], at))
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
		var env []corev1.EnvVar
		for _, variable := range containers[i].Env {
			if variable.Name == kube.EnvContainerHooks || variable.Name == envDocker {
				env = append(env, corev1.EnvVar{Name: variable.Name})
			}
		}
		stripped = append(stripped, corev1.Container{
			Env: env, Name: containers[i].Name, Image: containers[i].Image, RestartPolicy: containers[i].RestartPolicy,
			Resources: corev1.ResourceRequirements{Requests: containers[i].Resources.Requests},
		})
	}
	return stripped
}
