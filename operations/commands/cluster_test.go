package commands

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// kubeconfigOf writes a kubeconfig for the server at an address.
func kubeconfigOf(t *testing.T, address string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {token: t}}]}`, address)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// consult runs the doctor on the server at an address.
func consult(ctx context.Context, t *testing.T, address string, arguments ...string) (code int, said string) {
	t.Helper()
	output := &bytes.Buffer{}
	code = Main(ctx, append([]string{"doctor", "-kubeconfig", kubeconfigOf(t, address)}, arguments...), output, output)
	return code, output.String()
}

// silent is a server that accepts connections and never answers; it calls asked for each request.
func silent(t *testing.T, asked func()) *httptest.Server {
	t.Helper()
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked()
		<-over
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(over) })
	return server
}

func TestASilentServerIsGivenUp(t *testing.T) {
	server := silent(t, func() {})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	code, said := consult(ctx, t, server.URL)
	if code != ExitUnable || !strings.Contains(said, server.URL) || !strings.Contains(said, "did not answer in time") ||
		!strings.Contains(said, "VPN") {
		t.Errorf("exit code %d, says %s", code, said)
	}
}

func TestTheWaitForASilentServerEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := silent(t, cancel)
	if code, said := consult(ctx, t, server.URL); code != ExitUnable || !strings.Contains(said, server.URL) {
		t.Errorf("exit code %d, says %s", code, said)
	}
}

// answers are a server's answers to all requests except those for its version.
type answers struct {
	status               int
	kind, body, version  string
	namespace, wantsStep string
	wantsCode            int
}

func (a answers) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	w.Header().Set("Content-Type", a.kind)
	if request.URL.Path == "/version" && a.version != "" {
		_, _ = io.WriteString(w, a.version)
		return
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

// Each failure to list scale sets is reported with its own next step. A server that is not an API server is
// distinguished from an API server without our kinds.
func TestWhatAnswersInsteadOfScaleSets(t *testing.T) {
	const (
		html, plain, json = "text/html", "text/plain", "application/json"
		kubernetes, etcd  = `{"gitVersion": "v1.34.0"}`, `{"etcdserver": "3.5.0"}`
		page, status      = "<html>hello</html>",
			`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": %d, "reason": %q, "message": "no"}`
	)
	for name, test := range map[string]answers{
		"no such kind":         {404, plain, "404 page not found", kubernetes, "", "PROBLEM NotInstalled", ExitProblems},
		"no scale sets":        {200, json, "{}", kubernetes, "", "PROBLEM NoScaleSet", ExitProblems},
		"nothing of use":       {200, json, "{}", "", "", "is not a Kubernetes API server", ExitUnable},
		"etcd":                 {404, plain, "404 page not found", etcd, "", "is not a Kubernetes API server", ExitUnable},
		"a page that is none":  {404, html, page, "", "", "is not a Kubernetes API server", ExitUnable},
		"a page":               {200, html, page, "", "", "is not a Kubernetes API server", ExitUnable},
		"refused credentials":  {401, json, fmt.Sprintf(status, 401, "Unauthorized"), "", "", "log in again", ExitUnable},
		"no right":             {403, json, fmt.Sprintf(status, 403, "Forbidden"), "", "", "use -n NAMESPACE", ExitUnable},
		"no right in this one": {403, json, fmt.Sprintf(status, 403, "Forbidden"), "", "team", "in namespace team", ExitUnable},
		"out of order":         {503, html, page, "", "", "kubectl get --raw /readyz", ExitUnable},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(test)
			defer server.Close()
			code, said := consult(t.Context(), t, server.URL, "-n", test.namespace)
			if code != test.wantsCode || !strings.Contains(said, test.wantsStep) {
				t.Errorf("exit code %d, want %d; says %s; want %q", code, test.wantsCode, said, test.wantsStep)
			}
			if code == ExitUnable && !strings.Contains(said, server.URL) {
				t.Errorf("does not say which server: %s", said)
			}
			if test.namespace != "" && strings.Contains(said, "use -n NAMESPACE") {
				t.Errorf("advises what was done: %s", said)
			}
		})
	}
}

func TestARefusedConnectionIsNoMatterOfRights(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	if code, said := consult(t.Context(), t, server.URL); code != ExitUnable || !strings.Contains(said, "VPN") ||
		strings.Contains(said, "use -n") {
		t.Errorf("exit code %d, says %s", code, said)
	}
}

// An error in the command line is reported a single time. The usage is printed only on request.
func TestAWrongFlagIsToldOnce(t *testing.T) {
	for _, command := range Names {
		stderr := &bytes.Buffer{}
		Main(t.Context(), []string{command, "--all"}, io.Discard, stderr)
		if want := "flag provided but not defined: -all; manager " + command +
			" --help lists the flags\n"; stderr.String() != want {
			t.Errorf("says %q, want %q", stderr, want)
		}
		usage := &bytes.Buffer{}
		if code := Main(t.Context(), []string{command, "--help"}, io.Discard, usage); code != ExitFine ||
			!strings.Contains(usage.String(), "Exit codes: 0 nothing") {
			t.Errorf("%s --help: exit code %d, %s", command, code, usage)
		}
	}
}
