package top_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/plugin/top"
)

// server is an API server with the objects.
func server(functions interceptor.Funcs, objects ...client.Object) client.WithWatch {
	return fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithObjects(objects...).WithInterceptorFuncs(functions).
		Build()
}

var forbidden = apierrors.NewForbidden(schema.GroupResource{Group: "actions.github.com", Resource: "things"}, "", nil)

// written is an output that several goroutines may use.
type written struct {
	lock sync.Mutex
	text bytes.Buffer
}

func (w *written) Write(text []byte) (int, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.text.Write(text)
}

// take returns the text that was written since the last call.
func (w *written) take() string {
	w.lock.Lock()
	defer w.lock.Unlock()
	defer w.text.Reset()
	return w.text.String()
}

func TestOnce(t *testing.T) {
	objects := []client.Object{setWith("b", "linux", 4, 4, atMost(4), limited("Maximum", "MaxRunnersReached")),
		setWith("a", "windows", 1, 3)}
	for name, test := range map[string]struct {
		options top.Options
		want    string
	}{
		"all namespaces": {top.Options{Format: output.Text}, "" +
			"NAMESPACE SCALE SET BUSY IDLE PEND JOBS WAIT MIN MAX  WHY NOT MORE\n" +
			"a         windows      1    0    0    3    2   0   -  -\n" +
			"b         linux        4    0    0    4    0   0   4  at maxRunners\n"},
		"one": {top.Options{Namespace: "b", Format: output.Text}, "" +
			"SCALE SET BUSY IDLE PEND JOBS WAIT MIN MAX  WHY NOT MORE\n" +
			"linux        4    0    0    4    0   0   4  at maxRunners\n"},
		"none": {top.Options{Namespace: "c", Format: output.Text}, "There is no scale set in namespace c; -A shows those of all namespaces.\n"},
	} {
		var text bytes.Buffer
		test.options.Once = true
		if err := top.Run(t.Context(), server(interceptor.Funcs{}, objects...), test.options, &text); err != nil ||
			text.String() != test.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, text.String(), test.want)
		}
	}
	var text bytes.Buffer
	if err := top.Run(t.Context(), server(interceptor.Funcs{}, objects...),
		top.Options{Once: true, Format: output.JSON, Order: "jobs"}, &text); err != nil {
		t.Fatal(err)
	}
	var read struct {
		ScaleSets []map[string]any `json:"scaleSets"`
	}
	if err := json.Unmarshal(text.Bytes(), &read); err != nil || len(read.ScaleSets) != 2 ||
		read.ScaleSets[0]["reason"] != "MaxRunnersReached" ||
		read.ScaleSets[0]["assignedJobs"] != 4.0 || read.ScaleSets[1]["waitingJobs"] != 2.0 {
		t.Errorf("%v: %s", err, text.String())
	}
}

// Without scale sets there is nothing to show.
func TestWhatMayNotBeRead(t *testing.T) {
	refusing := interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList,
		...client.ListOption) error {
		return forbidden
	}}
	err := top.Run(t.Context(), server(refusing), top.Options{Once: true, Format: output.Text}, &bytes.Buffer{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "use -n NAMESPACE") {
		t.Errorf("without the right to list scale sets: %v", err)
	}
}

