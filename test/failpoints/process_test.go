package failpoints

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/harrier-ci/harrier/test/failpoints/apiserver"
)

// errDead is what a process that has died is answered: nothing of it reaches anybody.
var errDead = errors.New("the process is dead")

// process is one life of a manager or a listener.
type process struct {
	name    string
	effects *effects
	dead    atomic.Bool
	context context.Context //nolint:containedctx // its end is the process's
	end     context.CancelFunc
}

func (w *world) newProcess(ctx context.Context, name string) *process {
	p := &process{name: name, effects: w.effects}
	p.context, p.end = context.WithCancel(ctx)
	return p
}

// die ends the process as SIGKILL does: what it sends from now on arrives nowhere.
func (p *process) die() {
	p.dead.Store(true)
	p.end()
}

// carrier is how a process reaches the API server or GitHub.
type carrier struct {
	process *process
	next    http.RoundTripper
	// effect names a request, and says whether it is an effect.
	effect func(process string, r *http.Request) (name string, numbered bool)
	refuse func(r *http.Request, how end) *http.Response
	// weather is that on the way; nil is good.
	weather *atomic.Pointer[weather]
}

func (w *world) kubernetes(p *process) http.RoundTripper {
	return carrier{
		process: p, next: w.server, effect: w.effects.ofKubernetes, refuse: refusalOfKubernetes,
		weather: &w.apiServer,
	}
}

func (w *world) gitHub(p *process) http.RoundTripper {
	return carrier{process: p, next: internet{w.github.Transport()}, effect: w.effects.ofInternet, refuse: refusalOfGitHub}
}

// RoundTrip carries a request unless the plan has another end for it.
func (c carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.process.dead.Load() {
		return nil, c.discard(r, errDead)
	}
	if c.weather != nil {
		if answer := c.weather.Load().meet(r); answer != nil {
			_ = c.discard(r, nil)
			return answer, nil
		}
	}
	var planned end
	if name, numbered := c.effect(c.process.name, r); numbered {
		planned = c.process.effects.next(name)
		defer c.process.effects.ended()
	}
	switch planned {
	case "":
		return c.carry(r)
	case diesBefore:
		c.process.die()
		return nil, c.discard(r, errDead)
	case diesAfter, answerLost:
		answer, err := c.next.RoundTrip(r)
		if err == nil {
			_ = answer.Body.Close()
		}
		if planned == diesAfter {
			c.process.die()
			return nil, errDead
		}
		return nil, io.ErrUnexpectedEOF
	case timeout:
		return nil, c.discard(r, hang(r.Context()))
	}
	defer func() { _ = c.discard(r, nil) }()
	return c.refuse(r, planned), nil
}

func (c carrier) carry(r *http.Request) (*http.Response, error) {
	answer, err := c.next.RoundTrip(r)
	if c.process.dead.Load() { // it died while it waited
		if err == nil {
			_ = answer.Body.Close()
		}
		return nil, errDead
	}
	return answer, err
}

// discard closes a request that is not sent, as a RoundTripper must.
func (c carrier) discard(r *http.Request, err error) error {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return err
}

// hang waits until the sender gives up, or a connection would have been cut.
func hang(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Minute):
		return io.ErrUnexpectedEOF
	}
}

func refusalOfKubernetes(r *http.Request, how end) *http.Response {
	asked, _ := apiserver.Parse(r)
	of := schema.GroupResource{Resource: asked.Resource()}
	switch how {
	case conflict:
		return apiserver.Refusal(r, apierrors.NewConflict(of, asked.Name, errors.New("it has been modified")))
	case tooMany:
		return apiserver.Refusal(r, apierrors.NewTooManyRequests("too many requests", 1))
	}
	return apiserver.Refusal(r, apierrors.NewInternalError(errors.New("etcd is away")))
}

func refusalOfGitHub(r *http.Request, how end) *http.Response {
	status := http.StatusInternalServerError
	if how == tooMany {
		status = http.StatusTooManyRequests
	}
	answer := respond(r, status, "")
	if how == tooMany {
		answer.Header.Set("Retry-After", "2")
	}
	return answer
}

func respond(r *http.Request, status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: fmt.Sprint(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}
}
