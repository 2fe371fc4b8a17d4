// Package drain has scale sets take no more jobs, or take jobs again, and reports their progress. It writes one
// annotation and watches the set: what follows is the manager's work. The spec is not touched, so tools that apply it
// undo nothing.
package drain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/output"
)

// ErrNotYet reports that the time was up, or the user left, before the set was drained or resumed. The annotation stays
// as it was asked for.
var ErrNotYet = errors.New("not there yet")

// Options select the set that is drained or resumed.
type Options struct {
	// Set names it, and Drain is false if it is to take jobs again.
	Set   client.ObjectKey
	Drain bool
	// Wait is set if the command ends when the set is drained, or is not any more; Timeout limits that, 0 doesn't.
	Wait    bool
	Timeout time.Duration
	Format  string
}

// document is the answer as JSON.
type document struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Annotated is set if the set is to take no jobs, and Drained if neither jobs nor runners are left.
	Annotated bool   `json:"annotated"`
	Drained   bool   `json:"drained"`
	Message   string `json:"message,omitempty"`
}

// Run sets or removes the annotation, and waits. Progress goes to progress, a line for each change, and the answer to
// answer. It fails with ErrNotYet, or with the reason why nothing could be done.
func Run(ctx context.Context, c client.WithWatch, options Options, answer, progress io.Writer) error {
	set, changed, err := annotate(ctx, c, options)
	if err != nil {
		return err
	}
	switch {
	case !changed && options.Drain:
		fmt.Fprintf(progress, "%s was to take no more jobs already.\n", options.Set)
	case !changed:
		fmt.Fprintf(progress, "%s takes jobs: it has no annotation %s.\n", options.Set, v1alpha1.AnnotationDrained)
	case options.Drain:
		fmt.Fprintf(progress, "%s is to take no more jobs. Those that are assigned to it run.\n", options.Set)
	default:
		fmt.Fprintf(progress, "%s is to take jobs again.\n", options.Set)
	}
	if !options.Wait {
		return tell(answer, set, options.Format)
	}
	waiting, stop := context.WithCancel(ctx)
	if options.Timeout > 0 {
		waiting, stop = context.WithTimeout(ctx, options.Timeout)
	}
	defer stop()
	set, err = (&wait{Options: options, client: c, progress: progress, set: set}).until(waiting)
	switch {
	case err == nil:
	case waiting.Err() == nil:
		return err
	default:
		fmt.Fprintln(progress, whatStays(options, ctx.Err() != nil))
		err = ErrNotYet
	}
	return errors.Join(err, tell(answer, set, options.Format))
}

// The API server may take requestTimeout to answer.
const requestTimeout = 30 * time.Second

// annotate writes the annotation, or removes it, if that changes something.
func annotate(ctx context.Context, c client.Client, options Options) (set *v1alpha1.AutoscalingRunnerSet, changed bool,
	err error) {
	ctx, stop := context.WithTimeout(ctx, requestTimeout)
	defer stop()
	set = &v1alpha1.AutoscalingRunnerSet{}
	err = c.Get(ctx, options.Set, set)
	switch {
	case apierrors.IsNotFound(err):
		return nil, false, fmt.Errorf("there is no AutoscalingRunnerSet %s in namespace %s: kubectl harrier top -A "+
			"lists those that there are", options.Set.Name, options.Set.Namespace)
	case apierrors.IsForbidden(err):
		return nil, false, fmt.Errorf("read AutoscalingRunnerSet %s: %w; ask the cluster's administrator for the "+
			"Role in docs/kubectl-harrier.md", options.Set, err)
	case err != nil:
		return nil, false, fmt.Errorf("read AutoscalingRunnerSet %s: %w", options.Set, err)
	case set.Drained() == options.Drain:
		return set, false, nil
	}
	before := set.DeepCopy()
	if options.Drain {
		metav1.SetMetaDataAnnotation(&set.ObjectMeta, v1alpha1.AnnotationDrained, v1alpha1.DrainedValue)
	} else {
		delete(set.Annotations, v1alpha1.AnnotationDrained)
	}
	if err := c.Patch(ctx, set, client.MergeFrom(before)); err != nil {
		step := ""
		if apierrors.IsForbidden(err) {
			step = "; ask the cluster's administrator for the right to patch autoscalingrunnersets in this namespace"
		}
		return nil, false, fmt.Errorf("annotate AutoscalingRunnerSet %s: %w%s", options.Set, err, step)
	}
	return set, true, nil
}

// whatStays returns the text about what a command that ends early leaves behind.
func whatStays(options Options, left bool) string {
	why := fmt.Sprintf("%s have passed.", options.Timeout)
	if left {
		why = "You have left."
	}
	if !options.Drain {
		return fmt.Sprintf("%s The annotation is removed, so %s takes jobs as soon as its listener has a session; "+
			"kubectl harrier doctor says what is in the way.", why, options.Set)
	}
	return fmt.Sprintf("%s %s stays as it is: it takes no jobs until kubectl harrier resume -n %s %s.", why,
		options.Set, options.Set.Namespace, options.Set.Name)
}

