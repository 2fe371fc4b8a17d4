package e2e

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// privateToken may only be in the Secrets of manager and listener.
const privateToken = "ghp_the-token-that-nobody-may-see"

func TestTokenReachesNoRunner(t *testing.T) {
	t.Parallel()
	credentials := site.Values{"github_token": privateToken}
	testSecrecy(t, "token", fakegithub.Options{PATs: []string{privateToken}}, credentials, privateToken)
}

func TestAppKeyReachesNoRunner(t *testing.T) {
	t.Parallel()
	app, credentials := newApp(t)
	options := fakegithub.Options{PATs: []string{privateToken}, Apps: []fakegithub.App{app}}
	// One line of the key is enough to find, however its line ends are written.
	testSecrecy(t, "app", options, credentials, strings.Split(credentials["github_app_private_key"].(string), "\n")[5])
}

// newApp returns a GitHub App, and the credentials of an installation of it.
func newApp(t *testing.T) (fakegithub.App, site.Values) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	return fakegithub.App{ID: "4711", PublicKey: &key.PublicKey},
		site.Values{"github_app_id": "4711", "github_app_installation_id": "4712", "github_app_private_key": text}
}

// testSecrecy runs jobs with the credentials and looks for the secret in everything but the places it belongs to.
func testSecrecy(t *testing.T, name string, options fakegithub.Options, credentials site.Values, secret string) {
	s := prepare(t, serve(t, options), name, 1, 3)
	s.values["githubConfigSecret"] = credentials
	s.install()
	s.awaitIdle(1)
	s.seek(secret)
	s.awaitSuccess(s.queue(2, time.Second))
	s.awaitIdle(1) // pods of runners are looked into
	s.seek(secret)
	s.expectNoRights()
}

// seek fails the test for every place that must not have the secret and has it: pods and their environment and
// arguments, our own objects, Events, logs, and the Secrets that runner pods get.
func (s *scaleSet) seek(secret string) {
	s.t.Helper()
	s.seekInSight(secret)
	s.seekInRunnersSecrets(secret)
}

// seekInSight looks everywhere but into Secrets.
func (s *scaleSet) seekInSight(secret string) {
	s.t.Helper()
	for _, arguments := range [][]string{
		{"get", "pods,events,configmaps,autoscalingrunnersets,autoscalinglisteners,ephemeralrunnersets,ephemeralrunners", "-A", "-o", "json"},
		{"logs", "-n", site.SystemNamespace, "-l", "app.kubernetes.io/part-of", "--all-containers", "--tail=-1"},
		{"logs", "-n", s.namespace, "-l", v1alpha1.LabelRunner, "--all-containers", "--tail=-1"},
	} {
		var output string
		// Other sets come and go meanwhile, and pods that are about to start have no log yet.
		s.await(s.t.Context(), "kubectl "+strings.Join(arguments, " "), func() (_ string, err error) {
			if output, err = place.Kubectl(s.t.Context(), arguments...); err != nil {
				return err.Error(), nil
			}
			if output == "" {
				return "it prints nothing", nil
			}
			return "", nil
		})
		if strings.Contains(output, secret) {
			s.t.Errorf("kubectl %s prints the credential", strings.Join(arguments, " "))
		}
	}
}

func (s *scaleSet) seekInRunnersSecrets(secret string) {
	s.t.Helper()
	mounted := 0
	for _, pod := range s.runnerPods() {
		for _, container := range pod.Spec.Containers {
			for _, variable := range container.Env {
				if variable.ValueFrom == nil || variable.ValueFrom.SecretKeyRef == nil {
					continue
				}
				mounted++
				s.seekInSecret(variable.ValueFrom.SecretKeyRef.Name, secret)
			}
		}
	}
	if mounted == 0 {
		s.t.Error("no runner pod gets a Secret: there was nothing to look into")
	}
}

func (s *scaleSet) seekInSecret(name, secret string) {
	s.t.Helper()
	var object corev1.Secret
	if err := kube.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name},
		&object); client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	for key, value := range object.Data {
		if strings.Contains(string(value), secret) {
			s.t.Errorf("key %s of Secret %s, which runners get, has the credential", key, name)
		}
	}
}

// expectNoRights: a workflow must not get at the Secret by the pod's ServiceAccount either.
func (s *scaleSet) expectNoRights() {
	s.t.Helper()
	s.awaitIdle(1)
	output, err := place.Kubectl(s.t.Context(), "auth", "can-i", "--list", "--namespace="+s.namespace,
		"--as=system:serviceaccount:"+s.namespace+":"+s.runnerPods()[0].Spec.ServiceAccountName)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, resource := range []string{"pods", "secrets", v1alpha1.GroupVersion.Group} {
		if strings.Contains(output, resource) {
			s.t.Errorf("the runner's ServiceAccount has rights on %s:\n%s", resource, output)
		}
	}
}
