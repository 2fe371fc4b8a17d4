package informer_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/internal/apiaccess"
	"github.com/harrier-ci/harrier/internal/kube/informer"
)

// outage is a source that fails until it is over.
type outage struct {
	until time.Time
	err   error
	calls int
	then  *outage // what follows it, nil for nothing
}

func (o *outage) answer() error {
	o.calls++
	if time.Now().Before(o.until) {
		return o.err
	}
	if o.then != nil {
		return o.then.answer()
	}
	return nil
}

func (o *outage) source() *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &corev1.PodList{}, o.answer()
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return watch.NewFake(), o.answer()
		},
	}
}

func TestPersistentOutlastsOutages(t *testing.T) {
	for name, err := range map[string]error{
		"nobody there": syscall.ECONNREFUSED, "overloaded": apierrors.NewServiceUnavailable("no"),
		"broken": apierrors.NewInternalError(errors.New("no")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &outage{until: time.Now().Add(time.Minute), err: err}
				source := cache.ToListerWatcherWithContext(informer.Persistent(o.source(), clock.RealClock{}))
				if _, err := source.ListWithContext(t.Context(), metav1.ListOptions{}); err != nil {
					t.Errorf("list: %v", err)
				}
				if late := time.Since(o.until); late > 5*time.Second {
					t.Errorf("the list came %s after the outage", late)
				}
				if o.calls > 60 {
					t.Errorf("%d requests in a minute", o.calls)
				}
				o.until = time.Now().Add(10 * time.Second)
				if _, err := source.WatchWithContext(t.Context(), metav1.ListOptions{}); err != nil {
					t.Errorf("watch: %v", err)
				}
			})
		})
	}
}

func TestPersistentHandsRefusalsOn(t *testing.T) {
	for name, err := range map[string]error{
		"version too old":            apierrors.NewResourceExpired("too old"),
		"not served":                 apierrors.NewNotFound(corev1.Resource("pods"), ""),
		"not allowed":                apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no")),
		"too many":                   apierrors.NewTooManyRequests("slow down", 1),
		"version not there any more": versionTooLarge(),
	} {
		t.Run(name, func(t *testing.T) {
			o := &outage{until: time.Now().Add(time.Hour), err: err}
			source := cache.ToListerWatcherWithContext(informer.Persistent(o.source(), clock.RealClock{}))
			if _, got := source.ListWithContext(
				t.Context(), metav1.ListOptions{},
			); !errors.Is(got, err) || o.calls != 1 {
				t.Errorf("%d calls, then %v", o.calls, got)
			}
		})
	}
}

// After an outage a watch may be forbidden until the API server has loaded the Roles. A lasting refusal is returned.
func TestPersistentOutlastsAStartOfTheAPIServer(t *testing.T) {
	for name, test := range map[string]struct {
		lasts time.Duration
		fails bool
	}{"roles are read soon": {lasts: 2 * time.Second}, "forbidden": {lasts: time.Hour, fails: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				o := &outage{until: began.Add(time.Minute), err: syscall.ECONNREFUSED}
				o.then = &outage{
					until: o.until.Add(test.lasts),
					err:   apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no")),
				}
				_, err := cache.ToListerWatcherWithContext(informer.Persistent(o.source(), clock.RealClock{})).WatchWithContext(
					t.Context(), metav1.ListOptions{},
				)
				if apierrors.IsForbidden(err) != test.fails {
					t.Errorf("after %s: %v", time.Since(began), err)
				}
				if late := time.Since(o.until); late > apiaccess.ForbiddenTimeout+10*time.Second {
					t.Errorf("it ends %s after the outage", late)
				}
			})
		})
	}
}

// versionTooLarge is the answer of an API server whose etcd was restored from a snapshot.
func versionTooLarge() error {
	err := apierrors.NewTimeoutError("Too large resource version: 9, current: 1", 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	return err
}

func TestPersistentEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		o := &outage{until: time.Now().Add(time.Hour), err: syscall.ECONNREFUSED}
		if _, err := cache.ToListerWatcherWithContext(informer.Persistent(o.source(), clock.RealClock{})).ListWithContext(
			ctx, metav1.ListOptions{},
		); err == nil {
			t.Error("a list that was canceled succeeded")
		}
	})
}

// An answer that can't be read is not treated as an unreachable API server.
func TestPersistentSaysWhatItWaitsFor(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"away":       {syscall.ECONNREFUSED, "does not answer or allow"},
		"unreadable": {errors.New("json: cannot unmarshal"), "can't be read"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, lines := logged(t)
				o := &outage{until: time.Now().Add(time.Minute), err: test.err}
				if _, err := cache.ToListerWatcherWithContext(informer.Persistent(
					o.source(), clock.RealClock{},
				)).ListWithContext(
					ctx, metav1.ListOptions{},
				); err != nil {
					t.Error(err)
				}
				if said := lines.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, test.want) {
					t.Errorf("the log is %q, want one line with %q", said, test.want)
				}
			})
		})
	}
}
