package manager

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/build"
	"github.com/harrier-ci/harrier/internal/credentials"
)

// userAgent is how the manager introduces itself to GitHub. System and subsystem are ARC's: what GitHub makes of others
// is not known.
func userAgent() actions.UserAgent {
	return actions.UserAgent{
		System: "actions-runner-controller", Version: build.Version, CommitSHA: build.CommitSHA,
		Subsystem: "gha-scale-set-controller",
	}
}

// githubClients lead runners and their sets to GitHub. Runners outlive the credential Secret when a scale set is
// uninstalled, so what the scale set's listener was given is used where the Secret is gone or no longer valid. The
// AutoscalingRunnerSet controller does so on deletion only: it is the one to tell the user what is wrong with the Secret.
type githubClients struct {
	provider *credentials.Provider
	// listeners is a cache of AutoscalingListeners, namespace where they are.
	listeners client.Reader
	namespace string
}

// client returns the client for the reference. It fails as credentials.Provider.Client does.
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
	if err := c.listeners.List(ctx, listeners, client.InNamespace(c.namespace)); err != nil {
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

// proxy returns the data of the Secret that gives pods their proxy, nil where there is none.
func (c githubClients) proxy(ctx context.Context, reference credentials.Reference) (map[string][]byte, error) {
	resolved, err := c.provider.Resolve(ctx, reference)
	if err != nil || resolved.Proxy == nil {
		return nil, err
	}
	return resolved.Proxy.SecretData(), nil
}
