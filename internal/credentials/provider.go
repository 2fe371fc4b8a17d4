package credentials

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

const (
	// RereadAfter is the age at which what was read is read again. It bounds how long a rotated credential, CA or proxy
	// goes unnoticed while the old one still works: one GET a minute for each Secret in use.
	RereadAfter = 60 * time.Second
	// RetryAfter is the shortest time between two reads of the same thing after a failure, a 401 or Invalidate, so that
	// a thousand runners with a revoked token do not read a thousand times.
	RetryAfter = 5 * time.Second
	// readTimeout ends a read with everything that belongs to it. A GET takes milliseconds, a vault's answer a second.
	readTimeout = 10 * time.Second
	// rereadTimeout is how long a caller waits for a read while it has a good result to go on with. Callers are reconcile
	// workers: one vault that hangs must not take ten of them for 10 s each.
	rereadTimeout = time.Second
	// keepFor is how long a good result bridges failing reads (API server away, Role deleted before the runners are),
	// and how long clients and results that nobody uses are kept.
	keepFor = 10 * time.Minute
)

// Options of a Provider. All may be left out.
type Options struct {
	// Clock is for ages; nil means the real one.
	Clock clock.WithTicker
	// Logger gets one line when credentials were replaced.
	Logger logr.Logger
	// UserAgent describes the manager to GitHub.
	UserAgent actions.UserAgent
	// OnRequest is called after every attempt of every client, concurrently, and must not block. OnUnused is called when
	// no client is left for a config URL.
	OnRequest func(configURL string, info actions.RequestInfo)
	OnUnused  func(configURL string)
}

// Provider hands out what References lead to. It is safe for concurrent use.
type Provider struct {
	reader  reader
	options Options
	results results
	clients clients
}

// New returns a provider. The reader must not be a cache: a cache would list and watch Secrets.
func New(kube client.Reader, options Options) *Provider {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	p := &Provider{reader: reader{kube: kube}, options: options}
	p.reader.openVault = func(config *v1alpha1.AzureKeyVaultConfig, proxy *ProxySettings) vault {
		return openAzureKeyVault(config, proxy, options.Clock)
	}
	p.results.entries = map[sourceKey]*result{}
	p.clients.entries, p.clients.unused = map[clientKey]*clientEntry{}, options.OnUnused
	return p
}

// Resolve returns what the reference leads to, at most RereadAfter old unless reading is slow or fails. It fails with *MissingError, *InvalidError,
// *UnsupportedError, or the API server's or vault's own error.
func (p *Provider) Resolve(ctx context.Context, reference Reference) (*Resolved, error) {
	return p.shared(ctx, reference.source(), func(ctx context.Context) (*Resolved, error) {
		return p.reader.read(ctx, reference)
	}, "namespace", reference.Namespace, "githubConfigSecret", reference.GitHubConfigSecret)
}

// FromListener returns what the Secrets of an AutoscalingListener still hold, at most RereadAfter old. An uninstall
// deletes the credential Secret before the runners; the listener's Secrets are in the manager's namespace and go last.
// Use the result with ClientFrom. It fails with *MissingError where the listener was told to ask a vault itself, as ARC
// does.
func (p *Provider) FromListener(ctx context.Context, listener client.ObjectKey) (*Resolved, error) {
	return p.shared(ctx, sourceKey("listener "+listener.String()), func(ctx context.Context) (*Resolved, error) {
		return p.reader.listener(ctx, listener)
	}, "listener", listener.String())
}

// shared returns what is known under the key, or reads it for all who want it at this time. The values go into the log.
func (p *Provider) shared(ctx context.Context, key sourceKey, read func(context.Context) (*Resolved, error), values ...any) (*Resolved, error) {
	if resolved, fresh, err := p.results.get(key, p.options.Clock.Now()); fresh {
		return resolved, err
	}
	flight := p.results.flights.DoChan(string(key), func() (any, error) {
		// Somebody may have read between the look above and this flight.
		if resolved, fresh, err := p.results.get(key, p.options.Clock.Now()); fresh {
			return resolved, err
		}
		// The read outlives the caller that started it, because others wait for it too.
		readCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		resolved, err := read(readCtx)
		now := p.options.Clock.Now()
		entry, replaced := p.results.put(key, now, resolved, err)
		if replaced {
			p.options.Logger.Info("Credentials, proxy or certificate authorities changed; new calls use the new ones", values...)
		}
		return entry.outcome(now)
	})
	var patience <-chan time.Time
	standIn := p.results.standIn(key, p.options.Clock.Now())
	if standIn != nil {
		patience = p.options.Clock.After(rereadTimeout)
	}
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("read credentials: %w", ctx.Err())
	case <-patience:
		return standIn, nil
	case answer := <-flight:
		resolved, _ := answer.Val.(*Resolved)
		return resolved, answer.Err
	}
}

// Invalidate makes the next use read again, unless the last read is younger than RetryAfter; then the use after that
// does. Clients call it on their own after a 401.
func (p *Provider) Invalidate(reference Reference) { p.results.invalidate(reference.source()) }

// Client returns the client for the reference. Callers with equal config URL, credentials, CA and proxy share one. It
// fails as Resolve does, and with *actions.InvalidConfigURLError. Ask for it anew for every call rather than keeping
// it: that is how rotation takes effect.
func (p *Provider) Client(ctx context.Context, reference Reference) (*actions.Client, error) {
	resolved, err := p.Resolve(ctx, reference)
	if err != nil {
		return nil, err
	}
	return p.client(reference, resolved, reference.source())
}

// ClientFrom returns the client for the reference's config URL with values from elsewhere: in finalization, those that
// the listener's Secrets still hold when the credential Secret is gone.
func (p *Provider) ClientFrom(reference Reference, resolved *Resolved) (*actions.Client, error) {
	return p.client(reference, resolved, "")
}

// ClientOfListener returns the client for the reference's config URL with what the listener's Secrets still hold. cause is why the
// reference's own credentials don't serve: an error that is Unusable, or a refusal of GitHub's. Where the listener has no usable
// ones either the error is Unusable, too; where they could not be read, it is not.
func (p *Provider) ClientOfListener(ctx context.Context, reference Reference, listener client.ObjectKey, cause error) (*actions.Client, error) {
	resolved, err := p.FromListener(ctx, listener)
	switch {
	case err == nil:
		return p.ClientFrom(reference, resolved)
	case Unusable(err):
		return nil, fmt.Errorf("%w; nor do the listener's Secrets help: %w", cause, err)
	}
	return nil, fmt.Errorf("%s; the listener's Secrets could not be read: %w", cause.Error(), err)
}

// Gone reports whether what a reference names is gone or may no longer be read, as happens when a scale set is uninstalled.
func Gone(err error) bool { return isMissing(err) || apierrors.IsForbidden(err) }

// Unusable reports whether what a reference names is Gone or can't be used as it is: the time for ClientOfListener.
func Unusable(err error) bool { return Gone(err) || IsUserError(err) }

func isMissing(err error) bool {
	_, ok := errors.AsType[*MissingError](err)
	return ok
}
