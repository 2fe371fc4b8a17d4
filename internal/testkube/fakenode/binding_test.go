package fakenode_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/internal/testkube/fakenode"
)

// lostBinding carries out the first binding but loses its answer, as an API server does that ends in between.
type lostBinding struct {
	http.RoundTripper
	lost atomic.Bool
}

func (l *lostBinding) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.RoundTripper.RoundTrip(request)
	if err != nil || !strings.HasSuffix(request.URL.Path, "/binding") || !l.lost.CompareAndSwap(false, true) {
		return response, err
	}
	_ = response.Body.Close()
	return nil, errors.New("the answer is lost")
}

func TestABindingWhoseAnswerIsLostHolds(t *testing.T) {
	cluster := testkube.Shared(t)
	config, between := cluster.Config(), &lostBinding{}
	config.Wrap(func(transport http.RoundTripper) http.RoundTripper {
		between.RoundTripper = transport
		return between
	})
	s := newStageOn(t, cluster, config, fakenode.Options{})
	pod := s.pod("runner")
	s.create(pod)
	s.awaitsPhase(pod, corev1.PodRunning)
	if !between.lost.Load() {
		t.Error("no binding was lost")
	}
}
