package manager

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// These tests are inside of the package: time passes for them in bubbles, which have no network, and so no API server
// with a Lease.

// validity is the time for which a manager acts after its last renewal: 2 s less than the Lease lasts.
const validity = 7 * time.Second

// election returns the settings of leader election.
func election() (lease, renew, retry time.Duration) {
	options := managerOptions(Options{}, nil, logr.Discard())
	return *options.LeaseDuration, *options.RenewDeadline, *options.RetryPeriod
}

func TestALeaderIsMissedForLessThan15SecondsAndThereAreNeverTwo(t *testing.T) {
	lease, renew, retry := election()
	const jitter = 2.2 // client-go adds up to 1.2 of the period
	late := time.Duration(jitter * float64(retry))
	if missed := lease + 2*late; missed >= 15*time.Second {
		t.Errorf("a killed leader is replaced after up to %s", missed)
	}
	if left := lease - validity; left < 2*time.Second || validity < retry+renew {
		t.Errorf("a leader that can't renew has %s to end before another begins", left)
	}
	if !managerOptions(Options{}, nil, logr.Discard()).LeaderElection {
		t.Error("no leader is elected")
	}
}

// memoryLock is a Lease without an API server.
type memoryLock struct {
	resourcelock.Interface
	mu     sync.Mutex
	record resourcelock.LeaderElectionRecord
	// version counts the updates, and read is the one that was read or written last: updates of another conflict.
	version, read int
	// answer, if set, answers requests.
	answer func(context.Context) error
}

func (l *memoryLock) Identity() string   { return "this" }
func (l *memoryLock) Describe() string   { return "harrier/lease" }
func (l *memoryLock) RecordEvent(string) {}

// change changes what the API server has or answers.
func (l *memoryLock) change(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

func (l *memoryLock) ask(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var answer func(context.Context) error
	l.change(func() { answer = l.answer })
	if answer == nil {
		return nil
	}
	return answer(ctx)
}

func (l *memoryLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.ask(ctx); err != nil {
		return nil, nil, err
	}
	var record resourcelock.LeaderElectionRecord
	l.change(func() { record, l.read = l.record, l.version })
	return &record, []byte(record.HolderIdentity + record.RenewTime.String()), nil
}

func (l *memoryLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

func (l *memoryLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.ask(ctx); err != nil {
		return err
	}
	conflict := false
	l.change(func() {
		if conflict = l.read != l.version; conflict {
			return
		}
		l.version++
		l.record, l.read = record, l.version
	})
	if conflict {
		return apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "lease", errBroken)
	}
	return nil
}

// hang is an API server that is cut off: a request ends with its time limit.
func hang(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	<-ctx.Done()
	return ctx.Err()
}

// elect runs client-go's elector with controller-runtime's settings, and returns when it leads. It returns what stops
// the elector.
func elect(t *testing.T, lease *leadership) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	elected := make(chan struct{})
	duration, renew, retry := election()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lease,
		LeaseDuration:   duration,
		RenewDeadline:   renew,
		RetryPeriod:     retry,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(elected) }, OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { elector.Run(ctx) })
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	<-elected
	return stop
}

// A renewal that is cut off may be carried out nevertheless, after the elector has read the Lease to release it.
func TestALeaderThatStopsWhileItRenewsReleasesTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := &memoryLock{}
		stop := elect(t, newLeadership(lock, clock.RealClock{}))
		renewing := make(chan struct{})
		requests, cutOff := 0, false
		lock.change(func() {
			lock.answer = func(ctx context.Context) error {
				requests++
				switch requests {
				case 1: // renews
					close(renewing)
					select {
					case <-time.After(100 * time.Millisecond):
					case <-ctx.Done():
						cutOff = true
					}
					return ctx.Err()
				case 3: // releases, after a read
					if cutOff {
						lock.change(func() { lock.version++ })
					}
				}
				return nil
			}
		})
		<-renewing
		stop()
		if requests == 0 || lock.record.HolderIdentity != "" {
			t.Errorf("%q still holds the Lease after %d requests", lock.record.HolderIdentity, requests)
		}
	})
}

func TestALeaderThatCannotRenewEndsBeforeAnotherLeads(t *testing.T) {
	for name, answer := range map[string]func(context.Context) error{
		"cut off":  hang, // the elector alone would end 4 s later: it tries to release the Lease first
		"refusing": func(context.Context) error { return errBroken },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lock := &memoryLock{}
				lease := newLeadership(lock, clock.RealClock{})
				elect(t, lease)
				<-time.After(time.Minute)
				synctest.Wait()
				if !lease.holds() {
					t.Fatal("does not lead while it renews")
				}
				var renewed time.Time
				lock.change(func() { renewed, lock.answer = lock.record.RenewTime.Time, answer })
				<-lease.lost
				if acted := time.Since(renewed); acted > validity || lease.holds() {
					t.Errorf("acted until %s after the last renewal", acted)
				}
			})
		})
	}
}

// The elector alone would lead on for its renew deadline.
func TestALeaderThatSeesAnotherEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := &memoryLock{}
		lease := newLeadership(lock, clock.RealClock{})
		elect(t, lease)
		<-time.After(time.Minute)
		synctest.Wait()
		conflict := apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "lease", errBroken)
		lock.change(func() {
			lock.record.HolderIdentity, lock.answer = "another", func(context.Context) error {
				lock.change(func() { lock.answer = nil }) // the elector's update, which is followed by a read
				return conflict
			}
		})
		taken := time.Now()
		<-lease.lost
		if after := time.Since(taken); after > time.Second {
			t.Errorf("ended after %s, want with its next renewal", after)
		}
		if err := lease.Update(t.Context(), resourcelock.LeaderElectionRecord{
			HolderIdentity: "this",
		}); !errors.Is(err, errLeaseLost) {
			t.Errorf("took the Lease again: %v", err)
		}
		// The elector does so when it ends, without a look at the holder.
		if err := lease.Update(t.Context(), resourcelock.LeaderElectionRecord{}); !errors.Is(err, errLeaseLost) ||
			lock.record.HolderIdentity != "another" {
			t.Errorf("released the Lease of %q: %v", lock.record.HolderIdentity, err)
		}
	})
}

