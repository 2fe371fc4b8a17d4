package manager_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/internal/manager"
)

// askBeforeUninstall runs the check of --check-uninstall against a server.
func askBeforeUninstall(ctx context.Context, t *testing.T, url, namespace string) error {
	t.Helper()
	t.Setenv("KUBECONFIG", kubeconfigFor(t, &rest.Config{Host: url}))
	return manager.Run(ctx, manager.Options{CheckUninstall: true, WatchNamespace: namespace}, logr.Discard())
}

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
	err := askBeforeUninstall(short, t, server.URL, "")
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
	if err := askBeforeUninstall(interrupted, t, server.URL, ""); !errors.Is(err, context.Canceled) {
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
			err := askBeforeUninstall(t.Context(), t, server.URL, "runners")
			left, _ := errors.AsType[*manager.ScaleSetsLeftError](err)
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

// The message names twenty scale sets, counts the rest, and says what to do.
func TestTheUninstallCheckNamesWhatIsLeft(t *testing.T) {
	cluster := fake.NewClientBuilder().WithScheme(kinds.Scheme())
	for i := range 22 {
		set := &v1alpha1.AutoscalingRunnerSet{}
		set.Namespace, set.Name = "runners", fmt.Sprintf("set-%02d", i)
		cluster.WithObjects(set)
	}
	left := cluster.Build()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		_, place, _ := strings.Cut(request.URL.Path, "/namespaces/")
		namespace, _, _ := strings.Cut(place, "/")
		sets := &v1alpha1.AutoscalingRunnerSetList{}
		if err := left.List(request.Context(), sets, client.InNamespace(namespace)); err != nil {
			t.Error(err)
		}
		sets.APIVersion, sets.Kind = v1alpha1.GroupVersion.String(), "AutoscalingRunnerSetList"
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(sets)
	}))
	defer server.Close()
	err := askBeforeUninstall(t.Context(), t, server.URL, "")
	for _, part := range []string{
		"22 scale set(s)", "runners/set-00", "runners/set-19", "and 2 more", "helm uninstall NAME",
	} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v doesn't say %q", err, part)
		}
	}
	if err == nil || strings.Contains(err.Error(), "runners/set-20") {
		t.Errorf("%v names more than twenty", err)
	}
	if err := askBeforeUninstall(t.Context(), t, server.URL, "elsewhere"); err != nil {
		t.Errorf("scale sets of a namespace that isn't ours to watch: %v", err)
	}
}

func TestWithoutAKubeconfigTheNextStepIsSaid(t *testing.T) {
	t.Setenv("KUBECONFIG", "testdata/absent")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("HOME", t.TempDir())
	if err := manager.Run(t.Context(), manager.Options{CheckUninstall: true}, logr.Discard()); err == nil ||
		!strings.Contains(err.Error(), "use --kubeconfig FILE or set KUBECONFIG") {
		t.Errorf("got %v", err)
	}
}
