package manager

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
)

const (
	setsWithOne = `{"apiVersion":"actions.github.com/v1alpha1","kind":"AutoscalingRunnerSetList",` +
		`"metadata":{"resourceVersion":"1"},"items":[%s]}`
	oneSet = `{"apiVersion":"actions.github.com/v1alpha1","kind":"AutoscalingRunnerSet","metadata":{"namespace":"n",` +
		`"name":"set","resourceVersion":"%d"},` +
		`"spec":{"pendingTimeout":"%s","runnerGroup":"%s"}}`
)

// This test is inside of the package: what a cache has of an object is seen in no request.

// Fields of an object that can't be read keep their value in the cache until they can be read again.
func TestCacheKeepsWhatCouldBeRead(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(serveSets))
	t.Cleanup(server.Close)
	sets := setInformer(t, server.URL)
	seen := make(chan string, 10)
	tell := func(object any) {
		set := object.(*v1alpha1.AutoscalingRunnerSet)
		seen <- set.Spec.RunnerGroup + " " + set.Spec.PendingTimeout.Duration.String()
	}
	_, err := sets.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    tell,
		UpdateFunc: func(_, object any) { tell(object) },
	})
	if err != nil {
		t.Fatal(err)
	}
	go sets.RunWithContext(t.Context())
	for _, want := range []string{"before 5m0s", "after 5m0s", "mended 7m0s"} {
		gomega.NewWithT(t).Eventually(seen, "30s").Should(gomega.Receive(gomega.Equal(want)))
	}
}

// serveSets serves one set, one version of which can't be read.
func serveSets(w http.ResponseWriter, request *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch query := request.URL.Query(); {
	case query.Get("sendInitialEvents") != "":
		w.WriteHeader(http.StatusBadRequest) // lists only
	case query.Get("watch") == "":
		fmt.Fprintf(w, setsWithOne, fmt.Sprintf(oneSet, 1, "5m", "before"))
	default:
		fmt.Fprintln(w, `{"type":"MODIFIED","object":`+fmt.Sprintf(oneSet, 2, "999999999999h", "after")+`}`)
		fmt.Fprintln(w, `{"type":"MODIFIED","object":`+fmt.Sprintf(oneSet, 3, "7m", "mended")+`}`)
		w.(http.Flusher).Flush()
		<-request.Context().Done()
	}
}

// setInformer is the cache's informer of scale sets on an API server.
func setInformer(t *testing.T, url string) toolscache.SharedIndexInformer {
	t.Helper()
	config := clientConfig(&rest.Config{Host: url, APIPath: "/apis", ContentConfig: rest.ContentConfig{
		GroupVersion:         &v1alpha1.GroupVersion,
		NegotiatedSerializer: serializer.NewCodecFactory(kinds.Scheme()).WithoutConversion(),
	}}, Options{QPS: 100, Burst: 100})
	connection, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	source := toolscache.NewListWatchFromClient(connection, "autoscalingrunnersets", "", fields.Everything())
	return newInformer(source, &v1alpha1.AutoscalingRunnerSet{}, time.Hour, toolscache.Indexers{})
}
