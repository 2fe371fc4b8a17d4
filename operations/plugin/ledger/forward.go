package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// port is that of the ledger on loopback of its pod.
const port = "8090"

// forwarded returns the ledger in a pod. Each connection is forwarded by the API server and the node's kubelet, as
// kubectl port-forward does, and none has a port on this machine, which all of its users could ask.
func forwarded(config *rest.Config, wanted Wanted) (*Ledger, error) {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("read the API server's address: %w", err)
	}
	to := server.JoinPath("api/v1/namespaces", wanted.Namespace, "pods", wanted.Pod, "portforward")
	dialer, err := dialerTo(config, to)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return &Ledger{
		Where: fmt.Sprintf("pod %s/%s", wanted.Namespace, wanted.Pod),
		base:  &url.URL{Scheme: "http", Host: "localhost:" + port},
		client: &http.Client{CheckRedirect: stay, Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, dialer) },
		}},
		forwarded: fmt.Sprintf("-n %s pod/%s", wanted.Namespace, wanted.Pod),
	}, nil
}

// either asks for a WebSocket first, which all proxies before API servers pass on, and for SPDY where there is none.
type either struct{ webSocket, spdy httpstream.Dialer }

func dialerTo(config *rest.Config, to *url.URL) (httpstream.Dialer, error) {
	webSocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(to, config)
	if err != nil {
		return nil, err
	}
	caller, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	return &either{webSocket, spdy.NewDialerForStreaming(upgrader,
		&http.Client{Transport: caller, CheckRedirect: stay}, http.MethodPost, to)}, nil
}

// Dial returns the refusal of the WebSocket if both are refused: only that one has a type.
func (e *either) Dial(protocols ...string) (httpstream.Connection, string, error) {
	connection, protocol, err := e.webSocket.Dial(protocols...)
	failed, refused := errors.AsType[*httpstream.UpgradeFailureError](err)
	if !refused && !httpstream.IsHTTPSProxyError(err) {
		return connection, protocol, err
	}
	connection, protocol, err = e.spdy.Dial(protocols...)
	if err != nil && refused && (apierrors.IsForbidden(failed.Cause) || apierrors.IsUnauthorized(failed.Cause)) {
		err = failed.Cause
	}
	return connection, protocol, err
}

// dial opens a connection to the ledger, or gives up with its context.
func dial(ctx context.Context, dialer httpstream.Dialer) (net.Conn, error) {
	type result struct {
		tunnel *tunnel
		err    error
	}
	results := make(chan result, 1)
	go func() {
		opened, err := open(dialer)
		results <- result{opened, err}
	}()
	select {
	case r := <-results:
		if r.err != nil {
			return nil, &unreachedError{r.err}
		}
		return r.tunnel, nil
	case <-ctx.Done():
		go func() { // what opens after all is closed
			if r := <-results; r.err == nil {
				_ = r.tunnel.Close()
			}
		}()
		return nil, &unreachedError{context.Cause(ctx)}
	}
}

// unreachedError is what the API server, or the way to it, says in place of the ledger.
type unreachedError struct{ cause error }

func (e *unreachedError) Error() string { return e.cause.Error() }
func (e *unreachedError) Unwrap() error { return e.cause }

// tunnel is a connection to the pod: a stream of data, and one on which the node says why there is none.
type tunnel struct {
	httpstream.Stream
	connection httpstream.Connection
	// said has the node's words once their stream has ended.
	said chan string
}

func open(dialer httpstream.Dialer) (*tunnel, error) {
	connection, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	headers := http.Header{}
	headers.Set(corev1.PortHeader, port)
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	t := &tunnel{connection: connection, said: make(chan string, 1)}
	words, err := connection.CreateStream(headers)
	if err == nil {
		_ = words.Close() // nothing is written there
		headers.Set(corev1.StreamType, corev1.StreamTypeData)
		t.Stream, err = connection.CreateStream(headers)
	}
	if err != nil {
		_ = connection.Close()
		return nil, err
	}
	go func() {
		text, _ := io.ReadAll(io.LimitReader(words, largestRefusal)) // a connection that ends has no words
		t.said <- string(text)
		close(t.said)
	}()
	return t, nil
}

// Read returns the node's words where the data end because of them.
func (t *tunnel) Read(into []byte) (int, error) {
	read, err := t.Stream.Read(into)
	if errors.Is(err, io.EOF) {
		if said := <-t.said; said != "" {
			return read, &unreachedError{errors.New(said)}
		}
	}
	return read, err
}

// Close ends the connection, and with it both streams.
func (t *tunnel) Close() error { return t.connection.Close() }

// An http.Transport sets no deadlines, and shows addresses to nobody.

func (t *tunnel) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (t *tunnel) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (t *tunnel) SetDeadline(time.Time) error      { return nil }
func (t *tunnel) SetReadDeadline(time.Time) error  { return nil }
func (t *tunnel) SetWriteDeadline(time.Time) error { return nil }
