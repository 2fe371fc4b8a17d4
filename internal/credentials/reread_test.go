package credentials_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"weak"

	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/harrier-ci/harrier/internal/credentials"
)

func TestResolveReadsAtMostOnceAMinute(t *testing.T) {
	f := newFixture(t)
	for range 100 {
		f.mustResolve(t, githubReference())
	}
	// Another repository of the same namespace with the same Secret needs no read of its own.
	other := githubReference()
	other.GitHubConfigURL = "https://github.com/org/repository"
	f.mustResolve(t, other)
	if reads := f.store.readsOf("runners", "github"); reads != 1 {
		t.Fatalf("%d reads, want 1", reads)
	}
	f.store.setSecret("runners", "github", credentials.KeyToken, "token-2")
	f.clock.Step(credentials.RereadInterval - 1)
	if got := f.mustResolve(t, githubReference()); got != "token-1" {
		t.Errorf("got %s before a minute was over", got)
	}
	f.clock.Step(1)
	if got := f.mustResolve(t, githubReference()); got != "token-2" {
		t.Errorf("got %s after a minute", got)
	}
}

func TestInvalidateReadsAgainButNotEachTime(t *testing.T) {
	f := newFixture(t)
	f.mustResolve(t, githubReference())
	f.store.setSecret("runners", "github", credentials.KeyToken, "token-2")
	f.Invalidate(githubReference())
	if got := f.mustResolve(t, githubReference()); got != "token-1" {
		t.Errorf("got %s although the last read is younger than RetryBackoff", got)
	}
	f.clock.Step(credentials.RetryBackoff)
	if got := f.mustResolve(t, githubReference()); got != "token-2" {
		t.Errorf("got %s after Invalidate", got)
	}
	for range 10 {
		f.Invalidate(githubReference())
		f.mustResolve(t, githubReference())
	}
	if reads := f.store.readsOf("runners", "github"); reads != 2 {
		t.Errorf("%d reads, want 2", reads)
	}
}

func TestFailedReads(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "github", nil)
	t.Run("a good result bridges them for a while", func(t *testing.T) {
		f := newFixture(t)
		f.mustResolve(t, githubReference())
		f.store.fail(forbidden)
		f.clock.Step(credentials.RereadInterval)
		if got := f.mustResolve(t, githubReference()); got != "token-1" {
			t.Errorf("got %s", got)
		}
		f.clock.Step(kept - credentials.RereadInterval)
		_, err := f.Resolve(t.Context(), githubReference())
		if !apierrors.IsForbidden(err) || !credentials.Gone(err) {
			t.Errorf("got %v, want the API server's refusal", err)
		}
		mustName(t, err, "Secret runners/github")
	})
	t.Run("a deleted Secret is known at once", func(t *testing.T) {
		f := newFixture(t)
		f.mustResolve(t, githubReference())
		f.store.deleteSecret("runners", "github")
		f.clock.Step(credentials.RereadInterval)
		_, err := f.Resolve(t.Context(), githubReference())
		if !isMissing(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("they are repeated every five seconds", func(t *testing.T) {
		f := newFixture(t)
		f.store.fail(forbidden)
		for range 10 {
			if _, err := f.Resolve(t.Context(), githubReference()); err == nil {
				t.Fatal("no error")
			}
		}
		f.store.fail(nil)
		f.clock.Step(credentials.RetryBackoff)
		f.mustResolve(t, githubReference())
		if reads := f.store.readsOf("runners", "github"); reads != 2 {
			t.Errorf("%d reads, want 2", reads)
		}
	})
}

func TestConcurrentCallersShareOneReadAndDelayNobodyElse(t *testing.T) {
	f := newFixture(t)
	f.store.setSecret("other", "github", credentials.KeyToken, "other")
	gate := make(chan struct{})
	f.store.gates["runners"] = gate

	var callers sync.WaitGroup
	tokens := make(chan string, 50)
	for range cap(tokens) {
		callers.Go(func() {
			resolved, err := f.Resolve(t.Context(), githubReference())
			if err != nil {
				tokens <- err.Error()
				return
			}
			tokens <- resolved.Credentials.Token
		})
	}
	// While they hang, the other namespace is served.
	other := githubReference()
	other.Namespace = "other"
	if got := f.mustResolve(t, other); got != "other" {
		t.Errorf("got %s", got)
	}
	// A caller that gives up doesn't end the read for the others.
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Resolve(canceled, githubReference()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(gate)
	callers.Wait()
	close(tokens)
	for token := range tokens {
		if token != "token-1" {
			t.Errorf("got %s", token)
		}
	}
	if reads := f.store.readsOf("runners", "github"); reads != 1 {
		t.Errorf("%d reads, want 1", reads)
	}
}

func TestUnusedResultsAreDropped(t *testing.T) {
	f := newFixture(t)
	var results []weak.Pointer[credentials.Resolved]
	for i := range 20 {
		name := fmt.Sprintf("secret-%d", i)
		f.store.setSecret("runners", name, credentials.KeyToken, "x")
		reference := githubReference()
		reference.GitHubConfigSecret = name
		resolved, err := f.Resolve(t.Context(), reference)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, weak.Make(resolved))
	}
	inMemory := func() (count int) {
		runtime.GC()
		for i := range results {
			if results[i].Value() != nil {
				count++
			}
		}
		return count
	}
	f.clock.Step(kept - 1)
	f.mustResolve(t, githubReference())
	if got := inMemory(); got != len(results) {
		t.Errorf("%d of %d results are kept for ten minutes", got, len(results))
	}
	f.clock.Step(credentials.RereadInterval)
	f.mustResolve(t, githubReference())
	if got := inMemory(); got != 0 {
		t.Errorf("%d results are kept that nobody has used for ten minutes", got)
	}
	runtime.KeepAlive(f)
}

// Reread returns nothing from before the change, not even through a read that was under way, and everybody else gets
// what it returns.
func TestRereadReadsAtOnce(t *testing.T) {
	f := newFixture(t)
	if got, err := f.Reread(t.Context(), githubReference()); err != nil || got.Credentials.Token != "token-1" {
		t.Errorf("first read: %v, %v", got, err)
	}
	gate := make(chan struct{})
	f.store.gates["runners"] = gate
	f.clock.Step(kept) // no stand-in
	var before sync.WaitGroup
	before.Go(func() { _, _ = f.Resolve(t.Context(), githubReference()) })
	gomega.NewWithT(t).Eventually(func() int { return f.store.readsOf("runners", "github") }).Should(gomega.Equal(2))
	delete(f.store.gates, "runners")
	f.store.setSecret("runners", "github", credentials.KeyToken, "token-2")
	if got, err := f.Reread(t.Context(), githubReference()); err != nil || got.Credentials.Token != "token-2" {
		t.Errorf("after the change: %v, %v", got, err)
	}
	close(gate)
	before.Wait()
	if got := f.mustResolve(t, githubReference()); got != "token-2" {
		t.Errorf("others get %s", got)
	}
	f.store.fail(errors.New("away"))
	if _, err := f.Reread(t.Context(), githubReference()); err == nil {
		t.Error("what was read before passes for what was to be read now")
	}
	if got := f.mustResolve(t, githubReference()); got != "token-2" {
		t.Errorf("others get %s while reads fail", got)
	}
}
