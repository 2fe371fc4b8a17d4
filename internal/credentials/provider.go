package credentials

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/addresses"
	"github.com/harrier-ci/harrier/internal/credentials/held"
)

const (
	// RereadInterval is the age at which a result is read again. It bounds the time for which a rotated credential, CA or
	// proxy goes unnoticed while the old one still works. The cost is one GET a minute for each Secret in use.
	RereadInterval = 60 * time.Second
	// RetryBackoff is the shortest time between two reads of the same source after a failure, a 401 or Invalidate, so
	// that a thousand runners with a revoked token do not cause a thousand reads.
	RetryBackoff = 5 * time.Second
	// readTimeout limits a read with all its requests. A GET takes milliseconds, a vault's answer a second.
	readTimeout = 10 * time.Second
	// After rereadTimeout a caller stops waiting for a read if it can continue with the last good result. Callers are
	// reconcile workers: a vault that hangs must not block ten of them for 10 s each.
	rereadTimeout = time.Second
	// A good result is used for keepGrace while reads fail (API server unreachable, Role deleted before the runners).
	// Unused clients and results are kept as long.
	keepGrace = 10 * time.Minute
)

// Options of a Provider. All are optional.
type Options struct {
	// Clock measures ages; nil means the real clock.
	Clock clock.WithTicker
	// Logger gets a line whenever credentials were replaced.
	Logger logr.Logger
	// UserAgent identifies the manager to GitHub.
	UserAgent actions.UserAgent
	// Addresses decides which addresses scale sets may name; nil allows all.
	Addresses *addresses.Policy
	// Budget limits the memory for GitHub's answers; nil means that only each answer is limited.
	Budget *actions.Budget
	// GitHub carries the requests to GitHub and to vaults in place of the network; nil means the network.
	GitHub http.RoundTripper
	// OnRequest is called after every attempt of every client, with the sets that use it. OnUnused is called when a set
	// has no client any more; OnRequest is not called with it again, unless somebody asks for one. Neither may block or
	// call the provider.
	OnRequest func(sets []types.NamespacedName, info actions.RequestInfo)
	OnUnused  func(set types.NamespacedName)
	// Vaults are the rules for reading with the manager's identity; empty means any vault and secret.
	Vaults []VaultRule
	// VaultCertificateDirectory, if set, is the only directory from which the certificates of vaults' clients are read.
	VaultCertificateDirectory string
}

// Provider resolves References, and returns the clients for them. It is safe for concurrent use.
type Provider struct {
	reader  reader
	options Options
	results results
	clients held.Clients[sourceKey]
	bundles *held.Bundles
}

// New returns a provider. The reader must not be a cache, which would list and watch Secrets.
func New(kube client.Reader, options Options) *Provider {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	p := &Provider{options: options, bundles: &held.Bundles{}}
	p.reader = reader{kube: kube, bundles: p.bundles}
	p.reader.openVault = func(config *v1alpha1.AzureKeyVaultConfig, proxy *ProxySettings) vault {
		return openAzureKeyVault(config, proxy, options)
	}
	p.results.entries = map[sourceKey]*result{}
	p.clients.Grace, p.clients.Interval, p.clients.Unused = keepGrace, RereadInterval, options.OnUnused
	return p
}

// Resolve returns the values that the reference names, at most RereadInterval old unless reading is slow or fails. It
// fails with *MissingError, *InvalidError, *UnsupportedError, *VaultNotAllowedError, or the API server's or vault's own
// error.
func (p *Provider) Resolve(ctx context.Context, reference Reference) (*Resolved, error) {
	if err := checkVault(p.options.Vaults, reference); err != nil {
		return nil, err
	}
	return p.shared(ctx, reference.source(), reference.holder(), func(ctx context.Context) (*Resolved, error) {
		return p.reader.read(ctx, reference)
	}, "namespace", reference.Namespace, "githubConfigSecret", reference.GitHubConfigSecret)
}

// ProxyData returns the data of the Secret that gives pods their proxy, nil if the reference has none. Its errors are
// those of Resolve.
func (p *Provider) ProxyData(ctx context.Context, reference Reference) (map[string][]byte, error) {
	resolved, err := p.Resolve(ctx, reference)
	if err != nil || resolved.Proxy == nil {
		return nil, err
	}
	return resolved.Proxy.SecretData(), nil
}

