package metricsauth

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

// apiServer knows some tokens and the permissions of their owners, and counts requests.
type apiServer struct {
	authenticationclient.TokenReviewInterface
	users   map[string]string
	readers readers
	reviews int
	broken  error
}

func (a *apiServer) Create(
	_ context.Context, review *authenticationv1.TokenReview, _ metav1.CreateOptions,
) (*authenticationv1.TokenReview, error) {
	a.reviews++
	user, known := a.users[review.Spec.Token]
	review.Status = authenticationv1.TokenReviewStatus{
		Authenticated: known,
		User: authenticationv1.UserInfo{Username: user,
			Extra: map[string]authenticationv1.ExtraValue{"pod": {"prometheus-0"}}},
	}
	return review, a.broken
}

// readers may get /metrics.
type readers struct {
	authorizationclient.SubjectAccessReviewInterface
	names map[string]bool
}

func (r readers) Create(
	_ context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions,
) (*authorizationv1.SubjectAccessReview, error) {
	asked := review.Spec.NonResourceAttributes
	review.Status.Allowed = r.names[review.Spec.User] && asked.Verb == "get" && asked.Path == "/metrics" &&
		len(review.Spec.Extra["pod"]) == 1
	return review, nil
}

// setUp returns a function that asks for the metrics with an Authorization header and returns the status.
func setUp(t *testing.T) (*apiServer, *clocktesting.FakeClock, func(method, authorization string) int) {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Unix(1700000000, 0))
	api := &apiServer{
		users:   map[string]string{"good": "prometheus", "stranger": "somebody"},
		readers: readers{names: map[string]bool{"prometheus": true}},
	}
	handler, err := newFilter(api, api.readers, cache.NewLRUExpireCacheWithClock(4, clock)).around(logr.Discard(),
		http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	return api, clock, func(method, authorization string) int {
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
	_, _, ask := setUp(t)
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

func TestAnswersAreRememberedForAWhile(t *testing.T) {
	api, clock, ask := setUp(t)
	for range 3 {
		ask(http.MethodGet, "Bearer good")
		ask(http.MethodGet, "Bearer stranger")
	}
	if api.reviews != 2 {
		t.Errorf("%d reviews of two readers", api.reviews)
	}
	api.readers.names["somebody"], api.readers.names["prometheus"] = true, false
	clock.Step(refusedFor + time.Second)
	if got := ask(http.MethodGet, "Bearer stranger"); got != through {
		t.Errorf("%d, though the right was granted %s ago", got, refusedFor)
	}
	clock.Step(allowedFor)
	if got := ask(http.MethodGet, "Bearer good"); got != http.StatusForbidden {
		t.Errorf("%d, though the right was taken away %s ago", got, allowedFor)
	}
}

// Without the API server nobody may read, and the next reader is checked again.
func TestAPIServerAway(t *testing.T) {
	api, _, ask := setUp(t)
	api.broken = errors.New("connection refused")
	if got := ask(http.MethodGet, "Bearer good"); got != http.StatusInternalServerError {
		t.Errorf("%d, want it refused", got)
	}
	api.broken = nil
	if got := ask(http.MethodGet, "Bearer good"); got != through {
		t.Errorf("%d once the API server is back", got)
	}
}
