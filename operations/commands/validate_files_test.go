package commands

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/operations/validation"
)

// Files as users write them: those in testdata/good pass, and each in testdata/bad is refused for the reason that its
// first line names.
func TestValidateFiles(t *testing.T) {
	bad := files(t, "testdata/bad/*.yaml")
	if len(bad) < 10 {
		t.Errorf("%d bad files, want ten", len(bad))
	}
	for _, file := range bad {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(content), "\n")
		reason, output := strings.TrimPrefix(first, "# "), &bytes.Buffer{}
		if code := Main(t.Context(), []string{"validate", "-f", file}, output, output); code != ExitProblems {
			t.Errorf("%s: exit code %d, want %d: %s", file, code, ExitProblems, output)
		}
		if said := output.String(); !strings.Contains(said, ": "+reason+": ") || !strings.Contains(said, "To do: ") {
			t.Errorf("%s: output %swant %s and what to do", file, said, reason)
		}
	}
	for _, file := range files(t, "testdata/good/*.yaml") {
		output := &bytes.Buffer{}
		if code := Main(t.Context(), []string{"validate", "-f", file}, output, output); code != ExitFine {
			t.Errorf("%s: exit code %d, want %d: %s", file, code, ExitFine, output)
		}
	}
}

// The key of an App in values is looked at: any form that the manager can read will do.
func TestValidateLooksAtTheKeyOfAnApp(t *testing.T) {
	generated, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(generated)})
	const organization, enterprise = "https://github.com/acme", "https://github.com/enterprises/acme"
	for name, test := range map[string]struct {
		url, installation, key, want string
	}{
		"as GitHub generated it": {organization, "2", string(key), ""},
		"base64":                 {organization, "2", base64.StdEncoding.EncodeToString(key), ""},
		"cut off":                {organization, "2", string(key[:500]), "END line is missing"},
		"a placeholder":          {organization, "2", "key", "neither PEM nor an RSA key"},
		"installation's name":    {organization, "acme", string(key), "github_app_installation_id is not a positive whole number"},
		"an enterprise":          {enterprise, "2", string(key), "which can't register runners of an enterprise"},
	} {
		values, err := yaml.Marshal(map[string]any{"githubConfigUrl": test.url, "githubConfigSecret": map[string]string{
			"github_app_id": "1", "github_app_installation_id": test.installation, "github_app_private_key": test.key,
		}})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "values.yaml")
		if err := os.WriteFile(file, values, 0o600); err != nil {
			t.Fatal(err)
		}
		output, want := &bytes.Buffer{}, ExitFine
		if test.want != "" {
			want = ExitProblems
		}
		if code := Main(t.Context(), []string{"validate", "-f", file}, output, output); code != want ||
			!strings.Contains(output.String(), test.want) {
			t.Errorf("%s: exit code %d, want %d and %q: %s", name, code, want, test.want, output)
		}
		if strings.Contains(output.String(), string(key[100:140])) {
			t.Errorf("%s: the key is in the output", name)
		}
	}
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	return found
}

// A label or an annotation that several objects have is one finding with all its places.
func TestValidateTellsOnceOfALabelOfSeveralObjects(t *testing.T) {
	const labels = "labels: {app: builds, scraped: yes-please}"
	findings, err := validation.Validate([]byte("githubConfigUrl: https://github.com/acme\ngithubConfigSecret: github\n"+
		"listenerTemplate: {metadata: {"+labels+"}, spec: {containers: [{name: listener, imagePullPolicy: Always}]}}\n"+
		"resourceMeta: {autoscalingListener: {"+labels+"}, listenerConfigSecret: {annotations: {app: builds}}}"), nil, "")
	var got []string
	for _, found := range findings {
		places, _, _ := strings.Cut(found.Message, " left out: ")
		got = append(got, places)
	}
	want := []string{
		"listenerTemplate.metadata.labels[app], autoscalingListener.labels[app] are",
		"listenerTemplate.metadata.labels[scraped], autoscalingListener.labels[scraped] are",
		"listenerConfigSecretMetadata.annotations[app] is",
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// Each field that the policy leaves out is named; with the controller's own settings, each that that controller leaves
// out.
func TestValidateKnowsThePolicyForListeners(t *testing.T) {
	const file = "testdata/bad/listener-template.yaml"
	said := func(flags ...string) (string, int) {
		output := &bytes.Buffer{}
		code := Main(t.Context(), append([]string{"validate", "-f", file}, flags...), output, output)
		return output.String(), code
	}
	restricted, code := said()
	for _, part := range []string{
		"listenerTemplate.spec.volumes[ca].secret is left out",
		"listenerTemplate.spec.containers[listener].volumeMounts[/etc/ca] is left out: it mounts a volume that is left out",
		"listenerTemplate.spec.containers[logs].image is left out",
		"listenerServiceAccountMetadata.annotations[eks.amazonaws.com/role-arn] is left out",
	} {
		if code != ExitProblems || !strings.Contains(restricted, part) {
			t.Errorf("exit code %d, without %q: %s", code, part, restricted)
		}
	}
	if allowed, code := said("--listener-sidecar-images=fluent/fluent-bit:4.0"); code != ExitProblems ||
		strings.Contains(allowed, "logs") {
		t.Errorf("with the image allowed: exit code %d: %s", code, allowed)
	}
	if all, code := said("--listener-template-policy=unrestricted"); code != ExitFine {
		t.Errorf("unrestricted: exit code %d: %s", code, all)
	}
	if unknown, code := said("--listener-template-policy=none"); code != ExitUnable ||
		!strings.Contains(unknown, "use restricted or unrestricted") {
		t.Errorf("unknown policy: exit code %d: %s", code, unknown)
	}
}

func TestValidateListsTheFirstRefusedFields(t *testing.T) {
	var annotations strings.Builder
	for i := range 25 {
		fmt.Fprintf(&annotations, "helm.sh/%d: x, ", i)
	}
	set := strings.Replace(goodSet, "maxRunners: 2", "maxRunners: 2, listenerTemplate: {metadata: {annotations: {"+
		annotations.String()+"}}}", 1)
	findings, err := validation.Validate([]byte(set), nil, "")
	if err != nil || len(findings) != 21 || !strings.HasPrefix(findings[20].Message, "5 more fields") {
		t.Errorf("%d findings, %v: %+v", len(findings), err, findings)
	}
}
