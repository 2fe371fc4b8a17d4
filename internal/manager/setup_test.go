package manager

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// A manager is set up even if the API server fails right after the CRDs were checked. Its caches wait for the server;
// if the process ended instead, the kubelet would restart it with a growing back-off.
func TestSetUpAsksTheAPIServerNothing(t *testing.T) {
	for name, watched := range map[string]string{"of all namespaces": "", "of one namespace": "runners"} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				t.Errorf("%s %s", r.Method, r.URL)
				w.WriteHeader(http.StatusInternalServerError)
			}))
			defer server.Close()
			options := defaults()
			options.Namespace, options.WatchNamespace, options.MetricsAddress = "harrier", watched, disabledAddress
			config := clientConfig(&rest.Config{Host: server.URL}, options)
			mgr, _, err := newManager(config, options, NewLogger(options, io.Discard))
			if err != nil {
				t.Fatal(err)
			}
			if err := addControllers(t.Context(), mgr, options); err != nil {
				t.Fatal(err)
			}
			if err := mgr.GetClient().Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "harrier",
				Name:      "pod",
			}}); !errors.Is(err, errNotLeading) {
				t.Errorf("before it leads it writes: %v", err)
			}
		})
	}
}
