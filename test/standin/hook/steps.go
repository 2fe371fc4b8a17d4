package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"golang.org/x/net/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// The lines of job pod and step that the hook looks for.
const jobLine, stepLine = "the job's container runs", "a step ran"

// Channels of the protocol by which the API server sends output; the first byte of a message is its channel.
const (
	execProtocol  = "v4.channel.k8s.io"
	statusChannel = 3
)

// execute runs a step in the pod by a WebSocket opened with GET, as the JavaScript client of the real hook does.
func (w *workshop) execute(ctx context.Context, name string, words ...string) error {
	command := &corev1.PodExecOptions{
		Container: jobContainer,
		Command:   append([]string{os.Args[0]}, words...),
		Stdout:    true,
		Stderr:    true,
	}
	address := w.client.CoreV1().RESTClient().Get().Namespace(w.namespace).Resource("pods").Name(name).
		SubResource("exec").
		VersionedParams(command, scheme.ParameterCodec).URL()
	connection, err := w.dial(ctx, address)
	if err != nil {
		return fmt.Errorf("execute in pod %s: %w", name, err)
	}
	defer connection.Close()
	output, err := readOutput(connection)
	return errors.Join(err, expect(stepLine, output))
}

func (w *workshop) dial(ctx context.Context, address *url.URL) (*websocket.Conn, error) {
	address.Scheme = "wss"
	settings, err := rest.TLSConfigFor(w.config)
	if err != nil {
		return nil, err
	}
	settings.MinVersion = tls.VersionTLS12
	return (&websocket.Config{
		Location: address, Origin: address, Protocol: []string{execProtocol}, Version: websocket.ProtocolVersionHybi13,
		TlsConfig: settings, Header: http.Header{"Authorization": {"Bearer " + w.config.BearerToken}},
	}).DialContext(ctx)
}

// readOutput returns the output of a command; it fails unless the command's exit status was 0.
func readOutput(connection *websocket.Conn) (string, error) {
	var output strings.Builder
	for {
		var message []byte
		if err := websocket.Message.Receive(connection, &message); errors.Is(err, io.EOF) {
			return output.String(), errors.New("no exit status came")
		} else if err != nil {
			return output.String(), err
		}
		if len(message) == 0 {
			continue
		}
		if message[0] != statusChannel {
			output.Write(message[1:])
			continue
		}
		var status metav1.Status
		if err := json.Unmarshal(message[1:], &status); err != nil || status.Status != metav1.StatusSuccess {
			return output.String(), fmt.Errorf("the step failed: %s", message[1:])
		}
		return output.String(), nil
	}
}

func expect(want, got string) error {
	if !strings.Contains(got, want) {
		return fmt.Errorf("output is %q, want %q in it", got, want)
	}
	return nil
}
