package manager

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
)

const listenerConfig = `{"configure_url":"https://github.com/org","github_token":"token",
"ephemeral_runner_set_namespace":"runners","ephemeral_runner_set_name":"set","runner_scale_set_id":1,"max_runners":5}`

func secret(namespace, name, key, value string) *corev1.Secret {
	made := &corev1.Secret{Data: map[string][]byte{key: []byte(value)}}
	made.Namespace, made.Name = namespace, name
	return made
}

func listenerFor(name, url, secretName string) *v1alpha1.AutoscalingListener {
	listener := &v1alpha1.AutoscalingListener{}
	listener.Namespace, listener.Name = "harrier", name
	listener.Spec.AutoscalingRunnerSetNamespace = "runners"
	listener.Spec.GitHubConfigUrl, listener.Spec.GitHubConfigSecret = url, secretName
	return listener
}

func githubClientsOn(objects ...client.Object) githubClients {
	cluster := fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithObjects(objects...).Build()
	return githubClients{
		provider:  credentials.New(cluster, credentials.Options{}),
		listeners: cluster,
		namespace: "harrier",
	}
}

var reference = credentials.Reference{
	Namespace:          "runners",
	GitHubConfigURL:    "https://github.com/org",
	GitHubConfigSecret: "github",
}

// This test is inside of the package: the other door is a call to GitHub about a runner whose scale set is being
// uninstalled, by a whole manager.
func TestRunnersUseTheListenersCredentialsWhereTheSecretIsUnusable(t *testing.T) {
	others := []client.Object{
		listenerFor("of-another-url", "https://github.com/other", "github"),
		listenerFor("of-another-secret", "https://github.com/org", "other"),
	}
	t.Run("the Secret is there", func(t *testing.T) {
		c := githubClientsOn(secret("runners", "github", credentials.KeyToken, "token"))
		if made, err := c.clientFor(t.Context(), reference); err != nil || made == nil {
			t.Errorf("got %v, %v", made, err)
		}
	})
	t.Run("the listener has it", func(t *testing.T) {
		c := githubClientsOn(append(others, listenerFor("ours", "https://github.com/org", "github"),
			secret("harrier", "ours-config", "config.json", listenerConfig))...)
		if made, err := c.clientFor(t.Context(), reference); err != nil || made == nil {
			t.Errorf("got %v, %v", made, err)
		}
	})
	t.Run("nobody has it", func(t *testing.T) {
		for name, c := range map[string]githubClients{
			"no listener":        githubClientsOn(others...),
			"no listener Secret": githubClientsOn(listenerFor("ours", "https://github.com/org", "github")),
		} {
			if made, err := c.clientFor(t.Context(), reference); made != nil || !credentials.Gone(err) {
				t.Errorf("%s: got %v, %v", name, made, err)
			}
		}
	})
	t.Run("the Secret is broken", func(t *testing.T) { // its AutoscalingRunnerSet says so
		c := githubClientsOn(secret(
			"runners", "github", credentials.KeyToken, "not a token",
		), listenerFor("ours", "https://github.com/org", "github"),
			secret("harrier", "ours-config", "config.json", listenerConfig))
		if made, err := c.clientFor(t.Context(), reference); err != nil || made == nil {
			t.Errorf("got %v, %v", made, err)
		}
	})
}
