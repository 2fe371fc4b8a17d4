package nodes_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/harrier-ci/harrier/internal/kube/nodes"
)

// forbidden is a source that nobody may read, until it is granted.
type forbidden struct {
	mu      sync.Mutex
	granted bool
	options []metav1.ListOptions // of the lists
}

func (f *forbidden) isGranted() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.granted
}

func (f *forbidden) listed() []metav1.ListOptions {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.options
}

func (f *forbidden) source() cache.ListerWatcher {
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("no Role"))
	return &cache.ListWatch{
		ListWithContextFunc: func(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.options = append(f.options, options)
			if !f.granted {
				return nil, refusal
			}
			node := tainted("karpenter.sh/disrupted", "", corev1.TaintEffectNoSchedule)
			node.Name, node.Labels = "n", map[string]string{"a": "b"}
			return &corev1.NodeList{Items: []corev1.Node{*node}}, nil
		},
		WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
			if !f.isGranted() || options.SendInitialEvents != nil {
				return nil, refusal
			}
			return watch.NewFake(), nil
		},
	}
}

// A missing right is logged a single time, costs a few requests a minute, and is noticed when it is granted. Then nodes
// come in pages, stripped.
func TestMissingRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var said atomic.Int32
		logger := funcr.New(func(string, string) { said.Add(1) }, funcr.Options{})
		f := &forbidden{}
		informer := cache.NewSharedIndexInformer(nodes.InPages(f.source()), &corev1.Node{}, 0, nil)
		if err := informer.SetWatchErrorHandlerWithContext(nodes.LogForbiddenOnce(logger)); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { informer.RunWithContext(ctx); close(done) }()
		<-time.After(10 * time.Minute)
		synctest.Wait()
		if lines, lists := said.Load(), len(f.listed()); lines != 1 || lists < 10 || lists > 60 {
			t.Errorf("in ten minutes %d lines and %d lists, want one, and 10 to 60", lines, lists)
		}
		f.mu.Lock()
		f.granted = true
		f.mu.Unlock()
		<-time.After(2 * time.Minute)
		synctest.Wait()
		cached := informer.GetStore().List()
		if len(cached) != 1 || cached[0].(*corev1.Node).Labels != nil || nodes.SignsOf(cached[0].(*corev1.Node)) == 0 {
			t.Errorf("the informer has %+v, want the node with its sign alone", cached)
		}
		if o := f.listed()[len(f.listed())-1]; o.ResourceVersion != "" || o.Limit == 0 {
			t.Errorf("listed with %+v: the API server would answer with all nodes at once", o)
		}
		cancel()
		<-done
	})
}
