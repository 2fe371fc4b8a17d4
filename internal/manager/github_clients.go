package manager

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/build"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/pool"
)

// userAgent identifies the manager to GitHub. System and subsystem are ARC's, because we don't know what GitHub makes of other
// values.
func userAgent() actions.UserAgent {
	return actions.UserAgent{
		System: "actions-runner-controller", Version: build.Version, CommitSHA: build.CommitSHA,
		Subsystem: "gha-scale-set-controller",
	}
}

const (
	// answersMemory is how many bytes of GitHub's answers are in memory at a time. With what decoding needs for a moment, 4.2 times as
	// much in measurements, that is 134 MiB. 128 calls with 6 kB each need 1 MiB.
	answersMemory = 32 << 20
	// answersBudget is what is left of it for large answers: the pool has at most twice pool.Limit calls in flight, and each of these
	// 256 has its first 32 KiB for itself, 8 MiB in all.
	answersBudget = answersMemory - 2*pool.Limit*actions.FirstBytes
	// answersShare is how much of that the calls to one GitHub with one credential get at most, so that one that answers with
	// megabytes leaves as much to others.
	answersShare = answersBudget / 2
)

// githubClients provides GitHub clients for runners and their sets. Runners outlive the credential Secret when a scale set is
// uninstalled. So if the Secret is gone or no longer valid, the credentials in the listener's Secrets are used. The
// AutoscalingRunnerSet controller uses those on deletion only, because it reports to the user what is wrong with the Secret.
type githubClients struct {
	provider *credentials.Provider
	// listeners reads AutoscalingListeners from the cache; namespace is where they are.
	listeners client.Reader
	namespace string
}

// client returns the client for the reference. Its errors are those of credentials.Provider.Client.
func (c githubClients) client(ctx context.Context, reference credentials.Reference) (*actions.Client, error) {
	made, err := c.provider.Client(ctx, reference)
	if err == nil || !credentials.Unusable(err) {
		return made, err
	}
	listener, found, listErr := c.listenerOf(ctx, reference)
	if listErr != nil || !found {
		return nil, err
	}
	return c.provider.ClientOfListener(ctx, reference, listener, err)
}

// listenerOf finds a listener that was given the credentials that the reference names.
func (c githubClients) listenerOf(ctx context.Context, reference credentials.Reference) (client.ObjectKey, bool, error) {
	listeners := new(v1alpha1.AutoscalingListenerList)
	if err := c.listeners.List(ctx, listeners, client.InNamespace(c.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return client.ObjectKey{}, false, err
	}
	for i := range listeners.Items {
		candidate := credentials.ForAutoscalingListener(&listeners.Items[i])
		if candidate.Namespace == reference.Namespace && candidate.GitHubConfigURL == reference.GitHubConfigURL &&
			candidate.GitHubConfigSecret == reference.GitHubConfigSecret {
			return client.ObjectKeyFromObject(&listeners.Items[i]), true, nil
		}
	}
	return client.ObjectKey{}, false, nil
}

// proxy returns the data of the Secret that gives pods their proxy, or nil if none is configured.
func (c githubClients) proxy(ctx context.Context, reference credentials.Reference) (map[string][]byte, error) {
	resolved, err := c.provider.Resolve(ctx, reference)
	if err != nil || resolved.Proxy == nil {
		return nil, err
	}
	return resolved.Proxy.SecretData(), nil
}
