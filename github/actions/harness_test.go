package actions_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/golang-jwt/jwt/v4"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/harrier-ci/harrier/github/actions"
)

const (
	testToken        = "ghp_secret-personal-access-token"
	testRegistration = "registration-secret"
	testQueueToken   = "queue-secret"
	// servicePath is the path of the service's address; it ends in a slash as GitHub's does.
	servicePath  = "/tenant/"
	scaleSetsURL = "/tenant/_apis/runtime/runnerscalesets"
	runnersURL   = "/tenant/_apis/distributedtask/pools/0/agents"
	// everyCall replaces the replies to all calls.
	everyCall = "every call"
	// A new connection to the service is not doubted for connectionTrust. A manager has at most maxConcurrentCalls
	// calls in flight to one host.
	connectionTrust    = 5 * time.Minute
	maxConcurrentCalls = 128
	// Something that takes milliseconds on a free machine is given up after busyTimeout.
	busyTimeout = 30 * time.Second
)

// The tests' clock starts at epoch.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// quickClock is a fake clock on which every pause ends immediately and advances the time by its length.
type quickClock struct {
	*clocktesting.FakeClock
	mu     sync.Mutex
	pauses []time.Duration
}

// discardLog keeps expected handshake failures out of the test output.
var discardLog = log.New(io.Discard, "", 0)

func newQuickClock() *quickClock { return &quickClock{FakeClock: clocktesting.NewFakeClock(epoch)} }

func (c *quickClock) NewTimer(d time.Duration) clock.Timer {
	c.mu.Lock()
	c.pauses = append(c.pauses, d)
	c.mu.Unlock()
	timer := c.FakeClock.NewTimer(d)
	c.Step(d)
	return timer
}

// seen is a request as the server received it.
type seen struct {
	method, path string
	query        url.Values
	rawQuery     string
	header       http.Header
	body         string
}

// reply is an answer of the server. Status 0 means 200.
type reply struct {
	status int
	body   string
	header map[string]string
	// do replaces the whole answer.
	do http.HandlerFunc
}

// server plays GitHub: it answers each "METHOD /path" with its list of replies, the last one forever.
type server struct {
	*httptest.Server
	t        *testing.T
	mu       sync.Mutex
	requests []seen
	replies  map[string][]reply
	// serial makes each admin token a different one; newest is the last.
	serial int
	newest string
	clock  *quickClock
	logged strings.Builder
}

// newServer starts a server that registers everyone and knows nothing else.
func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, replies: map[string][]reply{}, clock: newQuickClock()}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	s.on("POST /api/v3/orgs/acme/actions/runners/registration-token", reply{
		status: 201,
		body:   `{"token":"` + testRegistration + `"}`,
	})
	s.on("POST /api/v3/actions/runner-registration", reply{do: s.register})
	return s
}

func (s *server) on(call string, replies ...reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies[call] = replies
}

// register hands out an admin token that lasts an hour.
func (s *server) register(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	s.serial++
	token := adminToken(s.t, jwt.MapClaims{"exp": s.clock.Now().Add(time.Hour).Unix(), "jti": s.serial})
	s.newest = token
	s.mu.Unlock()
	fmt.Fprintf(w, `{"url":%q,"token":%q,"token_schema":"OAuthAccessToken"}`, s.URL+servicePath, token)
}

// revoke makes the newest admin token as invalid as the others.
func (s *server) revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest = "none"
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	call := r.Method + " " + r.URL.Path
	s.mu.Lock()
	matching := call
	if s.replies[everyCall] != nil {
		matching = everyCall
	}
	s.requests = append(s.requests, seen{
		method:   r.Method,
		path:     r.URL.Path,
		query:    r.URL.Query(),
		rawQuery: r.URL.RawQuery,
		header:   r.Header.Clone(),
		body:     string(body),
	})
	queue := s.replies[matching]
	if len(queue) > 1 {
		s.replies[matching] = queue[1:]
	}
	s.mu.Unlock()
	w.Header().Set("Date", s.clock.Now().UTC().Format(http.TimeFormat))
	if len(queue) == 0 {
		http.Error(w, "the test expects no "+call, http.StatusTeapot)
		return
	}
	queue[0].write(w, r)
}

