package fakegithub_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub"
)

func TestControlClient(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	control := &fakegithub.ControlClient{BaseURL: c.base}
	ctx := context.Background()
	set := c.createSet("linux")
	s := c.openSession(set.ID)
	ids, err := control.QueueJobs(ctx, fakegithub.JobRequest{
		Count: 3, ScaleSet: "linux", Durations: []fakegithub.Duration{fakegithub.Duration(time.Second), 0},
	})
	if err != nil || len(ids) != 3 {
		t.Fatalf("queued %v, %v", ids, err)
	}
	s.next(0, 1)
	if err := control.CancelJob(ctx, ids[2]); err != nil {
		t.Error(err)
	}
	jobs, err := control.Jobs(ctx, "completed")
	if err != nil || len(jobs) != 1 || jobs[0].RequestID != ids[2] || jobs[0].Result != "canceled" {
		t.Errorf("jobs %+v, %v", jobs, err)
	}
	snapshot, err := control.Snapshot(ctx)
	if err != nil || len(snapshot.ScaleSets) != 1 || snapshot.ScaleSets[0].Statistics.Assigned != 1 ||
		len(snapshot.Sessions) != 1 {
		t.Errorf("snapshot %+v, %v", snapshot, err)
	}
}

func TestControlClientReadsTraffic(t *testing.T) {
	control := &fakegithub.ControlClient{BaseURL: newClient(t, fakegithub.Options{}).base}
	ctx := context.Background()
	if err := control.Healthy(ctx); err != nil {
		t.Fatal(err)
	}
	if counters, err := control.Counters(ctx); err != nil || len(counters) == 0 {
		t.Errorf("counters %v, %v", counters, err)
	}
	if log, err := control.Requests(ctx); err != nil || len(log) == 0 {
		t.Errorf("log %v, %v", log, err)
	}
}

func TestControlFaultsAndActions(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	control := &fakegithub.ControlClient{BaseURL: c.base}
	ctx := context.Background()
	set := c.createSet("linux")
	s := c.openSession(set.ID)
	id, err := control.AddFault(ctx, fakegithub.Fault{Endpoint: "get-message", Status: 500,
		Delay: fakegithub.Duration(time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	c.want(500, s.poll(0, 1), nil)
	if err := control.RemoveFault(ctx, id); err != nil {
		t.Fatal(err)
	}
	if err := control.RemoveFault(ctx, id); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("removing it twice: %v", err)
	}
	c.generate(set.ID, "runner-1")
	for _, a := range []fakegithub.Action{
		{Action: "expire-queue-tokens"}, {Action: "evict-sessions"}, {Action: "revoke-pat", Token: "x"}, {Action: "restore-pat", Token: "x"},
		{Action: "deprecate-runners"}, {Action: "undeprecate-runners"}, {Action: "add-runner-group", Name: "g"}, {Action: "end-jobs"},
		{Action: "remove-runner", RunnerID: 1}, {Action: "count-phantoms", ScaleSetID: set.ID, Count: 3}, {Action: "delete-scale-set", ScaleSetID: set.ID},
		{Action: "move-service"}, {Action: "expire-admin-tokens"},
	} {
		if err := control.Act(ctx, a); err != nil {
			t.Errorf("%s: %v", a.Action, err)
		}
	}
	if got := c.server.Snapshot(); len(got.Sessions)+len(got.ScaleSets)+len(got.Runners)+len(got.Anomalies) != 0 {
		t.Errorf("left over: %+v", got)
	}
}

func TestControlGuardsItsInput(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	tests := []struct {
		method, path, body string
		want               int
	}{
		{"POST", "jobs", `{"scaleSet":"x","count":-1}`, 400},
		{"POST", "jobs", `{"scaleSet":"x","count":100001}`, 400},
		{"POST", "jobs", `{}`, 400},
		{"POST", "jobs", `{"scaleSet":"x","speed":1}`, 400},
		{"POST", "jobs", `{"scaleSet":"x"}{}`, 400},
		{"POST", "jobs", `{"scaleSet":"x","duration":"-1s"}`, 400},
		{"POST", "jobs", `{"scaleSet":"x","duration":5}`, 400},
		{"POST", "jobs", `{"scaleSet":"x","minDuration":"2s","maxDuration":"1s"}`, 400},
		{"POST", "jobs", `nonsense`, 400},
		{"POST", "jobs", strings.Repeat(" ", 1<<20) + `{"scaleSet":"x"}`, 400},
		{"GET", "jobs?state=odd", ``, 400},
		{"DELETE", "jobs/x", ``, 400},
		{"DELETE", "jobs/5", ``, 404},
		{"POST", "faults", `{"endpoint":"["}`, 400},
		{"POST", "faults", `[]`, 400},
		{"POST", "actions", `{"action":"dance"}`, 400},
		{"POST", "actions", `{"action":"revoke-pat"}`, 400},
		{"POST", "actions", `{"action":"add-runner-group"}`, 400},
		{"POST", "actions", `{"action":"delete-scale-set","scaleSetId":5}`, 400},
		{"POST", "actions", `{"action":"forget-runner","runnerId":5}`, 400},
		{"POST", "actions", `{"action":"count-phantoms","scaleSetId":5,"count":1}`, 400},
		{"POST", "actions", `{"action":"count-phantoms","scaleSetId":1,"count":-1}`, 400},
		{"POST", "actions", `7`, 400},
		{"GET", "nowhere", ``, 404},
	}
	for i, tt := range tests {
		t.Run(strconv.Itoa(i)+" "+tt.path, func(t *testing.T) {
			got := c.doRaw(tt.method, c.base+"/_control/"+tt.path, []byte(tt.body))
			if got.status != tt.want {
				t.Errorf("%s %s %.60s: got %d %s, want %d", tt.method, tt.path, tt.body, got.status, got.body, tt.want)
			}
		})
	}
}

// The service too answers nonsense with an error, never with a crash.
func TestServiceGuardsItsInput(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	set := c.createSet("linux")
	s := c.openSession(set.ID)
	paths := map[string]string{
		"POST " + c.service + setsPath:                          c.adminToken,
		"PATCH " + c.service + setsPath + "/1":                  c.adminToken,
		"POST " + c.service + setsPath + "/1/sessions":          c.adminToken,
		"POST " + c.service + setsPath + "/1/acquirejobs":       s.Token,
		"POST " + c.service + setsPath + "/1/generatejitconfig": c.adminToken,
		"GET " + c.service + setsPath + "?runnerGroupId=x":      c.adminToken,
		"POST " + c.base + "/_runner/connect":                   "",
		"POST " + c.base + "/_runner/wait":                      "",
		"POST " + c.base + "/_runner/leave":                     "",
	}
	for target, token := range paths {
		method, url, _ := strings.Cut(target, " ")
		for _, body := range []string{"", "{", "[[]]", "7", `"x"`} {
			got := c.doRaw(method, url, []byte(body), "Authorization", "Bearer "+token)
			if got.status != 400 {
				t.Errorf("%s with %q: got %d %s", target, body, got.status, got.body)
			}
		}
	}
	c.want(404, c.call("GET", setsPath+"/x", nil), nil)
}
