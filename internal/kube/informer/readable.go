package informer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// watchDecoding is the cause that client-go gives for an event that can't be decoded. It has no constant for it.
const watchDecoding metav1.CauseType = "ClientWatchDecoding"

// Readable wraps the source of an informer so that one object that Go can't decode doesn't hide all objects of its
// kind. (A CRD schema accepts more than the Go types do.) After the first such object, answers are repaired by
// MendAnswers, which must wrap the HTTP transport below source: an unreadable field keeps its value from last, or is
// dropped. The object then carries annotationUnreadable, which RefuseUnreadable checks. object is an example of the
// kind.
func Readable(
	source cache.ListerWatcher, object runtime.Object, last func(key string) (any, bool),
) cache.ListerWatcher {
	s := &readable{source: cache.ToListerWatcherWithContext(source), mender: newMender(object, last)}
	return &cache.ListWatch{ListWithContextFunc: s.list, WatchFuncWithContext: s.watch}
}

type readable struct {
	source cache.ListerWatcherWithContext
	mender *mender
	// met is set when an object could not be decoded: there may be more.
	met atomic.Bool
}

func (r *readable) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	answer, err := r.source.ListWithContext(ctx, options)
	if !undecodable(err) {
		return answer, err
	}
	r.met.Store(true)
	return r.source.ListWithContext(r.mending(ctx), options)
}

func (r *readable) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if r.met.Load() {
		return r.source.WatchWithContext(r.mending(ctx), options)
	}
	events, err := r.source.WatchWithContext(ctx, options)
	if err != nil {
		return events, err
	}
	// End the watch without an error, so that the informer resumes it immediately, after the last decodable event. From
	// then on answers are repaired.
	return watch.Filter(events, func(event watch.Event) (watch.Event, bool) {
		if event.Type == watch.Error && apierrors.HasStatusCause(apierrors.FromObject(event.Object), watchDecoding) {
			r.met.Store(true)
			return event, false
		}
		return event, true
	}), nil
}

// undecodable reports whether the API server answered, but its answer could not be decoded.
func undecodable(err error) bool {
	var status apierrors.APIStatus
	var unanswered net.Error // *url.Error is one
	return err != nil && !errors.As(err, &status) && !errors.As(err, &unanswered) &&
		!errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, context.Canceled) && !meta.IsNoMatchError(err)
}

// menderKey is the context key of the mender that must repair a request's answer.
type menderKey struct{}

func (r *readable) mending(ctx context.Context) context.Context {
	return context.WithValue(ctx, menderKey{}, r.mender)
}

// MendAnswers wraps the transport below the source of Readable. It does not change answers to other requests.
func MendAnswers(next http.RoundTripper) http.RoundTripper { return mending{next} }

type mending struct{ http.RoundTripper }

// WrappedRoundTripper implements net.RoundTripperWrapper of apimachinery.
func (m mending) WrappedRoundTripper() http.RoundTripper { return m.RoundTripper }

// RoundTrip repairs the answer if the request's context has a mender.
func (m mending) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := m.RoundTripper.RoundTrip(request)
	mender, asked := request.Context().Value(menderKey{}).(*mender)
	if err != nil || !asked || answer.StatusCode != http.StatusOK || !isJSON(answer) {
		return answer, err
	}
	if watches, _ := strconv.ParseBool(request.URL.Query().Get("watch")); watches {
		answer.Body = &mendedEvents{
			ctx:    request.Context(),
			body:   answer.Body,
			lines:  bufio.NewReader(answer.Body),
			mender: mender,
		}
		return answer, nil
	}
	return answer, mendList(request.Context(), answer, mender)
}

func isJSON(answer *http.Response) bool {
	kind, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	return err == nil && kind == runtime.ContentTypeJSON
}

// mendList replaces the answer's body with one whose items can be decoded.
func mendList(ctx context.Context, answer *http.Response, mender *mender) error {
	content, err := io.ReadAll(answer.Body)
	if closing := answer.Body.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	content = mender.list(ctx, content)
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(content)), int64(len(content))
	answer.Header.Set("Content-Length", strconv.Itoa(len(content)))
	return nil
}

// mendedEvents are the events of a watch, one per line, with objects that can be decoded.
type mendedEvents struct {
	ctx    context.Context //nolint:containedctx // the context of the request that this answers
	body   io.ReadCloser
	lines  *bufio.Reader
	rest   []byte
	mender *mender
}

// Read returns the next bytes of a mended event.
func (e *mendedEvents) Read(into []byte) (int, error) {
	if len(e.rest) == 0 {
		line, err := e.lines.ReadBytes('\n')
		if len(line) == 0 {
			return 0, err
		}
		e.rest = e.mender.event(e.ctx, line)
	}
	count := copy(into, e.rest)
	e.rest = e.rest[count:]
	return count, nil
}

// Close ends the watch.
func (e *mendedEvents) Close() error { return e.body.Close() }
