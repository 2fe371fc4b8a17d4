// Package apiserver is a Kubernetes API server in memory, with its garbage collector, that requests reach without a
// network. So manager, listener and node run on it in a bubble of fake time, in which a connection would stop the clock.
//
//	RoundTrip ─▶ request: which object, which verb ─▶ store: versions, finalizers, owners ─▶ watches
//
// It has the rules on which controllers stand: one version for all objects, conflicts, preconditions, subresources,
// generations, graceful deletion, and watches that resume after a version. It has no schemas, no admission and no
// rights: those are tested on a real one.
package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// Server is an API server without objects. It belongs to the bubble in which it was made.
type Server struct {
	// Lag is how late the watches of a resource tell of a change. Set it before the first request; nil is not at all.
	Lag func(resource string) time.Duration

	mu       sync.Mutex
	version  int64
	objects  map[resource]map[key]*stored
	uids     map[string]place
	history  []change
	watchers map[*watcher]struct{}
	// applied is what each manager of fields has applied last, by UID, manager and subresource.
	applied map[string]map[string]any
	// observers are told of each change, under the lock.
	observers []func(Change)
	names     int
	// silent is until when no watch tells anything.
	silent time.Time
	// compacted is the version from which on changes are known, and cut ends the watches that began before a restore.
	compacted int64
	cut       chan struct{}
}

// Change is one of an object; Before is nil of a new one, After of one that is gone.
type Change struct {
	Resource      string
	Before, After *unstructured.Unstructured
}

// New returns a server without objects.
func New() *Server {
	return &Server{
		version: 1, // to a client, version 0 is any
		objects: map[resource]map[key]*stored{}, uids: map[string]place{}, watchers: map[*watcher]struct{}{},
		applied: map[string]map[string]any{}, cut: make(chan struct{}),
	}
}

// Config returns how clients reach the server by a transport that leads to it, such as the server itself.
func (s *Server) Config(transport http.RoundTripper) *rest.Config {
	return &rest.Config{
		Host: "http://kubernetes.invalid", Transport: transport,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	}
}

// Observe has a function called with each change from now on. It must not call the server.
func (s *Server) Observe(observer func(Change)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observers = append(s.observers, observer)
}

// RoundTrip answers a request. Only watches take longer than a moment.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		read, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			return nil, err
		}
		body = read
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	parsed, err := Parse(r)
	if err == nil && parsed.Verb == "watch" {
		return s.watch(r, parsed)
	}
	var answer []byte
	if err == nil {
		answer, err = s.serve(r, parsed, body)
	}
	status := http.StatusOK
	if parsed.Verb == "create" {
		status = http.StatusCreated
	}
	if err != nil {
		return Refusal(r, err), nil
	}
	return respond(r, status, io.NopCloser(bytes.NewReader(answer))), nil
}

// Refusal is the answer with an error of package apierrors; any other counts as the server's own.
func Refusal(r *http.Request, err error) *http.Response {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	text, err := json.Marshal(status)
	if err != nil {
		panic(err) // a Status can be encoded
	}
	answer := respond(r, int(status.Code), io.NopCloser(bytes.NewReader(text)))
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		answer.Header.Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	return answer
}

func respond(r *http.Request, status int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: status, Status: strconv.Itoa(status) + " " + http.StatusText(status), Proto: "HTTP/1.1",
		ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"application/json"}}, Body: body,
		ContentLength: -1, Request: r,
	}
}

// serve carries out any request but a watch.
func (s *Server) serve(r *http.Request, q Request, body []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.DryRun && q.Verb != "create" {
		return nil, apierrors.NewMethodNotSupported(q.groupResource(), q.Verb+" as a dry run")
	}
	switch q.Verb {
	case "get":
		found, err := s.find(q)
		if err != nil {
			return nil, err
		}
		return found.raw, nil
	case "list":
		return s.list(r, q)
	case "create":
		if q.Subresource == "binding" {
			return s.bind(q, body)
		}
		return s.create(q, body)
	case "update":
		return s.update(q, body)
	case "patch":
		return s.patch(r, q, body)
	case "delete":
		return s.remove(q, body)
	}
	return nil, apierrors.NewMethodNotSupported(q.groupResource(), q.Verb)
}

// Version is that of the last change.
func (s *Server) Version() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Objects returns all objects, by the name of their resource. Nobody may change them.
func (s *Server) Objects() map[string][]*unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string][]*unstructured.Unstructured{}
	for of, objects := range s.objects {
		for _, name := range sortedKeys(objects) {
			found[of.plural] = append(found[of.plural], objects[name].object)
		}
	}
	return found
}

func (s *Server) list(r *http.Request, q Request) ([]byte, error) {
	selected, err := selectorOf(r)
	if err != nil {
		return nil, err
	}
	items := []json.RawMessage{}
	for _, name := range sortedKeys(s.objects[q.resource]) {
		if q.Namespace != "" && name.namespace != q.Namespace {
			continue
		}
		if found := s.objects[q.resource][name]; selected(found.object) {
			items = append(items, found.raw)
		}
	}
	list := struct {
		Kind       string            `json:"kind"`
		APIVersion string            `json:"apiVersion"`
		Metadata   metav1.ListMeta   `json:"metadata"`
		Items      []json.RawMessage `json:"items"`
	}{q.kind() + "List", q.groupVersion().String(), metav1.ListMeta{ResourceVersion: formatVersion(s.version)}, items}
	return json.Marshal(list)
}
