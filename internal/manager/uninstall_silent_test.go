package manager

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
)

// The check gives up on an API server that accepts the connection and never answers, and stops waiting for it when
// interrupted.
func TestTheUninstallCheckGivesASilentServerUp(t *testing.T) {
	over, asked := make(chan struct{}), make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-over
	}))
	defer server.Close()
	defer close(over)
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := askBeforeUninstall(short, &rest.Config{Host: server.URL}, "")
	for _, part := range []string{server.URL + " did not answer in time", "NetworkPolicy"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, want an error that says %q", err, part)
		}
	}
	<-asked
	interrupted, interrupt := context.WithCancel(t.Context())
	go func() {
		<-asked
		interrupt()
	}()
	if err := askBeforeUninstall(interrupted, &rest.Config{Host: server.URL}, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v after an interrupt", err)
	}
}

// The check knows where scale sets are without asking the API server which kinds it serves.
func TestTheUninstallCheckAsksForScaleSetsOnly(t *testing.T) {
	const one = `{"kind": "AutoscalingRunnerSetList", "apiVersion": "actions.github.com/v1alpha1",` +
		` "items": [{"metadata": {"namespace": "runners", "name": "linux"}}]}`
	for name, test := range map[string]struct {
		status int
		answer string
		want   []string
	}{
		"one is left":  {http.StatusOK, one, []string{"runners/linux"}},
		"no such kind": {http.StatusNotFound, "404 page not found", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var paths []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
				paths = append(paths, request.URL.Path)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.answer)
			}))
			defer server.Close()
			err := askBeforeUninstall(t.Context(), &rest.Config{Host: server.URL}, "runners")
			left, _ := errors.AsType[*ScaleSetsLeftError](err)
			if (err == nil) != (test.want == nil) ||
				(left != nil && strings.Join(left.Names, " ") != strings.Join(test.want, " ")) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			const want = "/apis/actions.github.com/v1alpha1/namespaces/runners/autoscalingrunnersets"
			if len(paths) != 1 || paths[0] != want {
				t.Errorf("asked for %q, want %s", paths, want)
			}
		})
	}
}

func TestWithoutAKubeconfigTheNextStepIsSaid(t *testing.T) {
	t.Setenv("KUBECONFIG", "testdata/absent")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("HOME", t.TempDir())
	if err := Run(t.Context(), Options{CheckUninstall: true}, logr.Discard()); err == nil ||
		!strings.Contains(err.Error(), "use --kubeconfig FILE or set KUBECONFIG") {
		t.Errorf("got %v", err)
	}
}
