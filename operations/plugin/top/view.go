package top

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/informer"
)

// The kinds that are watched, as users read them. Without runner sets only the names of jobs that wait are missing.
const (
	setKind       = "AutoscalingRunnerSets"
	runnerSetKind = "EphemeralRunnerSets"
)

// view has what the watches have shown.
type view struct {
	lock       sync.Mutex
	sets       map[types.NamespacedName]*v1alpha1.AutoscalingRunnerSet
	runnerSets map[types.NamespacedName]*v1alpha1.EphemeralRunnerSet
	// failures are, by kind, the reasons why it can't be read at the moment, and the times since when it can't.
	failures map[string]failure
}

type failure struct {
	err   error
	since time.Time
}

// open returns a view of a namespace, "" for all, as it is now, and what keeps it up to date. It fails if scale sets
// can't be read.
func open(ctx context.Context, c client.WithWatch, namespace string) (*view, []*feed, error) {
	v := &view{
		sets:       map[types.NamespacedName]*v1alpha1.AutoscalingRunnerSet{},
		runnerSets: map[types.NamespacedName]*v1alpha1.EphemeralRunnerSet{},
		failures:   map[string]failure{},
	}
	feeds := []*feed{
		feedInto(v, c, namespace, setKind, func() client.ObjectList { return &v1alpha1.AutoscalingRunnerSetList{} },
			v.sets),
		feedInto(v, c, namespace, runnerSetKind, func() client.ObjectList { return &v1alpha1.EphemeralRunnerSetList{} },
			v.runnerSets),
	}
	for _, f := range feeds {
		if _, err := f.read(ctx); err != nil {
			f.failed(err)
		}
	}
	if failed, is := v.failures[setKind]; is {
		return nil, nil, fmt.Errorf("read scale sets: %w%s", failed.err, stepAfter(failed.err, namespace))
	}
	return v, feeds, nil
}

// state is what there is to show: a row for each set, the jobs that have waited longest, and what could not be read, by
// kind.
type state struct {
	at      time.Time
	rows    []Row
	waiting []Waiting
	unread  map[string]failure
}

// now returns what the view has at this moment, with its rows in an order.
func (v *view) now(order string) (s state) {
	s.at = time.Now()
	v.lock.Lock()
	defer v.lock.Unlock()
	for _, set := range v.sets {
		s.rows = append(s.rows, rowOf(set))
	}
	sorted(s.rows, order)
	s.waiting, s.unread = waitingJobs(v.runnerSets, s.rows), maps.Clone(v.failures)
	return s
}

// feed keeps a view up to date with the objects of one kind.
type feed struct {
	client    client.WithWatch
	namespace string
	kind      string
	newList   func() client.ObjectList
	// replace and change write what was read into the view, which is locked meanwhile.
	replace func(objects []runtime.Object)
	change  func(object client.Object, deleted bool)
	view    *view
}

// stepAfter returns the next step if the scale sets of a namespace, "" for all, can't be read; "" if it is not known.
func stepAfter(err error, namespace string) string {
	switch {
	case apierrors.IsForbidden(err) && namespace == "":
		return "; use -n NAMESPACE with a namespace whose scale sets you may list"
	case apierrors.IsForbidden(err):
		return "; ask the cluster's administrator for the ClusterRole in docs/kubectl-harrier.md, or use -n " +
			"NAMESPACE with another namespace"
	case apierrors.IsNotFound(err):
		return "; the cluster has no scale sets: install the chart gha-runner-scale-set-controller, or use another " +
			"cluster with --context"
	}
	return ""
}

func feedInto[T client.Object](v *view, c client.WithWatch, namespace, kind string, newList func() client.ObjectList,
	into map[types.NamespacedName]T) *feed {
	f := &feed{client: c, namespace: namespace, kind: kind, newList: newList, view: v}
	f.replace = func(objects []runtime.Object) {
		clear(into)
		for _, object := range objects {
			into[client.ObjectKeyFromObject(object.(T))] = object.(T)
		}
	}
	f.change = func(object client.Object, deleted bool) {
		if key := client.ObjectKeyFromObject(object); deleted {
			delete(into, key)
		} else {
			into[key] = object.(T)
		}
	}
	return f
}

// The pauses before a kind is read again: after a watch that has ended, as all do after some minutes, and at most,
// after failures.
const (
	rereadInterval  = time.Second
	longestInterval = 10 * time.Second
	// A list may take readTimeout: of thousands of sets it takes a second.
	readTimeout = 30 * time.Second
)

// run reads the kind and watches it, again and again until the context ends. A watch that is not allowed makes it read
// now and then.
func (f *feed) run(ctx context.Context) {
	pause := rereadInterval
	for {
		list, err := f.read(ctx)
		if err == nil {
			err = f.watch(ctx, list.GetResourceVersion())
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			f.failed(err)
			pause = min(2*pause, longestInterval)
		} else {
			pause = rereadInterval
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// read lists the objects, as far as they can be decoded, and writes them into the view.
func (f *feed) read(ctx context.Context) (client.ObjectList, error) {
	ctx, stop := context.WithTimeout(ctx, readTimeout)
	defer stop()
	list := f.newList()
	if _, err := informer.ListReadable(ctx, f.client, f.client.Scheme(), list,
		client.InNamespace(f.namespace)); err != nil {
		return nil, err
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	f.view.lock.Lock()
	defer f.view.lock.Unlock()
	f.replace(objects)
	delete(f.view.failures, f.kind)
	return list, nil
}

// watch writes changes into the view until the API server ends the watch, or an event is none of an object.
func (f *feed) watch(ctx context.Context, from string) error {
	events, err := f.client.Watch(ctx, f.newList(),
		&client.ListOptions{Namespace: f.namespace, Raw: &metav1.ListOptions{ResourceVersion: from}})
	if err != nil {
		return err
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, open := <-events.ResultChan():
			if !open {
				return nil
			}
			object, isObject := event.Object.(client.Object)
			if event.Type == watch.Error || !isObject {
				if err := apierrors.FromObject(event.Object); !apierrors.IsResourceExpired(err) &&
					!apierrors.IsGone(err) {
					return err
				}
				return nil
			}
			f.view.lock.Lock()
			f.change(object, event.Type == watch.Deleted)
			f.view.lock.Unlock()
		}
	}
}

func (f *feed) failed(err error) {
	f.view.lock.Lock()
	defer f.view.lock.Unlock()
	since := time.Now()
	if before, failing := f.view.failures[f.kind]; failing {
		since = before.since
	}
	f.view.failures[f.kind] = failure{err, since}
}

// told names what could not be read, a line for each kind.
func told(unread map[string]failure) []string {
	var lines []string
	for kind, failed := range unread {
		lines = append(lines,
			fmt.Sprintf("not read since %s: %s: %v", failed.since.Format(time.TimeOnly), kind, failed.err))
	}
	slices.Sort(lines)
	return slices.DeleteFunc(lines, func(line string) bool { return strings.TrimSpace(line) == "" })
}