func tell(to io.Writer, set *v1alpha1.AutoscalingRunnerSet, format string) error {
	condition := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionDrained)
	told := document{Namespace: set.Namespace, Name: set.Name, Annotated: set.Drained()}
	if condition != nil {
		told.Drained, told.Message = condition.Status == metav1.ConditionTrue && told.Annotated,
			output.Clean(condition.Message)
	}
	if format == output.JSON {
		return output.WriteJSON(to, told, true)
	}
	switch {
	case told.Drained:
		_, err := fmt.Fprintf(to, "%s/%s is drained: no jobs and no runners are left.\n", told.Namespace, told.Name)
		return err
	case !told.Annotated && (condition == nil || condition.Status != metav1.ConditionTrue):
		_, err := fmt.Fprintf(to, "%s/%s takes jobs.\n", told.Namespace, told.Name)
		return err
	}
	return nil
}

// wait waits for one set.
type wait struct {
	Options
	client   client.WithWatch
	progress io.Writer
	// set is as it was seen last, and said what was left of its jobs and runners when that was printed last.
	set  *v1alpha1.AutoscalingRunnerSet
	said string
	// silent has a value when a manager should have said something.
	silent <-chan time.Time
}

const (
	// A manager may take managerGrace to say that it has seen the annotation: it takes a second.
	managerGrace = 30 * time.Second
	// rereadInterval is between two readings where the set can't be watched, or its watch has ended.
	rereadInterval = 2 * time.Second
)

// until waits until the set is drained or resumed, as the options ask, and returns it as it was seen last. It fails
// when the context ends, if the set is gone, or if somebody else takes the annotation back.
func (w *wait) until(ctx context.Context) (*v1alpha1.AutoscalingRunnerSet, error) {
	w.silent = time.After(managerGrace)
	for {
		done, err := w.follow(ctx)
		if done || err != nil {
			return w.set, err
		}
		select {
		case <-ctx.Done():
			return w.set, ctx.Err()
		case <-w.silent:
			w.sayThatNobodyActs()
		case <-time.After(rereadInterval):
		}
	}
}

// follow reads the set and watches it, as long as the API server lets it. The watch begins first, so that nothing is
// missed between them.
func (w *wait) follow(ctx context.Context) (done bool, err error) {
	var events <-chan watch.Event
	ofName := &client.ListOptions{Namespace: w.Set.Namespace,
		FieldSelector: fields.OneTermEqualSelector("metadata.name", w.Set.Name)}
	if watched, err := w.client.Watch(ctx, &v1alpha1.AutoscalingRunnerSetList{}, ofName); err == nil {
		defer watched.Stop()
		events = watched.ResultChan()
	}
	seen := &v1alpha1.AutoscalingRunnerSet{}
	switch err := w.client.Get(ctx, w.Set, seen); {
	case apierrors.IsNotFound(err):
		return false, w.deleted()
	case err != nil: // the API server may be away for a while
		return false, nil
	}
	for {
		w.set = seen
		if done, err := w.look(); done || err != nil || events == nil {
			return done, err
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-w.silent:
			w.sayThatNobodyActs()
		case event := <-events:
			object, isSet := event.Object.(*v1alpha1.AutoscalingRunnerSet)
			switch {
			case !isSet: // the watch has ended, or is not allowed any more
				return false, nil
			case object.Name != w.Set.Name:
			case event.Type == watch.Deleted:
				return false, w.deleted()
			default:
				seen = object
			}
		}
	}
}

func (w *wait) deleted() error {
	return fmt.Errorf("AutoscalingRunnerSet %s was deleted meanwhile", w.Set)
}

func (w *wait) sayThatNobodyActs() {
	if meta.FindStatusCondition(w.set.Status.Conditions, v1alpha1.ConditionDrained) == nil {
		fmt.Fprintf(w.progress, "No manager has said anything about it for %s: kubectl harrier doctor -n %s %s says "+
			"whether one runs.\n",
			managerGrace, w.Set.Namespace, w.Set.Name)
	}
}

// look reports whether the set is drained or resumed, as the options ask, and prints a line if something has changed.
func (w *wait) look() (done bool, err error) {
	if w.set.Drained() != w.Drain {
		return false, fmt.Errorf("somebody else has changed the annotation %s of %s meanwhile",
			v1alpha1.AnnotationDrained, w.Set)
	}
	condition := meta.FindStatusCondition(w.set.Status.Conditions, v1alpha1.ConditionDrained)
	if !w.Drain {
		return condition == nil || condition.Status != metav1.ConditionTrue &&
			condition.Reason == v1alpha1.ReasonTakesJobs, nil
	}
	if condition == nil {
		return false, nil
	}
	left := fmt.Sprintf("assigned jobs %d, running %d; runners pending %d, idle %d", w.set.Status.AssignedJobs,
		w.set.Status.BusyRunners,
		w.set.Status.PendingEphemeralRunners, w.set.Status.IdleRunners)
	if condition.Status != metav1.ConditionTrue && left != w.said {
		w.said = left
		fmt.Fprintf(w.progress, "%s: %s\n", w.Set, left)
	}
	return condition.Status == metav1.ConditionTrue, nil
}
