package drain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/internal/output"
)

const annotation = "actions.github.com/drained"

var (
	linux     = client.ObjectKey{Namespace: "runners", Name: "linux"}
	forbidden = apierrors.NewForbidden(schema.GroupResource{Group: "actions.github.com",
		Resource: "autoscalingrunnersets"}, "linux", nil)
)

// server has the set, with or without the annotation, and another one.
func server(t *testing.T, drained bool, functions interceptor.Funcs) client.WithWatch {
	t.Helper()
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: "linux",
		Annotations: map[string]string{"mine": "stays"}}}
	if drained {
		set.Annotations[annotation] = "true"
	}
	set.Spec.MaxRunners = new(5)
	other := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: "other"}}
	return fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithObjects(set, other).WithStatusSubresource(set).
		WithInterceptorFuncs(functions).Build()
}

func read(t *testing.T, c client.Client) *v1alpha1.AutoscalingRunnerSet {
	t.Helper()
	set := &v1alpha1.AutoscalingRunnerSet{}
	if err := c.Get(t.Context(), linux, set); err != nil {
		t.Fatal(err)
	}
	return set
}

// say writes the condition Drained, as the manager does, with jobs that are left.
func say(t *testing.T, c client.Client, status metav1.ConditionStatus, reason string, jobs int) {
	t.Helper()
	set := read(t, c)
	set.Status.AssignedJobs, set.Status.BusyRunners = jobs, jobs
	meta.SetStatusCondition(&set.Status.Conditions, metav1.Condition{Type: "Drained", Status: status, Reason: reason,
		Message: "as it is"})
	if err := c.Status().Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
}

// running is a command under way.
type running struct {
	answer, progress bytes.Buffer
	ended            chan error
	leave            context.CancelFunc
}

func start(t *testing.T, c client.WithWatch, options Options) *running {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	r := &running{ended: make(chan error, 1), leave: leave}
	options.Set, options.Wait = linux, true
	go func() { r.ended <- Run(ctx, c, options, &r.answer, &r.progress) }()
	pass(time.Second)
	return r
}

// pass lets time pass, and everything happen that it brings about.
func pass(of time.Duration) {
	<-time.After(of)
	synctest.Wait()
}

func (r *running) outcome(t *testing.T) error {
	t.Helper()
	pass(5 * time.Second)
	select {
	case err := <-r.ended:
		return err
	default:
		t.Errorf("has not ended, and said: %s", r.progress.String())
		r.leave()
		return <-r.ended
	}
}

// A set is annotated, and nothing else of it is changed; the command ends when the condition says so, and tells what is
// left until then. It does the same for somebody who may not watch.
func TestDrainWaits(t *testing.T) {
	for name, functions := range map[string]interceptor.Funcs{
		"watched": {},
		"read": {Watch: func(context.Context, client.WithWatch, client.ObjectList,
			...client.ListOption) (watch.Interface, error) {
			return nil, forbidden
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := server(t, false, functions)
				before := read(t, c)
				r := start(t, c, Options{Drain: true, Format: output.Text})
				set := read(t, c)
				if set.Annotations[annotation] != "true" || set.Annotations["mine"] != "stays" ||
					*set.Spec.MaxRunners != *before.Spec.MaxRunners {
					t.Errorf("the set is now %+v", set)
				}
				for _, jobs := range []int{3, 1} {
					say(t, c, metav1.ConditionFalse, "DrainingRunners", jobs)
					pass(5 * time.Second)
				}
				if said := r.progress.String(); !strings.Contains(said, "assigned jobs 3, running 3") ||
					!strings.Contains(said, "assigned jobs 1, running 1") || strings.Count(said, "\n") != 3 {
					t.Errorf("said %q", said)
				}
				say(t, c, metav1.ConditionTrue, "Drained", 0)
				if err := r.outcome(t); err != nil ||
					r.answer.String() != "runners/linux is drained: no jobs and no runners are left.\n" {
					t.Errorf("%v, answers %q", err, r.answer.String())
				}
			})
		})
	}
}

