package metricsauth_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/testr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/harrier-ci/harrier/internal/metricsauth"
)

// apiServer knows some tokens and the permissions of their owners, and counts the questions about tokens.
type apiServer struct {
	users map[string]string
	// readers may get /metrics.
	readers map[string]bool
	reviews int
	broken  error
}

// RoundTrip answers the manager's requests.
func (a *apiServer) RoundTrip(request *http.Request) (*http.Response, error) {
	defer request.Body.Close()
	var review any
	switch request.Method + " " + request.URL.Path {
	case "POST /apis/authentication.k8s.io/v1/tokenreviews":
		a.reviews++
		asked := &authenticationv1.TokenReview{}
		if err := json.NewDecoder(request.Body).Decode(asked); err != nil {
			return nil, err
		}
		user, known := a.users[asked.Spec.Token]
		asked.Status = authenticationv1.TokenReviewStatus{Authenticated: known, User: authenticationv1.UserInfo{
			Username: user, Extra: map[string]authenticationv1.ExtraValue{"pod": {"prometheus-0"}},
		}}
		review = asked
	case "POST /apis/authorization.k8s.io/v1/subjectaccessreviews":
		asked := &authorizationv1.SubjectAccessReview{}
		if err := json.NewDecoder(request.Body).Decode(asked); err != nil {
			return nil, err
		}
		access := asked.Spec.NonResourceAttributes
		asked.Status.Allowed = a.readers[asked.Spec.User] && access.Verb == "get" && access.Path == "/metrics" &&
			len(asked.Spec.Extra["pod"]) == 1
		review = asked
	default:
		return nil, fmt.Errorf("unexpected %s %s", request.Method, request.URL.Path)
	}
	if a.broken != nil {
		return nil, a.broken
	}
	text, err := json.Marshal(review)
	return &http.Response{
		StatusCode: http.StatusCreated,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body:       io.NopCloser(bytes.NewReader(text)),
	}, err
}

// setUp returns a function that asks for the metrics with an Authorization header and returns the status.
func setUp(t *testing.T) (*apiServer, func(method, authorization string) int) {
	t.Helper()
	api := &apiServer{
		users:   map[string]string{"good": "prometheus", "stranger": "somebody"},
		readers: map[string]bool{"prometheus": true},
	}
	config := &rest.Config{Host: "https://kubernetes", QPS: -1} // no limit
	config.ContentType = runtime.ContentTypeJSON
	filter, err := metricsauth.New(config, &http.Client{Transport: api})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := filter(testr.New(t), http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	return api, func(method, authorization string) int {
		request := httptest.NewRequest(method, "/metrics", nil)
		request.Header.Set("Authorization", authorization)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		return answer.Code
	}
}

// through is the answer of the handler behind the filter.
const through = http.StatusNotFound

func TestWhoMayRead(t *testing.T) {
	_, ask := setUp(t)
	for authorization, want := range map[string]int{
		"": http.StatusUnauthorized, "Bearer": http.StatusUnauthorized, "Basic good": http.StatusUnauthorized,
		"Bearer made-up":  http.StatusUnauthorized,
		"Bearer stranger": http.StatusForbidden, "Bearer good": through, "bearer good": through,
	} {
		if got := ask(http.MethodGet, authorization); got != want {
			t.Errorf("%q: %d, want %d", authorization, got, want)
		}
	}
	if got := ask(http.MethodPost, "Bearer good"); got != http.StatusForbidden {
		t.Errorf("POST: %d, want it refused", got)
	}
}

// A refusal counts for 10 s and a permission for a minute, so that most scrapes cost the API server nothing.
func TestAnswersAreRememberedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, ask := setUp(t)
		for range 3 {
			ask(http.MethodGet, "Bearer good")
			ask(http.MethodGet, "Bearer stranger")
		}
		api.readers["somebody"], api.readers["prometheus"] = true, false
		begun := time.Now()
		expect := func(after time.Duration, token string, want int) {
			t.Helper()
			<-time.After(after - time.Since(begun))
			if got := ask(http.MethodGet, "Bearer "+token); got != want {
				t.Errorf("%s after the rights have changed: %d, want %d", after, got, want)
			}
		}
		expect(9*time.Second, "stranger", http.StatusForbidden)
		if api.reviews != 2 {
			t.Errorf("%d reviews of two readers", api.reviews)
		}
		expect(11*time.Second, "stranger", through)
		expect(59*time.Second, "good", through)
		expect(61*time.Second, "good", http.StatusForbidden)
	})
}

// Without the API server nobody may read, and the next reader is checked again.
func TestAPIServerAway(t *testing.T) {
	api, ask := setUp(t)
	api.broken = errors.New("connection refused")
	if got := ask(http.MethodGet, "Bearer good"); got != http.StatusInternalServerError {
		t.Errorf("%d, want it refused", got)
	}
	api.broken = nil
	if got := ask(http.MethodGet, "Bearer good"); got != through {
		t.Errorf("%d once the API server is back", got)
	}
}
