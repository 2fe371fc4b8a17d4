package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// watcher is the body of the answer to a watch.
type watcher struct {
	server   *Server
	request  Request
	selected func(*unstructured.Unstructured) bool
	ctx      context.Context //nolint:containedctx // that of the request, which the body answers
	lag      time.Duration
	wake     chan struct{}
	cut      chan struct{}
	closed   chan struct{}
	closing  sync.Once

	mu sync.Mutex
	// pending are events that are to be read, and coming those that aren't yet.
	pending bytes.Buffer
	coming  []event
}

// event is one line of a watch, which arrives at a time.
type event struct {
	at   time.Time
	line []byte
}

// watch answers with the changes since a version, or with what there is, and then with each further change.
func (s *Server) watch(r *http.Request, q Request) (*http.Response, error) {
	selected, err := selectorOf(r)
	if err != nil {
		return Refusal(r, err), nil
	}
	ctx := r.Context()
	query := r.URL.Query()
	if limit, err := strconv.Atoi(query.Get("timeoutSeconds")); err == nil {
		ended, cancel := context.WithTimeout(ctx, time.Duration(limit)*time.Second)
		context.AfterFunc(ended, cancel)
		ctx = ended
	}
	w := &watcher{server: s, request: q, selected: selected, ctx: ctx, wake: make(chan struct{}, 1),
		closed: make(chan struct{})}
	if s.Lag != nil {
		w.lag = s.Lag(q.plural)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.cut = s.cut
	since, _ := strconv.ParseInt(query.Get("resourceVersion"), 10, 64)
	if since != 0 && since < s.compacted {
		return Refusal(r, apierrors.NewResourceExpired("the version is of before a restore")), nil
	}
	initial, _ := strconv.ParseBool(query.Get("sendInitialEvents"))
	if since == 0 || initial {
		for _, name := range sortedKeys(s.objects[q.resource]) {
			w.tell(change{place{q.resource, name}, 0, nil, s.objects[q.resource][name]})
		}
	} else {
		for _, past := range s.history {
			if past.version > since {
				w.tell(past)
			}
		}
	}
	if initial {
		w.bookmark(s.version)
	}
	s.watchers[w] = struct{}{}
	return respond(r, http.StatusOK, w), nil
}

// tell passes a change to observers and watches.
func (s *Server) tell(c change) {
	s.history = append(s.history, c)
	told := Change{Resource: c.plural}
	if c.before != nil {
		told.Before = c.before.object
	}
	if c.after != nil {
		told.After = c.after.object
	}
	s.observed(told)
	for w := range s.watchers {
		w.tell(c)
	}
}

func (s *Server) observed(c Change) {
	for _, observer := range s.observers {
		observer(c)
	}
}

// tell sends a change to a watch that asks for it. An object that is selected no longer is gone for the watch.
func (w *watcher) tell(c change) {
	if c.resource != w.request.resource || (w.request.Namespace != "" && c.namespace != w.request.Namespace) ||
		(w.request.Name != "" && c.place.key.name != w.request.Name) {
		return
	}
	was := c.before != nil && w.selected(c.before.object)
	is := c.after != nil && w.selected(c.after.object)
	switch {
	case is && was:
		w.send(watch.Modified, c.after.raw)
	case is:
		w.send(watch.Added, c.after.raw)
	case was && c.after == nil:
		w.send(watch.Deleted, c.before.raw)
	case was:
		w.send(watch.Deleted, c.after.raw)
	}
}

// bookmark says that the initial objects are complete.
func (w *watcher) bookmark(version int64) {
	w.send(watch.Bookmark, encode(map[string]any{
		"kind": w.request.kind(), "apiVersion": w.request.groupVersion().String(),
		"metadata": map[string]any{
			"resourceVersion": formatVersion(version),
			"annotations":     map[string]any{metav1.InitialEventsAnnotationKey: "true"},
		},
	}))
}

func (w *watcher) send(kind watch.EventType, object []byte) {
	line := encode(map[string]any{"type": string(kind), "object": json.RawMessage(object)})
	arrives := time.Now().Add(w.lag)
	if arrives.Before(w.server.silent) {
		arrives = w.server.silent
	}
	w.mu.Lock()
	w.coming = append(w.coming, event{arrives, append(line, '\n')})
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Read waits for events.
func (w *watcher) Read(into []byte) (int, error) {
	for {
		w.mu.Lock()
		next := w.arrive(time.Now())
		count, _ := w.pending.Read(into)
		w.mu.Unlock()
		if count > 0 {
			return count, nil
		}
		select {
		case <-w.wake:
		case <-next:
		case <-w.closed:
			return 0, io.ErrClosedPipe
		case <-w.cut:
			return 0, io.EOF
		case <-w.ctx.Done():
			return 0, io.EOF
		}
	}
}

// arrive makes the events pending that have arrived, and returns when the next one does.
func (w *watcher) arrive(now time.Time) <-chan time.Time {
	for len(w.coming) > 0 && !w.coming[0].at.After(now) {
		w.pending.Write(w.coming[0].line)
		w.coming = w.coming[1:]
	}
	if len(w.coming) == 0 {
		return nil
	}
	return time.After(w.coming[0].at.Sub(now))
}

// Close ends the watch.
func (w *watcher) Close() error {
	w.closing.Do(func() { close(w.closed) })
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	delete(w.server.watchers, w)
	return nil
}
