package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/harrier-ci/harrier/internal/manager/alone"
)

// Durations of leader election. Candidates check the Lease every 1 to 2.2 s, which is leaseRetryPeriod with client-go's
// jitter: they see the last renewal at most 2.2 s late, and the end of the Lease at most 2.2 s late. So a leader that
// was killed is replaced after at most 9 + 2·2.2 = 13.4 s; client-go's defaults of 15 and 2 s would make that 23.8 s.
const (
	leaseDuration    = 9 * time.Second
	leaseRetryPeriod = time.Second
	// client-go gives up a renewal after leaseRenewDeadline.
	leaseRenewDeadline = 6 * time.Second
	// A manager acts for leaseValidity after its last renewal, and then ends: 2 s before another may lead, one of which
	// the server of the probes may take. client-go alone would end it later: after the deadline it first tries to
	// release the Lease, for up to 6 s if the API server hangs.
	leaseValidity = leaseRetryPeriod + leaseRenewDeadline
)

var (
	errLeaseLost = errors.New("the manager's Lease was not renewed in time, or another manager holds it: this one " +
		"ends, so that it can't act beside the other, and begins anew as a candidate. If that happens often, the " +
		"API server is overloaded or cut off")
	errNotLeading = errors.New("this manager does not hold the Lease, so it changes nothing in the cluster")
)

// leadership is the Lease by which managers agree on the one that acts, with what this manager knows of the Lease.
// client-go's elector uses it as its lock. In addition to the elector's work, it makes sure that a manager whose Lease
// may have passed to another writes nothing, even if the process was stopped for a minute and goes on where it was, and
// that such a manager ends immediately.
type leadership struct {
	resourcelock.Interface
	clock clock.WithDelayedExecution
	// beside are the other revisions of the manager's Deployment. Some take no Lease.
	beside interface {
		// Await returns when none lives, or with the context's error.
		Await(ctx context.Context) error
		// Acting returns an error if one has started that takes no Lease.
		Acting() error
	}
	// lost is closed when a manager that led must end.
	lost chan struct{}
	// cause is why the Lease was given up, nil if it was lost.
	cause atomic.Pointer[error]

	mu sync.Mutex
	// renewed is the time at which the last successful renewal was asked for; zero before the first. The clock is
	// monotonic, so it doesn't matter whether the node's time is right.
	renewed time.Time
	expiry  clock.Timer
	// over is set when the Lease was lost or released. The process ends then, and doesn't lead again.
	over bool
}

// newManager returns a manager that changes the cluster only while it leads. It asks the API server nothing yet.
func newManager(
	config *rest.Config, options Options, beside *alone.Deployment, log logr.Logger,
) (ctrl.Manager, *leadership, error) {
	lease, err := leaseOf(options, config)
	if err != nil {
		return nil, nil, err
	}
	leader := newLeadership(lease, clock.RealClock{})
	leader.beside = beside
	config = rest.CopyConfig(config)
	config.Wrap(leader.fence)
	mgr, err := ctrl.NewManager(config, managerOptions(options, leader, log))
	if err != nil {
		return nil, nil, fmt.Errorf("set up the manager: %w", err)
	}
	return mgr, leader, nil
}

func newLeadership(lock resourcelock.Interface, clk clock.WithDelayedExecution) *leadership {
	return &leadership{Interface: lock, clock: clk, beside: &alone.Deployment{}, lost: make(chan struct{})}
}

// leaseOf returns the Lease in the manager's namespace, and asks the API server nothing.
func leaseOf(options Options, config *rest.Config) (resourcelock.Interface, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name the holder of the Lease: %w", err)
	}
	client, err := coordinationclient.NewForConfig(leaseConfig(config))
	if err != nil {
		return nil, fmt.Errorf("set up the client of the Lease: %w", err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: options.Namespace, Name: options.LeaderElectionID},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
	}, nil
}

// leaseConfig returns the configuration with which the manager reaches its Lease.
func leaseConfig(config *rest.Config) *rest.Config {
	config = withOwnConnection(rest.AddUserAgent(config, "leader-election"))
	config.Timeout = leaseRenewDeadline / 2 // a renewal that hangs is tried again before the deadline
	return config
}

// Get reads the Lease. client-go would go on for its whole renew deadline after it has seen another holder.
func (l *leadership) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && record.HolderIdentity != l.Identity() && l.led() {
		l.lose()
	}
	return record, raw, l.explain(err)
}

