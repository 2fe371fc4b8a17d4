package credentials_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/credentials"
)

// slowStore answers after a while.
type slowStore struct {
	*store
	pause atomic.Int64 // nanoseconds
}

func (s *slowStore) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	select {
	case <-time.After(time.Duration(s.pause.Load())):
		return s.store.Get(ctx, key, object, options...)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestSlowReadHoldsNobodyUpWhoHasSomethingToGoOnWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			readTimeout   = 10 * time.Second // of a read with all its requests
			rereadTimeout = time.Second      // after that one goes on with what there is
			pause         = readTimeout / 2
		)
		slow := &slowStore{store: newStore()}
		slow.pause.Store(int64(pause))
		slow.setSecret("runners", "github", credentials.KeyToken, "token-1")
		f := &fixture{Provider: credentials.New(slow, credentials.Options{})}
		resolve := func() (token string, took time.Duration) {
			begun := time.Now()
			return f.mustResolve(t, githubReference()), time.Since(begun)
		}
		if token, took := resolve(); token != "token-1" || took != pause {
			t.Errorf("%s after %s, want token-1, which there is no way to have before it is read", token, took)
		}
		slow.setSecret("runners", "github", credentials.KeyToken, "token-2")
		<-time.After(credentials.RereadInterval)
		if token, took := resolve(); token != "token-1" || took != rereadTimeout {
			t.Errorf("%s after %s, want token-1 after %s", token, took, rereadTimeout)
		}
		<-time.After(pause)
		if token, took := resolve(); token != "token-2" || took != 0 {
			t.Errorf("%s after %s, want token-2 at once: the read went on", token, took)
		}
		slow.pause.Store(int64(time.Hour))
		for range 3 { // reads that time out
			<-time.After(credentials.RereadInterval)
			if token, took := resolve(); token != "token-2" || took != rereadTimeout {
				t.Errorf("%s after %s, want token-2 after %s", token, took, rereadTimeout)
			}
		}
		slow.pause.Store(int64(pause))
		<-time.After(readTimeout)
		f.Invalidate(githubReference())
		<-time.After(credentials.RetryBackoff)
		if token, took := resolve(); token != "token-2" || took != pause {
			t.Errorf("%s after %s, want what GitHub has refused to be read anew, however long that takes", token, took)
		}
	})
}