// What a watch shows is added as a line, for the sets that have changed; a watch that breaks is replaced, and nothing
// is missed.
func TestLinesFollowTheWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lock sync.Mutex
		var watches []watch.Interface
		c := server(interceptor.Funcs{Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
			options ...client.ListOption) (watch.Interface, error) {
			w, err := c.Watch(ctx, list, options...)
			lock.Lock()
			defer lock.Unlock()
			watches = append(watches, w)
			return w, err
		}}, setWith("a", "linux", 1, 1, atMost(9)), setWith("a", "windows", 0, 0))
		ctx, stop := context.WithCancel(t.Context())
		text, ended := &written{}, make(chan error)
		go func() { ended <- top.Run(ctx, c, top.Options{Namespace: "a", Format: output.Text}, text) }()
		wait := func() string {
			<-time.After(20 * time.Second)
			synctest.Wait()
			return text.take()
		}
		if first := wait(); strings.Count(first, "\n") != 3 || !strings.Contains(first, "linux") ||
			!strings.Contains(first, "windows") {
			t.Errorf("at first: %s", first)
		}
		write := func(busy, assigned int) {
			if err := c.Update(ctx, withVersion(t, c, setWith("a", "linux", busy, assigned, atMost(9)))); err != nil {
				t.Error(err)
			}
		}
		write(2, 2)
		if next := wait(); strings.Count(next, "\n") != 1 || !strings.HasPrefix(next, "linux        2 ") {
			t.Errorf("after a change: %q", next)
		}
		for _, w := range watches {
			w.Stop()
		}
		write(3, 3)
		if next := wait(); strings.Count(next, "\n") != 1 || !strings.HasPrefix(next, "linux        3 ") {
			t.Errorf("after broken watches: %q", next)
		}
		if quiet := wait(); quiet != "" {
			t.Errorf("without a change: %q", quiet)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// withVersion gives a set the version of the one that is there.
func withVersion(t *testing.T, c client.Client, set *v1alpha1.AutoscalingRunnerSet) *v1alpha1.AutoscalingRunnerSet {
	t.Helper()
	there := &v1alpha1.AutoscalingRunnerSet{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(set), there); err != nil {
		t.Error(err)
	}
	set.ResourceVersion = there.ResourceVersion
	return set
}

// window is a terminal.
type window struct {
	width, height int
	quit          chan struct{}
	entered, left int
}

func (w *window) Enter() (<-chan struct{}, func(), error) {
	w.entered++
	return w.quit, func() { w.left++ }, nil
}
func (w *window) Size() (width, height int) { return w.width, w.height }

// On a terminal the table is redrawn from the corner on, within its lines and columns, only if it has changed, until
// the user quits.
func TestTheScreenIsRedrawnInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var objects []client.Object
		for _, name := range strings.Split("abcdefghij", "") {
			objects = append(objects, setWith("namespace-with-a-very-long-name-indeed",
				"set-with-quite-a-long-name-"+name, 1, 1))
		}
		screen, text, ended := &window{width: 80, height: 8, quit: make(chan struct{})}, &written{}, make(chan error)
		c := server(interceptor.Funcs{}, objects...)
		go func() { ended <- top.Run(t.Context(), c, top.Options{Format: output.Text, Screen: screen}, text) }()
		<-time.After(20 * time.Second)
		synctest.Wait()
		frame := text.take()
		if strings.Count(frame, "\x1b[H") != 1 || !strings.HasSuffix(frame, "\x1b[J") {
			t.Errorf("not drawn once: %q", frame)
		}
		drawn := strings.Split(strings.NewReplacer("\x1b[H", "", "\x1b[K", "", "\x1b[J", "").Replace(frame), "\r\n")
		if len(drawn) > 8 || !strings.Contains(frame, "and 6 more") {
			t.Errorf("%d lines: %q", len(drawn), drawn)
		}
		for _, line := range drawn {
			if count := len([]rune(line)); count > 80 || strings.ContainsFunc(line, func(r rune) bool {
				return !unicode.IsPrint(r)
			}) {
				t.Errorf("%d columns: %q", count, line)
			}
		}
		if err := c.Delete(t.Context(), &v1alpha1.AutoscalingRunnerSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "namespace-with-a-very-long-name-indeed",
				Name: "set-with-quite-a-long-name-a"}}); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		synctest.Wait()
		if next := text.take(); !strings.Contains(next, "and 5 more") {
			t.Errorf("after one is gone: %q", next)
		}
		close(screen.quit)
		if err := <-ended; err != nil || screen.entered != 1 || screen.left != 1 {
			t.Errorf("%v, entered %d times, left %d times", err, screen.entered, screen.left)
		}
	})
}
