package why

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/informer"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/operations/doctor/diagnosis"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/finding"
	"github.com/harrier-ci/harrier/operations/plugin/ledger"
)

// fact has what is known of one job or runner.
type fact struct {
	namespace, scaleSet string
	// Of runner, pod and waiting one at least is set.
	runner  *v1alpha1.EphemeralRunner
	pod     *corev1.Pod
	waiting *v1alpha1.WaitingJob
	events  []corev1.Event
	// finding is what keeps the scale set from running more jobs, for a job that has no runner yet; nil if nothing does.
	finding *finding.Finding
	// limit is that of the scale set at present, and recorded the job's row in the ledger; nil if there is none.
	limit    *v1alpha1.Limit
	recorded *ledger.Job
}

// scope is the namespace to look in, or all of them and, as far as that is not allowed, the one.
type scope struct {
	namespace  string
	everywhere bool
}

// gathering is the search while it goes on.
type gathering struct {
	cluster snapshot.Cluster
	scope   scope
	subject Subject
	facts   []*fact
	// unread has the kinds that could not be read, with the reason, and narrowed the kinds that could be read in one
	// namespace only.
	unread   map[string]error
	narrowed []string
	// foreign is set if there is a pod of the name that is no runner's.
	foreign bool
	// notes say what there is to know besides the facts.
	notes []string
}

const (
	// pageSize objects are read at a time: a runner has some kilobytes.
	pageSize = 500
	// Of a run mostFacts jobs are told at most. A matrix has at most 256.
	mostFacts = 256
	// Of a pod and its runner mostEvents Events are read at most.
	mostEvents = 100
)

// gather looks for what the subject names. It fails only if the time is up.
func gather(ctx context.Context, cluster snapshot.Cluster, in scope, subject Subject) (*gathering, error) {
	g := &gathering{cluster: cluster, scope: in, subject: subject, unread: map[string]error{}}
	if subject == (Subject{}) {
		g.unasked(ctx)
	} else {
		g.runners(ctx)
		g.pods(ctx)
		g.waiting(ctx)
	}
	g.facts = g.facts[:min(len(g.facts), mostFacts)]
	g.scaleSets(ctx)
	g.limits(ctx)
	for _, f := range g.facts {
		g.readEvents(ctx, f)
	}
	return g, ctx.Err()
}

// list reads the objects of a kind in the scope, page by page, and hands over each page.
func (g *gathering) list(ctx context.Context, what string, newList func() client.ObjectList,
	page func(client.ObjectList), options ...client.ListOption) {
	namespace := g.scope.namespace
	if g.scope.everywhere {
		namespace = ""
	}
	for token := ""; ; {
		list := newList()
		_, err := informer.ListReadable(ctx, g.cluster, snapshot.OurKinds(), list,
			append([]client.ListOption{client.InNamespace(namespace), client.Limit(pageSize), client.Continue(token)},
				options...)...)
		switch {
		case apierrors.IsForbidden(err) && namespace == "":
			namespace = g.scope.namespace
			g.narrowed = append(g.narrowed, what)
			continue
		case err != nil:
			g.unread[what] = err
			return
		}
		page(list)
		if token = list.GetContinue(); token == "" {
			return
		}
	}
}

// runners finds runners that the user asks about, or whose job it is.
func (g *gathering) runners(ctx context.Context) {
	g.list(ctx, "EphemeralRunners", func() client.ObjectList { return &v1alpha1.EphemeralRunnerList{} },
		func(list client.ObjectList) {
			items := list.(*v1alpha1.EphemeralRunnerList).Items
			for i := range items {
				if g.subject.isRunner(&items[i]) {
					g.addRunner(ctx, &items[i])
				}
			}
		})
}

func (g *gathering) addRunner(ctx context.Context, runner *v1alpha1.EphemeralRunner) {
	f := &fact{namespace: runner.Namespace, scaleSet: kube.ScaleSetOf(runner).Name, runner: runner}
	g.facts = append(g.facts, f)
	pod := &corev1.Pod{}
	switch err := g.cluster.Get(ctx, client.ObjectKeyFromObject(runner), pod); {
	case err == nil:
		f.pod = pod
	case !apierrors.IsNotFound(err):
		g.unread["Pods"] = err
	}
}