func (a reply) write(w http.ResponseWriter, r *http.Request) {
	if a.do != nil {
		a.do(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8; api-version=6.0-preview.1")
	for key, value := range a.header {
		w.Header().Set(key, value)
	}
	if a.status != 0 {
		w.WriteHeader(a.status)
	}
	io.WriteString(w, a.body)
}

// after returns a reply that takes that long on the tests' clock.
func (s *server) after(delay time.Duration, then reply) reply {
	return reply{do: func(w http.ResponseWriter, r *http.Request) {
		s.clock.Step(delay)
		then.write(w, r)
	}}
}

// calls returns the requests that were made to "METHOD /path".
func (s *server) calls(call string) []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	var matching []seen
	for _, request := range s.requests {
		if request.method+" "+request.path == call {
			matching = append(matching, request)
		}
	}
	return matching
}

// only returns the one request that was made to "METHOD /path".
func (s *server) only(call string) seen {
	s.t.Helper()
	matching := s.calls(call)
	if len(matching) != 1 {
		s.t.Fatalf("got %d requests %s, want 1", len(matching), call)
	}
	return matching[0]
}

func (s *server) registrations() int { return len(s.calls("POST /api/v3/actions/runner-registration")) }

// log collects what the client logs, at all levels.
func (s *server) log() logr.Logger {
	return funcr.New(func(prefix, args string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.logged.WriteString(prefix + args + "\n")
	}, funcr.Options{Verbosity: 9})
}

func (s *server) logText() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logged.String()
}

// client returns a client for the organization acme on the server.
func (s *server) client(options ...func(*actions.Options)) *actions.Client {
	s.t.Helper()
	settings := actions.Options{
		UserAgent: actions.UserAgent{System: "test", Version: "1.2.3", CommitSHA: "abc", Subsystem: "unit"},
		Clock:     s.clock, Logger: s.log(),
	}
	for _, option := range options {
		option(&settings)
	}
	client, err := actions.NewClient(s.URL+"/acme", actions.Credentials{Token: testToken}, settings)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(client.CloseIdleConnections)
	return client
}

// session opens session "s-1" of scale set 7 with a queue at /queue?id=s-1.
func (s *server) session() *actions.Session {
	s.t.Helper()
	_, session := s.opened()
	return session
}

// opened is session, and returns its client, too.
func (s *server) opened() (*actions.Client, *actions.Session) {
	s.t.Helper()
	s.on("POST "+scaleSetsURL+"/7/sessions", reply{body: s.sessionBody(testQueueToken, nil)})
	client := s.client()
	session, err := client.CreateSession(s.t.Context(), 7, "me")
	if err != nil {
		s.t.Fatal(err)
	}
	return client, session
}

// sessionBody is the answer that describes session "s-1", with changes.
func (s *server) sessionBody(queueToken string, changes map[string]any) string {
	fields := map[string]any{
		"sessionId": "s-1", "ownerName": "me", "messageQueueUrl": s.URL + "/queue?id=s-1",
		"messageQueueAccessToken": queueToken,
		"runnerScaleSet":          map[string]any{"id": 7, "name": "big"},
		"statistics":              map[string]any{"totalAssignedJobs": 3},
	}
	maps.Copy(fields, changes)
	return jsonText(s.t, fields)
}

func jsonText(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// adminToken signs a token as the service would; the client can't check the signature.
func adminToken(t *testing.T, claims jwt.MapClaims) string {
	t.Helper()
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte("service's key"))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// exception is the body of a service error.
func exception(name, message string) string {
	return fmt.Sprintf(`{"$id":"1","innerException":null,"message":%q,"typeName":"GitHub.Some.WebApi.%s,`+
		` GitHub.Some.WebApi","typeKey":%q,"errorCode":0,"eventId":3000}`,
		message, name, name)
}

// cutShort promises more of a body than it sends, which the transport notices.
func cutShort(body string) reply {
	return reply{do: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)+100))
		io.WriteString(w, body)
	}}
}

// endWithConnection answers as a server that doesn't announce the length of the body.
func endWithConnection(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(connection, "HTTP/1.0 200 OK\r\n\r\n"+body)
		_ = connection.Close()
	}
}

// hang holds a request until its client goes away.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
