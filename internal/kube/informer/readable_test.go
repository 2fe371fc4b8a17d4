package informer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/internal/kube/informer"
)

// goodPod and badPod are objects as the API server stores them. In Go, containers can't be a string.
const (
	goodPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"n","name":"good","resourceVersion":"1"},` +
		`"spec":{"nodeName":"a"}}`
	badPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"n","name":"bad","resourceVersion":"2"},` +
		`"spec":{"nodeName":"a","containers":"abc"}}`
)

func podList(pods ...string) string {
	return `{"apiVersion":"v1","kind":"PodList","metadata":{"resourceVersion":"3"},"items":[` +
		strings.Join(pods, ",") + `]}`
}

func podEvents(kind string, pods ...string) string {
	lines := &strings.Builder{}
	for _, pod := range pods {
		fmt.Fprintf(lines, `{"type":%q,"object":%s}`+"\n", kind, pod)
	}
	return lines.String()
}

// apiServer is a source that gets the answer from a server.
func apiServer(t *testing.T, answer string) cache.ListerWatcher {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, APIPath: "/api", ContentConfig: rest.ContentConfig{
		GroupVersion: &corev1.SchemeGroupVersion, NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
	}}
	config.Wrap(informer.MendAnswers)
	connection, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return cache.NewListWatchFromClient(connection, "pods", "", fields.Everything())
}

// logged is a context with a logger that writes to what is returned.
func logged(t *testing.T) (context.Context, *bytes.Buffer) {
	t.Helper()
	lines := &bytes.Buffer{}
	logger := funcr.New(func(_, line string) { fmt.Fprintln(lines, line) }, funcr.Options{})
	return log.IntoContext(t.Context(), logger), lines
}

func TestListGoesOnWithoutWhatCantBeRead(t *testing.T) {
	source := apiServer(t, podList(badPod, goodPod))
	ctx, lines := logged(t)
	if _, err := cache.ToListerWatcherWithContext(source).ListWithContext(
		ctx, metav1.ListOptions{},
	); err == nil || !strings.Contains(err.Error(), "cannot unmarshal string") {
		t.Fatalf("the list is without a mender: %v", err)
	}
	readable := cache.ToListerWatcherWithContext(informer.Readable(source, &corev1.Pod{}, nothingKnown))
	for range 2 {
		answer, err := readable.ListWithContext(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		pods := answer.(*corev1.PodList)
		if len(pods.Items) != 2 || pods.ResourceVersion != "3" {
			t.Fatalf("%d pods of version %q, want both of 3", len(pods.Items), pods.ResourceVersion)
		}
		bad, good := pods.Items[0], pods.Items[1]
		if bad.Name != "bad" || bad.Spec.NodeName != "a" || informer.IsWhole(&bad) ||
			bad.Annotations[annotationUnreadable] == "" {
			t.Errorf("of what can't be read there is %+v", bad)
		}
		if good.Name != "good" || good.Annotations != nil {
			t.Errorf("what can be read is %+v", good)
		}
	}
	checkSaid(t, lines, 1)
}

// checkSaid requires lines that name the object, the cause and the next step.
func checkSaid(t *testing.T, lines *bytes.Buffer, want int) {
	t.Helper()
	if got := strings.Count(lines.String(), "\n"); got != want {
		t.Errorf("%d lines, want %d:\n%s", got, want, lines)
	}
	for _, part := range []string{"Pod n/bad", "containers", "kubectl edit"} {
		if !strings.Contains(lines.String(), part) {
			t.Errorf("the log lacks %q:\n%s", part, lines)
		}
	}
}

// The first watch ends at an event that can't be read, without an error, which would make the informer wait. The next
// watch is repaired.
func TestWatchGoesOnWithoutWhatCantBeRead(t *testing.T) {
	known := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "b", Containers: []corev1.Container{{Name: "known"}}}}
	last := func(key string) (any, bool) { return known, key == "n/bad" }
	source := apiServer(t, podEvents("ADDED", goodPod)+podEvents("MODIFIED", badPod)+podEvents("DELETED", badPod))
	readable := cache.ToListerWatcherWithContext(informer.Readable(source, &corev1.Pod{}, last))
	ctx, lines := logged(t)
	if events := watched(ctx, t, readable); len(events) != 1 {
		t.Errorf("before something can't be read: %v", events)
	}
	events := watched(ctx, t, readable)
	if len(events) != 3 {
		t.Fatalf("events %v, want 3", events)
	}
	for i, kind := range []watch.EventType{watch.Modified, watch.Deleted} {
		pod := events[i+1].Object.(*corev1.Pod)
		if events[i+1].Type != kind || pod.ResourceVersion != "2" || pod.Spec.NodeName != "a" {
			t.Errorf("%s %+v, want %s with what can be read of it", events[i+1].Type, pod, kind)
		}
		if len(pod.Spec.Containers) != 1 || pod.Spec.Containers[0].Name != "known" {
			t.Errorf("containers %+v, want those that could be read", pod.Spec.Containers)
		}
	}
	checkSaid(t, lines, 1)
}

// watched returns the events of a watch until it ends.
func watched(ctx context.Context, t *testing.T, source cache.ListerWatcherWithContext) (events []watch.Event) {
	t.Helper()
	answer, err := source.WatchWithContext(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Stop()
	for event := range answer.ResultChan() {
		events = append(events, event)
	}
	return events
}

// asIs is a source that passes answers on as they come over HTTP, after a list that could not be decoded.
type asIs struct {
	connection http.Client
	url        string
	lists      int
	got        string
}

func (a *asIs) get(ctx context.Context, query string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+query, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := a.connection.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	a.got = string(content)
	return err
}

func (a *asIs) list(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	if a.lists++; a.lists == 1 {
		return nil, errors.New("json: cannot unmarshal")
	}
	return &corev1.PodList{}, a.get(ctx, "")
}

func (a *asIs) watch(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	return watch.NewEmptyWatch(), a.get(ctx, "?watch=true")
}

// Anything but a list, an event or JSON is passed on unchanged: whoever reads it reports what is wrong.
func TestAnswersOfAnotherShapeAreHandedOn(t *testing.T) {
	ctx := log.IntoContext(t.Context(), logr.Discard())
	for _, answer := range []string{
		"", "nonsense", "[]", `{"items":3}`, // of lists; of watches:
		"", "nonsense\n", `{"type":"BOOKMARK","object":` + badPod + "}\n",
		`{"type":"ERROR","object":{"kind":"Status"}}` + "\n",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer)
		}))
		source := &asIs{connection: http.Client{Transport: informer.MendAnswers(http.DefaultTransport)}, url: server.URL}
		mended := cache.ToListerWatcherWithContext(informer.Readable(&cache.ListWatch{ListWithContextFunc: source.list,
			WatchFuncWithContext: source.watch}, &corev1.Pod{}, nothingKnown))
		if _, err := mended.ListWithContext(ctx, metav1.ListOptions{}); err != nil || source.got != answer {
			t.Errorf("list %q is %q, %v", answer, source.got, err)
		}
		if _, err := mended.WatchWithContext(ctx, metav1.ListOptions{}); err != nil || source.got != answer {
			t.Errorf("event %q is %q, %v", answer, source.got, err)
		}
		server.Close()
	}
}