// ofRun reports whether the subject is a run, of a repository if the user has named one.
func (s *Subject) ofRun(run int64, repository string) bool {
	return s.Run != 0 && run == s.Run && (s.Repository == "" || strings.EqualFold(repository, s.Repository))
}

// isRunner reports whether the user asks about a runner or its job.
func (s *Subject) isRunner(r *v1alpha1.EphemeralRunner) bool {
	status := &r.Status
	return s.ofRun(status.WorkflowRunID, status.JobRepositoryName) ||
		s.Job != "" && strings.EqualFold(status.JobID, s.Job) ||
		s.Run != 0 && s.Repository == "" && status.JobRequestID == s.Run ||
		s.Name != "" && (r.Name == s.Name || status.RunnerName == s.Name)
}

// isWaiting reports whether the user asks about a job that waits.
func (s *Subject) isWaiting(job *v1alpha1.WaitingJob) bool {
	return s.ofRun(job.RunID, job.Repository) || s.Job != "" && strings.EqualFold(job.JobID, s.Job)
}

// pods finds pods that the user asks about, or whose job it is, of runners that were not found: those of whoever may
// not read runners. A pod in which container hooks run a job stands for its runner.
func (g *gathering) pods(ctx context.Context) {
	s := &g.subject
	var selections [][]client.ListOption
	if s.Run != 0 {
		selections = append(selections, []client.ListOption{
			client.MatchingLabels{v1alpha1.LabelJobRunID: strconv.FormatInt(s.Run, 10)}})
	}
	if s.Job != "" && len(validation.IsValidLabelValue(s.Job)) == 0 {
		selections = append(selections, []client.ListOption{client.MatchingLabels{v1alpha1.LabelJobID: s.Job}})
	}
	if s.Name != "" {
		selections = append(selections, []client.ListOption{client.MatchingFields{"metadata.name": s.Name}})
	}
	for _, selection := range selections {
		g.list(ctx, "Pods", func() client.ObjectList { return &corev1.PodList{} }, func(list client.ObjectList) {
			items := list.(*corev1.PodList).Items
			for i := range items {
				if s.Repository == "" || s.ofRun(s.Run, items[i].Annotations[v1alpha1.AnnotationJobRepository]) {
					g.addPod(ctx, &items[i])
				}
			}
		}, selection...)
	}
}

func (g *gathering) addPod(ctx context.Context, pod *corev1.Pod) {
	key := client.ObjectKeyFromObject(pod)
	if kube.IsJobPod(pod) && kube.RunnerOfJobPod(pod) != "" {
		key.Name = kube.RunnerOfJobPod(pod)
	}
	if pod.Labels[v1alpha1.LabelRunner] == "" && key.Name == pod.Name {
		g.foreign = true
		return
	}
	known := slices.ContainsFunc(g.facts, func(f *fact) bool {
		return f.namespace == key.Namespace && (f.runner != nil && f.runner.Name == key.Name ||
			f.pod != nil && f.pod.Name == key.Name)
	})
	if known {
		return
	}
	runner := &v1alpha1.EphemeralRunner{}
	switch err := g.cluster.Get(ctx, key, runner); {
	case err == nil:
		g.addRunner(ctx, runner)
		return
	case !apierrors.IsNotFound(err):
		g.unread["EphemeralRunners"] = err
	}
	if own := (&corev1.Pod{}); key.Name != pod.Name && g.cluster.Get(ctx, key, own) == nil {
		pod = own
	}
	g.facts = append(g.facts, &fact{namespace: pod.Namespace, scaleSet: pod.Labels[v1alpha1.LabelScaleSetName],
		pod: pod})
}

// waiting finds jobs that wait, as far as listeners have written them down.
func (g *gathering) waiting(ctx context.Context) {
	if g.subject.Run == 0 && g.subject.Job == "" {
		return
	}
	g.addWaiting(ctx, func(job *v1alpha1.WaitingJob) bool { return g.subject.isWaiting(job) && !g.hasRunner(job) })
}