// Whoever leaves, or has no more time, is told that the set stays drained, and how to undo that.
func TestDrainThatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := server(t, false, interceptor.Funcs{})
		r := start(t, c, Options{Drain: true, Format: output.JSON})
		pass(time.Minute)
		if said := r.progress.String(); strings.Count(said, "No manager has said anything") != 1 {
			t.Errorf("where no manager runs: %q", said)
		}
		r.leave()
		if err := r.outcome(t); !errors.Is(err, ErrNotYet) ||
			!strings.Contains(r.progress.String(), "kubectl harrier resume -n runners linux") {
			t.Errorf("%v, said %q", err, r.progress.String())
		}
		told := document{}
		if err := json.Unmarshal(r.answer.Bytes(), &told); err != nil ||
			told != (document{Namespace: "runners", Name: "linux", Annotated: true}) {
			t.Errorf("%v, answers %s", err, r.answer.String())
		}
		r = start(t, c, Options{Drain: true, Timeout: 2 * time.Second})
		if err := r.outcome(t); !errors.Is(err, ErrNotYet) ||
			!strings.Contains(r.progress.String(), "2s have passed") || read(t, c).Annotations[annotation] != "true" {
			t.Errorf("%v, said %q", err, r.progress.String())
		}
	})
}

// A set that is resumed takes jobs when its manager has seen it; what its condition said before does not count.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := server(t, true, interceptor.Funcs{})
		say(t, c, metav1.ConditionFalse, "DrainingRunners", 2)
		r := start(t, c, Options{Format: output.Text})
		pass(10 * time.Second)
		if len(r.ended) > 0 {
			t.Error("ended before the manager has seen it")
		}
		if set := read(t, c); set.Drained() || set.Annotations["mine"] != "stays" {
			t.Errorf("annotations are %v", set.Annotations)
		}
		say(t, c, metav1.ConditionFalse, "TakesJobs", 2)
		if err := r.outcome(t); err != nil || r.answer.String() != "runners/linux takes jobs.\n" {
			t.Errorf("%v, answers %q", err, r.answer.String())
		}
	})
}

func TestOthersActMeanwhile(t *testing.T) {
	for name, test := range map[string]struct {
		act  func(*testing.T, client.Client)
		want string
	}{
		"by taking it back": {func(t *testing.T, c client.Client) {
			set := read(t, c)
			set.Annotations = nil
			if err := c.Update(t.Context(), set); err != nil {
				t.Fatal(err)
			}
		}, "somebody else"},
		"by deleting it": {func(t *testing.T, c client.Client) {
			if err := c.Delete(t.Context(), read(t, c)); err != nil {
				t.Fatal(err)
			}
		}, "was deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := server(t, false, interceptor.Funcs{})
				r := start(t, c, Options{Drain: true})
				test.act(t, c)
				if err := r.outcome(t); err == nil || !strings.Contains(err.Error(), test.want) ||
					errors.Is(err, ErrNotYet) {
					t.Errorf("%v, want %q", err, test.want)
				}
			})
		})
	}
}

// Without --wait nothing is waited for; a set that is drained already is not written, and what can't be done names who
// can.
func TestWithoutWaiting(t *testing.T) {
	writes, refused := 0, error(nil)
	c := server(t, false, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, object client.Object,
		patch client.Patch, options ...client.PatchOption) error {
		if refused != nil {
			return refused
		}
		writes++
		return c.Patch(ctx, object, patch, options...)
	}})
	for range 2 {
		var answer, progress bytes.Buffer
		if err := Run(t.Context(), c, Options{Set: linux, Drain: true, Format: output.Text}, &answer,
			&progress); err != nil {
			t.Error(err)
		}
	}
	if writes != 1 || !read(t, c).Drained() {
		t.Errorf("written %d times, annotations %v", writes, read(t, c).Annotations)
	}
	refused = forbidden
	err := Run(t.Context(), c, Options{Set: linux}, &bytes.Buffer{}, &bytes.Buffer{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "patch autoscalingrunnersets") {
		t.Errorf("without the right: %v", err)
	}
	err = Run(t.Context(), c, Options{Set: client.ObjectKey{Namespace: "runners", Name: "lunix"}, Drain: true},
		&bytes.Buffer{}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "there is no AutoscalingRunnerSet lunix in namespace runners") {
		t.Errorf("of a set that is not there: %v", err)
	}
}
