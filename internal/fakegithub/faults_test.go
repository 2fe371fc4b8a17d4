package fakegithub_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub"
)

func (c *client) fault(f fakegithub.Fault) string {
	c.t.Helper()
	id, err := c.server.AddFault(f)
	if err != nil {
		c.t.Fatal(err)
	}
	return id
}

func TestFaultAnswers(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	c.fault(fakegithub.Fault{
		Endpoint: "*-scale-set", Status: 429, Body: "slow down", ContentType: "text/plain",
		Headers: map[string]string{"Retry-After": "7"}, Count: 2, Skip: 1,
	})
	set := c.createSet("linux") // skipped
	for range 2 {
		got := c.call("GET", setsPath+"/1", nil)
		if got.status != 429 || string(got.body) != "slow down" || got.header.Get("Retry-After") != "7" ||
			got.header.Get("Content-Type") != "text/plain" {
			t.Errorf("got %d %q %v", got.status, got.body, got.header)
		}
	}
	c.want(200, c.call("GET", setsPath+"/1", nil), &set)
	if left := c.server.Faults(); len(left) != 0 {
		t.Errorf("used-up faults are left: %v", left)
	}
}

func TestLostAnswer(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	set := c.createSet("linux")
	c.fault(fakegithub.Fault{Endpoint: "generate-jit-config", Drop: fakegithub.DropBefore, Count: 1})
	path, body := setsPath+"/1/generatejitconfig", map[string]string{"name": "runner-1"}
	if got := c.call("POST", path, body); got.err == nil {
		t.Errorf("got status %d from a dropped connection", got.status)
	}
	c.fault(fakegithub.Fault{Endpoint: "generate-jit-config", Drop: fakegithub.DropAfter, Count: 1})
	if got := c.call("POST", path, body); got.err == nil {
		t.Errorf("got status %d from a dropped connection", got.status)
	}
	// The second one was carried out: the repetition finds the name taken.
	c.wantException(409, "TaskAgentExistsException", c.call("POST", path, body))
	if n := len(c.server.Snapshot().Runners); n != 1 || set.ID != 1 {
		t.Errorf("%d runners are registered, want 1", n)
	}
}

func TestSpoiltBodies(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	c.createSet("linux")
	c.fault(fakegithub.Fault{Endpoint: "get-scale-set", Truncate: true, Count: 1})
	if got := c.call("GET", setsPath+"/1", nil); got.err == nil || got.status != 200 {
		t.Errorf("truncated: status %d, error %v", got.status, got.err)
	}
	c.fault(fakegithub.Fault{Endpoint: "get-scale-set", BOM: true, Count: 1})
	if got := c.call("GET", setsPath+"/1", nil); !bytes.HasPrefix(got.body, []byte("\xEF\xBB\xBF{")) {
		t.Errorf("no byte order mark before %q", got.body)
	}
	const blanks = 64 << 10
	c.fault(fakegithub.Fault{Endpoint: "get-scale-set", Blanks: blanks, Count: 1})
	var set scaleSet
	got := c.call("GET", setsPath+"/1", nil)
	if c.want(200, got, &set); len(got.body) <= blanks || set.Name != "linux" {
		t.Errorf("%d bytes say %+v", len(got.body), set)
	}
}

func TestHang(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	id := c.fault(fakegithub.Fault{Endpoint: "find-runners", Hang: true})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	url := c.service + "_apis/distributedtask/pools/0/agents"
	if got := c.doCtx(ctx, "GET", url, "Bearer "+c.adminToken, nil); got.err == nil {
		t.Errorf("got status %d", got.status)
	}
	answered := make(chan answer)
	go func() { answered <- c.do("GET", url, "Bearer "+c.adminToken, nil) }()
	for c.server.RemoveFault(id) == 0 {
		t.Fatal("the fault is not there")
	}
	if got := <-answered; got.err == nil && got.status != 200 {
		t.Errorf("after the fault: %d", got.status)
	}
	c.want(200, c.do("GET", url, "Bearer "+c.adminToken, nil), nil)
}

func TestFaultWindowAndProbability(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	now := time.Now()
	c.fault(fakegithub.Fault{Endpoint: "*", Status: 500, From: now.Add(time.Hour)})
	c.fault(fakegithub.Fault{Endpoint: "*", Status: 500, Until: now.Add(-time.Hour)})
	c.want(200, c.call("GET", setsPath, nil), nil)
	c.fault(fakegithub.Fault{Endpoint: "find-scale-sets", Status: 500, Probability: 0.5})
	failed := 0
	for range 100 {
		if c.call("GET", setsPath, nil).status == 500 {
			failed++
		}
	}
	if failed < 20 || failed > 80 {
		t.Errorf("%d of 100 calls failed, want about half", failed)
	}
	if n := c.server.RemoveFault(""); n != 3 {
		t.Errorf("%d faults were removed, want 3", n)
	}
}

func TestBadFaults(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	for _, f := range []fakegithub.Fault{
		{}, {Endpoint: "["}, {Endpoint: "*", Status: 99}, {Endpoint: "*", Drop: "sometimes"},
		{Endpoint: "*", Probability: 2}, {Endpoint: "*", Count: -1}, {Endpoint: "*", Delay: -1},
	} {
		if _, err := c.server.AddFault(f); err == nil {
			t.Errorf("%+v was accepted", f)
		}
	}
}

func TestTrafficIsCounted(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	c.createSet("linux")
	c.want(404, c.call("GET", setsPath+"/9", nil), nil)
	c.want(404, c.call("GET", "nowhere", nil), nil)
	if c.server.Calls("create-scale-set") != 1 || c.server.Calls("get-scale-set") != 1 || c.server.Calls("unknown") != 1 {
		t.Errorf("counters %+v", c.server.Counters())
	}
	for _, counter := range c.server.Counters() {
		if counter.Endpoint == "get-scale-set" && (counter.Method != "GET" || counter.ByStatus[404] != 1) {
			t.Errorf("counter %+v", counter)
		}
	}
	log := c.server.Requests()
	if len(log) != 5 || log[4].Status != 404 || strings.Contains(log[4].Path, "?") {
		t.Errorf("log %+v", log)
	}
}

// The in-process transport must fail the way a network does.
func TestTransportWithoutNetwork(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	c.http.Transport = c.server.Transport()
	c.createSet("linux")
	c.fault(fakegithub.Fault{Endpoint: "get-scale-set", Drop: fakegithub.DropAfter, Count: 1})
	if got := c.call("GET", setsPath+"/1", nil); got.err == nil {
		t.Errorf("dropped: status %d", got.status)
	}
	c.fault(fakegithub.Fault{Endpoint: "get-scale-set", Truncate: true, Count: 1})
	if got := c.call("GET", setsPath+"/1", nil); got.err == nil || got.status != 200 {
		t.Errorf("truncated: status %d, error %v", got.status, got.err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if got := c.doCtx(ctx, "GET", c.service+setsPath, "", nil); got.err == nil {
		t.Errorf("canceled: status %d", got.status)
	}
}