// addWaiting adds the jobs that wait, as far as listeners have written them down, and that are wanted.
func (g *gathering) addWaiting(ctx context.Context, wanted func(*v1alpha1.WaitingJob) bool) {
	g.list(ctx, "EphemeralRunnerSets", func() client.ObjectList { return &v1alpha1.EphemeralRunnerSetList{} },
		func(list client.ObjectList) {
			items := list.(*v1alpha1.EphemeralRunnerSetList).Items
			for i := range items {
				listener := items[i].Status.Listener
				if listener == nil {
					continue
				}
				for j := range listener.Waiting {
					if job := &listener.Waiting[j]; wanted(job) {
						g.facts = append(g.facts,
							&fact{namespace: items[i].Namespace, scaleSet: kube.ScaleSetOf(&items[i]).Name, waiting: job})
					}
				}
			}
		})
}

// hasRunner reports whether a runner was found that has the job: the listener's list is a few seconds old.
func (g *gathering) hasRunner(job *v1alpha1.WaitingJob) bool {
	return job.JobID != "" && slices.ContainsFunc(g.facts, func(f *fact) bool {
		return f.runner != nil && f.runner.Status.JobID == job.JobID
	})
}

// scaleSets asks the doctor about the scale sets of jobs that have no runner, or whose runner is not up.
func (g *gathering) scaleSets(ctx context.Context) {
	asked := map[types.NamespacedName]*finding.Finding{}
	for _, f := range g.facts {
		of := types.NamespacedName{Namespace: f.namespace, Name: f.scaleSet}
		if f.scaleSet == "" || f.waiting == nil && stateOf(f, time.Now()) != Starting {
			continue
		}
		if _, known := asked[of]; !known {
			asked[of] = nil
			s, err := snapshot.Gather(ctx, g.cluster, of.Namespace, of.Name)
			if err != nil {
				g.unread["AutoscalingRunnerSets"] = err
				continue
			}
			for what, err := range s.Unread {
				g.unread[what] = err
			}
			if len(s.Sets) > 0 {
				asked[of] = diagnosis.Foremost(&s.Sets[0])
			}
		}
		f.finding = asked[of]
	}
}

// limits reads what limits the scale sets of the facts at present. Whoever may not read them lacks that only.
func (g *gathering) limits(ctx context.Context) {
	read := map[types.NamespacedName]*v1alpha1.Limit{}
	for _, f := range g.facts {
		of := types.NamespacedName{Namespace: f.namespace, Name: f.scaleSet}
		if f.scaleSet == "" {
			continue
		}
		if _, known := read[of]; !known {
			set := &v1alpha1.AutoscalingRunnerSet{}
			if err := g.cluster.Get(ctx, of, set); client.IgnoreNotFound(err) != nil && !apierrors.IsForbidden(err) {
				g.unread["AutoscalingRunnerSets"] = err
			}
			read[of] = set.Status.LimitedBy
		}
		f.limit = read[of]
	}
}

// readEvents reads the Events of a runner and its pod, which has the same name.
func (g *gathering) readEvents(ctx context.Context, f *fact) {
	var of client.Object = f.pod
	switch {
	case f.runner != nil:
		of = f.runner
	case f.pod == nil:
		return
	}
	add := func(about string) error {
		events := &corev1.EventList{}
		err := g.cluster.List(ctx, events, client.InNamespace(f.namespace),
			client.MatchingFields{"involvedObject.name": about}, client.Limit(mostEvents))
		f.events = append(f.events, events.Items...)
		return err
	}
	if err := add(of.GetName()); err != nil {
		g.unread["Events"] = err
		return
	}
	if f.pod == nil {
		return
	}
	if reason, _ := podstatus.WhyUnplaced(f.pod); reason != v1alpha1.ReasonVolumeUnbound {
		return
	}
	for i := range f.pod.Spec.Volumes { // the scheduler says only that a claim has no volume
		volume := &f.pod.Spec.Volumes[i]
		var claim string
		switch {
		case volume.Ephemeral != nil:
			claim = f.pod.Name + "-" + volume.Name
		case volume.PersistentVolumeClaim != nil:
			claim = volume.PersistentVolumeClaim.ClaimName
		default:
			continue
		}
		_ = add(claim) // the runner's own are told all the same
	}
}

// where names the namespaces that the search was in, for messages.
func (g *gathering) where() string {
	if !g.scope.everywhere {
		return "namespace " + g.scope.namespace
	}
	if len(g.narrowed) > 0 {
		return fmt.Sprintf("namespace %s; you may not list %s in all namespaces, so name another one with -n",
			g.scope.namespace, finding.Listed(slices.Compact(g.narrowed), 4))
	}
	return "any namespace"
}