// FromListener returns what the Secrets of an AutoscalingListener still hold, at most RereadInterval old. An uninstall
// deletes the credential Secret before the runners; the listener's Secrets are in the manager's namespace and go last.
// Use the result with ClientFrom. It fails with *MissingError if the listener is configured to ask a vault itself, as
// ARC's listeners are.
func (p *Provider) FromListener(ctx context.Context, listener client.ObjectKey) (*Resolved, error) {
	source, holder := sourceOf("listener "+listener.String()), listener
	return p.shared(ctx, source, holder, func(ctx context.Context) (*Resolved, error) {
		return p.reader.listener(ctx, listener)
	}, "listener", listener.String())
}

// CheckAddresses fails with *addresses.NotAllowedError if the reference names an address that may not be used. It makes
// no request. Client does the same, but only a caller that asks before Resolve learns it before a vault is asked.
func (p *Provider) CheckAddresses(reference Reference) error {
	policy := p.options.Addresses
	if err := policy.CheckGitHub("githubConfigUrl", reference.GitHubConfigURL); err != nil {
		return err
	}
	if err := checkProxies(policy, "proxy", reference.Proxy); err != nil || reference.Vault == nil {
		return err
	}
	return checkProxies(policy, "vaultConfig.proxy", reference.Vault.Proxy)
}

// Client returns the client for the reference. Callers of a namespace with equal config URL, credentials, CA and proxy
// share one. Of each set the client before the last ends, with its calls. It fails as Resolve does, and with *actions.InvalidConfigURLError or *addresses.NotAllowedError. Ask for the client
// before every call instead of keeping it; otherwise rotation has no effect.
func (p *Provider) Client(ctx context.Context, reference Reference) (*actions.Client, error) {
	client, _, err := p.Reach(ctx, reference)
	return client, err
}

// Reach returns the client for the reference as Client does, and the way by which that client reaches GitHub.
func (p *Provider) Reach(ctx context.Context, reference Reference) (*actions.Client, Way, error) {
	if err := p.CheckAddresses(reference); err != nil {
		return nil, "", err
	}
	resolved, err := p.Resolve(ctx, reference)
	if err != nil {
		return nil, "", err
	}
	client, err := p.client(reference, resolved, reference.source())
	return client, WayTo(reference.GitHubConfigURL, reference.Namespace, resolved.RootCAs), err
}

// ClientFrom returns the client for the reference's config URL with values from elsewhere: in finalization, from the
// listener's Secrets, which still exist when the credential Secret is gone.
func (p *Provider) ClientFrom(reference Reference, resolved *Resolved) (*actions.Client, error) {
	if err := p.CheckAddresses(reference); err != nil {
		return nil, err
	}
	return p.client(reference, resolved, noSource)
}

// ClientOfListener returns a client that uses the credentials in the listener's Secrets. cause is the reason why the
// reference's own don't work: an Unusable error, or a refusal by GitHub. If the listener's are unusable too, the error
// is Unusable; if they could not be read, it is not.
//
// A reference to a vault that isn't allowed gets no client: what the listener has was read from there, too.
func (p *Provider) ClientOfListener(
	ctx context.Context, reference Reference, listener client.ObjectKey, cause error,
) (*actions.Client, error) {
	if err := checkVault(p.options.Vaults, reference); err != nil {
		return nil, err
	}
	resolved, err := p.FromListener(ctx, listener)
	switch {
	case err == nil:
		return p.ClientFrom(reference, resolved)
	case Unusable(err):
		return nil, fmt.Errorf("%w; the listener's Secrets can't be used either: %w", cause, err)
	}
	return nil, fmt.Errorf("%s; the listener's Secrets could not be read: %w", cause.Error(), err)
}

// checkProxies returns the policy's error about the servers of a configuration, which may be nil.
func checkProxies(policy *addresses.Policy, field string, config *v1alpha1.ProxyConfig) error {
	if config == nil {
		return nil
	}
	for _, server := range []struct {
		field  string
		config *v1alpha1.ProxyServerConfig
	}{{field + ".http.url", config.HTTP}, {field + ".https.url", config.HTTPS}} {
		if server.config == nil || server.config.Url == "" {
			continue
		}
		if err := policy.CheckProxy(server.field, server.config.Url); err != nil {
			return err
		}
	}
	return nil
}
