package registry

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/harrier-ci/harrier/hack/images/archive"
)

const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// descriptor refers to a blob.
type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int    `json:"size"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

// StatusError is an unexpected answer of the registry.
type StatusError struct {
	// Action is what was being done.
	Action string
	// Status is the status line, such as "403 Forbidden".
	Status string
	// Code is the status code.
	Code int
	// Body is the beginning of the answer.
	Body string
}

func (e *StatusError) Error() string {
	advice := ""
	if e.Code == http.StatusUnauthorized || e.Code == http.StatusForbidden {
		advice = "; log in to the registry as a user who may push there (docker login writes the file that is read here)"
	}
	return fmt.Sprintf("%s: the registry answered %s: %s%s", e.Action, e.Status, e.Body, advice)
}

// Push uploads what the registry does not have yet and returns the digest by which the image can be pulled. If the registry
// refuses, the error is a *StatusError.
func Push(ctx context.Context, client *http.Client, image *archive.Image, target Reference, credentials Credentials) (string, error) {
	layer, err := compress(image.Layer)
	if err != nil {
		return "", err
	}
	s := &session{client: client, target: target, credentials: credentials}
	config, err := s.upload(ctx, configType, image.Config)
	if err != nil {
		return "", err
	}
	packed, err := s.upload(ctx, layerType, layer)
	if err != nil {
		return "", err
	}
	content, err := json.Marshal(manifest{SchemaVersion: 2, MediaType: manifestType, Config: config, Layers: []descriptor{packed}})
	if err != nil {
		return "", fmt.Errorf("encode manifest: %w", err)
	}
	_, err = s.call(ctx, "push manifest", request{
		method: http.MethodPut, url: target.url("/manifests/" + target.Tag), contentType: manifestType, body: content,
		want: http.StatusCreated,
	})
	return archive.Digest(content), err
}

// compress is reproducible, because the gzip header has neither a name nor a date.
func compress(layer []byte) ([]byte, error) {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(layer); err != nil {
		return nil, fmt.Errorf("compress layer: %w", err)
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("compress layer: %w", err)
	}
	return packed.Bytes(), nil
}

// upload stores a blob unless the registry has it already.
func (s *session) upload(ctx context.Context, mediaType string, content []byte) (descriptor, error) {
	blob := descriptor{MediaType: mediaType, Digest: archive.Digest(content), Size: len(content)}
	_, err := s.call(ctx, "look for blob", request{
		method: http.MethodHead, url: s.target.url("/blobs/" + blob.Digest), want: http.StatusOK,
	})
	if refused, ok := errors.AsType[*StatusError](err); !ok || refused.Code != http.StatusNotFound {
		return blob, err
	}
	opened, err := s.call(ctx, "open upload", request{
		method: http.MethodPost, url: s.target.url("/blobs/uploads/"), want: http.StatusAccepted,
	})
	if err != nil {
		return blob, err
	}
	location, err := uploadURL(opened, blob.Digest)
	if err != nil {
		return blob, err
	}
	_, err = s.call(ctx, "upload blob", request{
		method: http.MethodPut, url: location, contentType: "application/octet-stream", body: content, want: http.StatusCreated,
	})
	return blob, err
}

// uploadURL resolves the Location of an upload, which may be relative and may have a query of its own.
func uploadURL(opened answer, digest string) (string, error) {
	if opened.location == "" {
		return "", errors.New("open upload: the registry's answer has no Location")
	}
	location, err := opened.from.Parse(opened.location)
	if err != nil {
		return "", fmt.Errorf("open upload: parse the Location of the registry's answer: %w", err)
	}
	query := location.Query()
	query.Set("digest", digest)
	location.RawQuery = query.Encode()
	return location.String(), nil
}

type request struct {
	method, url, contentType string
	body                     []byte
	want                     int
}

// session is a connection to a registry. It remembers the authorization from the first challenge on.
type session struct {
	client        *http.Client
	target        Reference
	credentials   Credentials
	authorization string
}

// answer has what matters of a response whose body has been read and closed.
type answer struct {
	code         int
	status, body string
	challenge    string
	// location may be relative to from.
	location string
	from     *url.URL
}

// call sends a request, and once more if the registry answers with a challenge.
func (s *session) call(ctx context.Context, action string, r request) (answer, error) {
	got, err := s.send(ctx, r)
	if err == nil && got.code == http.StatusUnauthorized {
		if err := s.authorize(ctx, got.challenge); err != nil {
			return got, fmt.Errorf("%s: %w", action, err)
		}
		got, err = s.send(ctx, r)
	}
	if err != nil {
		return got, fmt.Errorf("%s: %w", action, err)
	}
	if got.code != r.want {
		return got, &StatusError{Action: action, Status: got.status, Code: got.code, Body: got.body}
	}
	return got, nil
}

func (s *session) send(ctx context.Context, r request) (answer, error) {
	outgoing, err := http.NewRequestWithContext(ctx, r.method, r.url, bytes.NewReader(r.body))
	if err != nil {
		return answer{}, err
	}
	if r.contentType != "" {
		outgoing.Header.Set("Content-Type", r.contentType)
	}
	// Uploads may go to storage on another host, which must not get the registry's token.
	if s.authorization != "" && strings.EqualFold(outgoing.URL.Host, s.target.Host) {
		outgoing.Header.Set("Authorization", s.authorization)
	}
	response, err := s.client.Do(outgoing)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }() // nothing depends on it any more
	body, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	return answer{
		code: response.StatusCode, status: response.Status, body: strings.TrimSpace(string(body)),
		challenge: response.Header.Get("WWW-Authenticate"),
		location:  response.Header.Get("Location"), from: response.Request.URL,
	}, err
}