// Create takes a Lease that doesn't exist.
func (l *leadership) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

// Update takes, renews or releases the Lease.
func (l *leadership) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Update)
}

func (l *leadership) write(
	ctx context.Context, record resourcelock.LeaderElectionRecord,
	send func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	if record.HolderIdentity != l.Identity() {
		// Before the release is sent: the next leader may act before the answer is here. A Lease that was lost may be
		// another's by now, and client-go would release that: it reads the Lease again, but not whose it is.
		if !l.end() {
			return errLeaseLost
		}
		return l.explain(send(ctx, record))
	}
	if l.isOver() {
		return errLeaseLost
	}
	if err := l.await(ctx, &record); err != nil {
		return err
	}
	asked := l.clock.Now() // before the API server's: others count from when they see the renewal
	// A renewal is not cut off when the manager stops: the API server may carry it out nevertheless, between the
	// elector's read and its release, which then conflicts. The Lease would stay taken until it expires. The client's
	// own time limit still applies.
	if err := send(context.WithoutCancel(ctx), record); err != nil {
		return l.explain(err)
	}
	l.renew(asked)
	return nil
}

// await waits before the Lease is taken until no other revision of the manager's Deployment lives. A manager that has
// it ends if one has started that takes no Lease.
func (l *leadership) await(ctx context.Context, record *resourcelock.LeaderElectionRecord) error {
	if !l.led() {
		began := l.clock.Now()
		err := l.beside.Await(ctx)
		waited := l.clock.Since(began) // the elector has written its record before
		record.AcquireTime.Time, record.RenewTime.Time = record.AcquireTime.Add(waited), record.RenewTime.Add(waited)
		return err
	}
	err := l.beside.Acting()
	if err != nil {
		l.cause.Store(&err)
		l.lose()
	}
	return err
}

// explain adds the next step to the error about a Lease that the manager may not use.
func (l *leadership) explain(err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	return fmt.Errorf("the manager acts only while it holds the Lease %s: allow its account to get, create and "+
		"update leases in that namespace, as the chart's Role ...-leader-election does: %w", l.Describe(), err)
}

func (l *leadership) renew(asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.renewed = asked
	if l.expiry != nil {
		l.expiry.Stop()
	}
	l.expiry = l.clock.AfterFunc(leaseValidity-l.clock.Since(asked), l.expire)
}

// expire ends a manager whose Lease wasn't renewed since the timer was set.
func (l *leadership) expire() {
	if !l.holds() {
		l.lose()
	}
}

// lose ends the manager.
func (l *leadership) lose() {
	if l.end() {
		close(l.lost)
	}
}

// end makes the manager write nothing more. It returns false if that was so already.
func (l *leadership) end() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	l.over = true
	if l.expiry != nil {
		l.expiry.Stop()
	}
	return true
}

func (l *leadership) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

func (l *leadership) led() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.renewed.IsZero()
}

// holds reports whether no other manager can lead yet.
func (l *leadership) holds() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.over && !l.renewed.IsZero() && l.clock.Since(l.renewed) < leaseValidity
}

// fence wraps a transport so that it changes the cluster only while the manager leads.
func (l *leadership) fence(next http.RoundTripper) http.RoundTripper { return fenced{next, l} }

type fenced struct {
	http.RoundTripper
	leadership *leadership
}

// WrappedRoundTripper implements net.RoundTripperWrapper of apimachinery.
func (f fenced) WrappedRoundTripper() http.RoundTripper { return f.RoundTripper }

// RoundTrip refuses a request that would change something while another manager may lead.
func (f fenced) RoundTrip(request *http.Request) (*http.Response, error) {
	if changes(request) && !f.leadership.holds() {
		if request.Body != nil {
			_ = request.Body.Close() // as a RoundTripper must
		}
		return nil, errNotLeading
	}
	return f.RoundTripper.RoundTrip(request)
}

// changes reports whether a request changes the cluster. Reviews, with which every replica protects its metrics, are
// posted and change nothing.
func changes(request *http.Request) bool {
	switch request.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return !strings.Contains(request.URL.Path, "/apis/authentication.k8s.io/") &&
		!strings.Contains(request.URL.Path, "/apis/authorization.k8s.io/")
}