// stoppedTimers is the clock of a process that has just been continued: its timers are due and have not run.
type stoppedTimers struct{ *clocktesting.FakeClock }

func (stoppedTimers) AfterFunc(time.Duration, func()) clock.Timer { return neverFires{} }

type neverFires struct{ clock.Timer }

func (neverFires) Stop() bool { return true }

// request sends a request through the fence and reports whether it came through.
func request(t *testing.T, lease *leadership, method, path string) bool {
	t.Helper()
	sent := false
	asked, err := http.NewRequestWithContext(t.Context(), method, "https://server"+path, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := lease.fence(sender(func() { sent = true })).RoundTrip(asked)
	if answer != nil {
		_ = answer.Body.Close()
	}
	if sent == errors.Is(err, errNotLeading) {
		t.Fatalf("%s %s: sent %t, with the error %v", method, path, sent, err)
	}
	return sent
}

type sender func()

func (s sender) RoundTrip(*http.Request) (*http.Response, error) {
	s()
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

const runners = "/apis/actions.github.com/v1alpha1/namespaces/a/ephemeralrunners"

func TestOnlyALeaderWrites(t *testing.T) {
	own := resourcelock.LeaderElectionRecord{HolderIdentity: "this"}
	for name, test := range map[string]struct {
		happens func(*testing.T, *leadership, *memoryLock, *clocktesting.FakeClock)
		writes  bool
		lost    bool
	}{
		"a standby": {happens: func(t *testing.T, lease *leadership, lock *memoryLock, _ *clocktesting.FakeClock) {
			lock.record.HolderIdentity = "another"
			_, _, _ = lease.Get(t.Context())
		}},
		"the leader": {
			writes: true,
			happens: func(t *testing.T, lease *leadership, _ *memoryLock, now *clocktesting.FakeClock) {
				_ = lease.Create(t.Context(), own)
				now.Step(validity - 1)
			},
		},
		"one whose process was stopped": {
			happens: func(t *testing.T, lease *leadership, _ *memoryLock, now *clocktesting.FakeClock) {
				_ = lease.Create(t.Context(), own)
				now.Step(time.Minute)
			},
		},
		// A renewal counts from the moment it was asked for.
		"one whose renewal took long": {
			happens: func(t *testing.T, lease *leadership, lock *memoryLock, now *clocktesting.FakeClock) {
				lock.answer = func(context.Context) error { now.Step(validity); return nil }
				_ = lease.Update(t.Context(), own)
			},
		},
		"one that failed to renew": {
			happens: func(t *testing.T, lease *leadership, lock *memoryLock, now *clocktesting.FakeClock) {
				_ = lease.Update(t.Context(), own)
				lock.answer = func(context.Context) error { now.Step(validity); return errBroken }
				_ = lease.Update(t.Context(), own)
			},
		},
		"one that released the Lease": {
			happens: func(t *testing.T, lease *leadership, lock *memoryLock, _ *clocktesting.FakeClock) {
				_ = lease.Update(t.Context(), own)
				lock.answer = func(context.Context) error {
					if request(t, lease, http.MethodPost, runners) {
						t.Error("wrote while it released the Lease")
					}
					return nil
				}
				_ = lease.Update(t.Context(), resourcelock.LeaderElectionRecord{})
			},
		},
		"one that saw another": {
			lost: true,
			happens: func(t *testing.T, lease *leadership, lock *memoryLock, _ *clocktesting.FakeClock) {
				_ = lease.Update(t.Context(), own)
				lock.record.HolderIdentity = "another"
				_, _, _ = lease.Get(t.Context())
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			now, lock := clocktesting.NewFakeClock(time.Now()), &memoryLock{}
			lease := newLeadership(lock, stoppedTimers{now})
			test.happens(t, lease, lock, now)
			checkWrites(t, lease, test.writes, test.lost)
		})
	}
}

// checkWrites checks whether a manager sends what changes the cluster, and whether it ends. It always reads.
func checkWrites(t *testing.T, lease *leadership, writes, lost bool) {
	t.Helper()
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if got := request(t, lease, method, runners); got != writes {
			t.Errorf("%s was sent: %t, want %t", method, got, writes)
		}
	}
	for _, review := range []string{
		"/apis/authentication.k8s.io/v1/tokenreviews",
		"/apis/authorization.k8s.io/v1/subjectaccessreviews",
	} {
		if !request(t, lease, http.MethodPost, review) {
			t.Errorf("%s was not sent: a standby's metrics could not be read", review)
		}
	}
	if !request(t, lease, http.MethodGet, runners) {
		t.Error("could not read")
	}
	select {
	case <-lease.lost:
		if !lost {
			t.Error("ends")
		}
	default:
		if lost {
			t.Error("does not end")
		}
	}
}

func TestAForbiddenLeaseSaysWhatToAllow(t *testing.T) {
	lock := &memoryLock{answer: func(context.Context) error {
		return apierrors.NewForbidden(
			schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, "lease", errBroken,
		)
	}}
	lease := newLeadership(lock, clock.RealClock{})
	_, _, err := lease.Get(t.Context())
	if !apierrors.IsForbidden(err) || !strings.Contains(
		err.Error(), "holds the Lease harrier/lease: allow its account to get, create and update leases",
	) {
		t.Errorf("says %v", err)
	}
}
