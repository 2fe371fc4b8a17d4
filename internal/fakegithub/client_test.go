package fakegithub_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// client speaks the wire protocol with bare requests, as a client from
// elsewhere would.
type client struct {
	t          *testing.T
	server     *fakegithub.Server
	base       string // of the fake
	service    string // as registration answered it
	adminToken string
	http       *http.Client
}

// answer is a response with its body read.
type answer struct {
	status int
	header http.Header
	body   []byte
	err    error
}

// newClient starts a fake and registers with it for the organization "acme".
func newClient(t *testing.T, opts fakegithub.Options) *client {
	t.Helper()
	if opts.PollLength == 0 {
		opts.PollLength = 20 * time.Millisecond
	}
	server := fakegithub.New(opts)
	t.Cleanup(server.Close)
	base, err := server.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, server: server, base: base, http: &http.Client{}}
	c.register("acme")
	return c
}

func (c *client) register(path string) {
	c.t.Helper()
	kind := "orgs/"
	if strings.Contains(path, "/") {
		kind = "repos/"
	}
	var token struct{ Token string }
	c.want(201, c.do("POST", c.base+"/api/v3/"+kind+path+"/actions/runners/registration-token", "Bearer pat", nil), &token)
	var connection struct{ URL, Token string }
	c.want(200, c.do("POST", c.base+"/api/v3/actions/runner-registration", "RemoteAuth "+token.Token,
		map[string]string{"url": c.base + "/" + path, "runner_event": "register"}), &connection)
	c.service, c.adminToken = connection.URL, connection.Token
}

func (c *client) do(method, url, authorization string, body any, headers ...string) answer {
	c.t.Helper()
	return c.doCtx(context.Background(), method, url, authorization, body, headers...)
}

func (c *client) doCtx(ctx context.Context, method, url, authorization string, body any, headers ...string) answer {
	c.t.Helper()
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			c.t.Fatal(err)
		}
	}
	return c.send(ctx, method, url, data, append(headers, "Authorization", authorization)...)
}

// doRaw sends a body that need not be JSON.
func (c *client) doRaw(method, url string, body []byte, headers ...string) answer {
	c.t.Helper()
	return c.send(context.Background(), method, url, body, headers...)
}

