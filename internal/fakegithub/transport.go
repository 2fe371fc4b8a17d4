package fakegithub

import (
	"bytes"
	"errors"
	"io"
	"net/http"
)

// Transport carries requests to the server without a network, for thousands of
// simulated runners in one process. A connection that the server would drop is
// an io.ErrUnexpectedEOF, whatever the host of the request.
func (s *Server) Transport() http.RoundTripper { return transport{s.handler} }

type transport struct{ handler http.Handler }

// RoundTrip serves the request in the caller's goroutine.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	in.RequestURI = r.URL.RequestURI()
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	recorder := &recorder{header: http.Header{}}
	aborted := recorder.serve(t.handler, in)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if aborted && recorder.status == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	body := io.Reader(&recorder.body)
	if aborted {
		body = io.MultiReader(body, cutShort{})
	}
	return &http.Response{
		StatusCode: recorder.status, Status: http.StatusText(recorder.status), Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     recorder.header, Body: io.NopCloser(body), ContentLength: -1, Request: r,
	}, nil
}

type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (rec *recorder) Header() http.Header { return rec.header }

func (rec *recorder) WriteHeader(status int) {
	if rec.status == 0 {
		rec.status = status
	}
}

func (rec *recorder) Write(data []byte) (int, error) {
	rec.WriteHeader(http.StatusOK)
	return rec.body.Write(data)
}

// serve reports whether the handler gave up the connection, which it does by panicking.
func (rec *recorder) serve(handler http.Handler, r *http.Request) (aborted bool) {
	defer func() {
		if cause := recover(); cause != nil {
			if err, ok := cause.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				panic(cause)
			}
			aborted = true
		}
	}()
	handler.ServeHTTP(rec, r)
	return false
}

// cutShort is the rest of a body that never comes.
type cutShort struct{}

func (cutShort) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
