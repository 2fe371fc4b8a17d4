// Package prometheus runs a real Prometheus for tests and has it answer queries. The test chooses its targets: in
// test/scrape programs on a test API server, in test/e2e pods of a real cluster.
package prometheus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/internal/testkube/process"
)

// Find returns the path of a program of Debian's package prometheus, prometheus or promtool. The test fails without it:
// it would show nothing.
func Find(t testing.TB, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("%s is missing, with which this is tested: apt-get install prometheus (%v)", program, err)
	}
	return path
}

// A Prometheus that has not ended within stopLimit is killed: its data is thrown away.
const stopLimit = 5 * time.Second

// Server is a running Prometheus.
type Server struct{ address string }

// Prometheus listens within startLimit, on a busy machine too: it has no stored data to read.
const startLimit = 2 * time.Minute

// Start runs the installed Prometheus with the settings of a configuration file, until the test ends. It may take some
// seconds to answer.
func Start(t testing.TB, settings map[string]any) *Server {
	t.Helper()
	content, err := yaml.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	file := filepath.Join(directory, "prometheus.yml")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	// A port that was free a moment ago may be somebody else's now, so Prometheus chooses one and logs it.
	command := exec.Command(Find(t, "prometheus"), "--config.file="+file, "--storage.tsdb.path="+filepath.Join(directory, "data"),
		"--web.listen-address=127.0.0.1:0")
	log := &announcement{address: make(chan string, 1)}
	command.Stderr = log
	started, err := process.Start(command)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = started.Stop(stopLimit) })
	select {
	case address := <-log.address:
		return &Server{address: address}
	case <-started.Done():
	case <-time.After(startLimit):
	}
	t.Fatalf("Prometheus does not listen:\n%s", log)
	return nil
}

// announcement is Prometheus' log, which contains its address.
type announcement struct {
	address chan string
	mutex   sync.Mutex
	text    bytes.Buffer
	found   bool
}

// listening is a line of all versions: before 3 of go-kit's logger, then of slog.
var listening = regexp.MustCompile(`msg="Listening on" address=([0-9.:]+)\n`)

// Write keeps what Prometheus logs.
func (a *announcement) Write(part []byte) (int, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.text.Write(part)
	if match := listening.FindSubmatch(a.text.Bytes()); match != nil && !a.found {
		a.found = true
		a.address <- string(match[1])
	}
	return len(part), nil
}

// String returns the log.
func (a *announcement) String() string {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.text.String()
}

// Series is a series of a query's result: its labels, and its value at one moment or its values over some time. Each
// value is seconds and a number as text.
type Series struct {
	Metric map[string]string
	Value  [2]any
	Values [][2]any
}

// Query returns the series of an expression now. It fails if Prometheus does not answer or refuses the expression.
func (s *Server) Query(expression string) ([]Series, error) {
	return s.Get("query", url.Values{"query": {expression}})
}

// Get returns the series of an endpoint of the HTTP API, such as query_range with its parameters.
func (s *Server) Get(endpoint string, parameters url.Values) ([]Series, error) {
	response, err := http.Get("http://" + s.address + "/api/v1/" + endpoint + "?" + parameters.Encode())
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct{ Result []Series }
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("read the answer to %s: %w", parameters.Get("query"), err)
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s: %s", parameters.Get("query"), answer.Error)
	}
	return answer.Data.Result, nil
}

// Value returns the value of an expression's only series now. It fails without one, and if there are several.
func (s *Server) Value(expression string) (float64, error) {
	found, err := s.Query(expression)
	if err != nil {
		return 0, err
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("%s: %d series", expression, len(found))
	}
	return strconv.ParseFloat(fmt.Sprint(found[0].Value[1]), 64)
}