func (c *client) send(ctx context.Context, method, url string, body []byte, headers ...string) answer {
	c.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := c.http.Do(r)
	if err != nil {
		return answer{err: err}
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return answer{status: response.StatusCode, header: response.Header, body: data, err: err}
}

// call makes a call of the Actions service with the admin token.
func (c *client) call(method, path string, body any) answer {
	c.t.Helper()
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	return c.do(method, c.service+path+separator+"api-version=6.0-preview", "Bearer "+c.adminToken, body)
}

// want checks the status and decodes the body.
func (c *client) want(status int, a answer, into any) {
	c.t.Helper()
	if a.err != nil || a.status != status {
		c.t.Fatalf("got status %d (%v) %s, want %d", a.status, a.err, a.body, status)
	}
	if into != nil {
		if err := json.Unmarshal(a.body, into); err != nil {
			c.t.Fatalf("decode %s: %v", a.body, err)
		}
	}
}

// wantException checks the status and the name of a service error.
func (c *client) wantException(status int, name string, a answer) {
	c.t.Helper()
	var body struct{ TypeName, TypeKey, Message string }
	c.want(status, a, &body)
	if !strings.Contains(body.TypeName, name) || body.Message == "" {
		c.t.Fatalf("got %s, want exception %s", a.body, name)
	}
}

type scaleSet struct {
	ID              int
	Name            string
	RunnerGroupID   int
	RunnerGroupName string
	Labels          []struct{ Type, Name string }
	RunnerSetting   struct{ DisableUpdate bool }
	Statistics      *fakegithub.Statistics
}

const setsPath = "_apis/runtime/runnerscalesets"

func (c *client) createSet(name string, labels ...string) scaleSet {
	c.t.Helper()
	body := map[string]any{"name": name, "runnerGroupId": 1, "RunnerSetting": map[string]any{"disableUpdate": true},
		"createdOn": "0001-01-01T00:00:00Z"}
	wanted := []map[string]string{{"type": "System", "name": name}}
	for _, label := range labels {
		wanted = append(wanted, map[string]string{"type": "System", "name": label})
	}
	body["labels"] = wanted
	var set scaleSet
	c.want(200, c.call("POST", setsPath, body), &set)
	return set
}

type session struct {
	c              *client
	SessionID      string
	OwnerName      string
	RunnerScaleSet scaleSet
	URL            string                 `json:"messageQueueUrl"`
	Token          string                 `json:"messageQueueAccessToken"`
	Statistics     *fakegithub.Statistics `json:"statistics"`
}

func (c *client) openSession(set int) *session {
	c.t.Helper()
	s := &session{c: c}
	c.want(200, c.call("POST", sessionsPath(set), map[string]string{
		"ownerName": "me", "sessionId": "00000000-0000-0000-0000-000000000000"}), s)
	return s
}

func sessionsPath(set int) string { return setsPath + "/" + strconv.Itoa(set) + "/sessions" }

type jobMessage struct {
	MessageType     string
	RunnerRequestID int64
	JobID           string
	OwnerName       string
	RepositoryName  string
	RequestLabels   []string
	QueueTime       time.Time
	RunnerID        int
	RunnerName      string
	Result          string
}

type message struct {
	MessageID   int64
	MessageType string
	Body        string
	Statistics  *fakegithub.Statistics
	jobs        []jobMessage
}

// types lists the events in a message.
func (m *message) types() string {
	names := []string{}
	for _, j := range m.jobs {
		names = append(names, j.MessageType)
	}
	return strings.Join(names, " ")
}

func (s *session) poll(last int64, capacity int) answer {
	s.c.t.Helper()
	url := s.URL
	if last > 0 {
		url += "&lastMessageId=" + strconv.FormatInt(last, 10)
	}
	return s.c.do("GET", url, "Bearer "+s.Token, nil, "X-ScaleSetMaxCapacity", strconv.Itoa(capacity))
}

// next polls until there is a message.
func (s *session) next(last int64, capacity int) *message {
	s.c.t.Helper()
	// 50 polls of 20 ms: a second is ample for anything in one process.
	for range 50 {
		a := s.poll(last, capacity)
		if a.status == 202 {
			continue
		}
		m := &message{}
		s.c.want(200, a, m)
		if err := json.Unmarshal([]byte(m.Body), &m.jobs); err != nil {
			s.c.t.Fatalf("body %q: %v", m.Body, err)
		}
		return m
	}
	s.c.t.Fatal("no message after 50 polls")
	return nil
}

func (s *session) acknowledge(id int64) {
	s.c.t.Helper()
	path, query, _ := strings.Cut(s.URL, "?")
	s.c.want(204, s.c.do("DELETE", path+"/"+strconv.FormatInt(id, 10)+"?"+query, "Bearer "+s.Token, nil), nil)
}

func (s *session) acquire(ids ...int64) answer {
	s.c.t.Helper()
	url := s.c.service + setsPath + "/" + strconv.Itoa(s.RunnerScaleSet.ID) + "/acquirejobs?api-version=6.0-preview"
	return s.c.do("POST", url, "Bearer "+s.Token, ids)
}

type jit struct {
	Runner struct {
		ID               int
		Name             string
		RunnerScaleSetID int
	}
	EncodedJITConfig string
}

func (c *client) generate(set int, name string) jit {
	c.t.Helper()
	var j jit
	c.want(200, c.call("POST", setsPath+"/"+strconv.Itoa(set)+
		"/generatejitconfig", map[string]string{"name": name, "workFolder": ""}), &j)
	return j
}

func (c *client) queue(q fakegithub.JobRequest) []int64 {
	c.t.Helper()
	ids, err := c.server.QueueJobs(q)
	if err != nil {
		c.t.Fatal(err)
	}
	return ids
}

func (c *client) noAnomalies() {
	c.t.Helper()
	for _, a := range c.server.Anomalies() {
		c.t.Errorf("anomaly: %s", a)
	}
}
