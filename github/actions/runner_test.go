package actions_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/github/actions"
)

func TestGenerateJITConfig(t *testing.T) {
	s := newServer(t)
	call := jitCall
	s.on(call, reply{body: `{"runner":{"id":5,"name":"r-1","runnerScaleSetId":7},"encodedJITConfig":"blob"}`})
	asked := actions.JITConfigRequest{Name: "r-1", WorkFolder: "/work <&>"}
	got, err := s.client().GenerateJITConfig(t.Context(), 7, asked)
	if err != nil {
		t.Fatal(err)
	}
	want := actions.JITConfig{
		Runner: actions.RunnerReference{ID: 5, Name: "r-1", RunnerScaleSetID: 7}, EncodedJITConfig: "blob",
	}
	if *got != want {
		t.Errorf("got %+v, want %+v", *got, want)
	}
	if got, want := s.only(call).body, `{"name":"r-1","workFolder":"/work <&>"}`+"\n"; got != want {
		t.Errorf("sent %q, want %q", got, want)
	}
}

// The answer is lost, the repetition finds the name taken, the caller looks the runner up.
func TestLostJITConfig(t *testing.T) {
	s := newServer(t)
	s.on(jitCall, cutShort(`{"runner"`),
		reply{status: 409, body: exception("TaskAgentExistsException", "taken")},
		reply{body: `{"runner":{"id":6},"encodedJITConfig":"blob"}`})
	s.on("GET "+runnersURL, reply{
		body: `{"count":2,"value":[{"id":4,"name":"r-10"},{"id":5,"name":"R-1","runnerScaleSetId":7}]}`,
	})
	s.on("DELETE "+runnersURL+"/5", reply{status: 204})
	client := s.client()
	if _, err := client.GenerateJITConfig(t.Context(), 7, actions.JITConfigRequest{
		Name: "r-1",
	}); !errors.Is(err, actions.ErrRunnerExists) {
		t.Fatalf("got %v, want ErrRunnerExists", err)
	}
	runner, err := client.GetRunnerByName(t.Context(), "r-1")
	if err != nil {
		t.Fatal(err)
	}
	if runner.ID != 5 || runner.RunnerScaleSetID != 7 {
		t.Errorf("found %+v, want runner 5 of scale set 7", *runner)
	}
	if err := client.RemoveRunner(t.Context(), runner.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := client.GenerateJITConfig(t.Context(), 7, actions.JITConfigRequest{Name: "r-1"}); err != nil {
		t.Fatal(err)
	}
}

func TestIncompleteJITConfigIsAnError(t *testing.T) {
	for _, body := range []string{
		`{}`, `{"runner":{"id":5}}`, `{"encodedJITConfig":"blob"}`, `{"runner":null,"encodedJITConfig":"blob"}`,
	} {
		s := newServer(t)
		s.on(jitCall, reply{body: body})
		_, err := s.client().GenerateJITConfig(t.Context(), 7, actions.JITConfigRequest{Name: "r-1"})
		var broken *actions.UnexpectedResponseError
		if !errors.As(err, &broken) {
			t.Errorf("%s: got %v, want *UnexpectedResponseError", body, err)
		}
	}
}

func TestRunnerThatIsGone(t *testing.T) {
	s := newServer(t)
	client := s.client()
	for _, answer := range []reply{
		{status: 404},
		{status: 404, body: exception("TaskAgentNotFoundException", "gone")},
	} {
		s.on("GET "+runnersURL+"/5", answer)
		if _, err := client.GetRunner(t.Context(), 5); !errors.Is(err, actions.ErrRunnerNotFound) {
			t.Errorf("by id: got %v, want ErrRunnerNotFound", err)
		}
	}
	for _, body := range []string{
		`{"count":0,"value":[]}`, `{"count":0}`, `{"count":1,"value":[{"id":4,"name":"someone-else"}]}`,
	} {
		s.on("GET "+runnersURL, reply{body: body})
		if _, err := client.GetRunnerByName(t.Context(), "r-1"); !errors.Is(err, actions.ErrRunnerNotFound) {
			t.Errorf("by name: got %v, want ErrRunnerNotFound", err)
		}
	}
}

// A runner counts as removed if GitHub says that it is gone, but not if it is busy or its record lingers. The caller
// decides whether to believe a 404 that names no exception.
func TestRemoveRunner(t *testing.T) {
	for name, test := range map[string]struct {
		reply reply
		want  error
		fails bool
	}{
		"removed":             {reply{status: 204}, nil, false},
		"gone":                {reply{status: 404, body: exception("TaskAgentNotFoundException", "gone")}, nil, false},
		"gone, no name given": {reply{status: 404}, actions.ErrRunnerNotFound, true},
		"busy": {
			reply{status: 400, body: exception("JobStillRunningException", "busy")}, actions.ErrJobStillRunning, true,
		},
		"busy, newer status": {
			reply{status: 409, body: exception("TaskAgentJobStillRunningException", "busy")}, actions.ErrJobStillRunning, true,
		},
		"busy, no name given": {reply{status: 409}, actions.ErrJobStillRunning, true},
		"busy, as REST says": {
			reply{status: 422, body: `{"message":"Runner is currently running a job"}`}, actions.ErrJobStillRunning, true,
		},
		"busy, an odd field": {
			reply{
				status: 400,
				body: strings.Replace(
					exception("JobStillRunningException", "busy"), "null", `{"code":1},"error":{}`, 1,
				),
			},
			actions.ErrJobStillRunning, true,
		},
		"forbidden": {reply{status: 403}, actions.ErrUnauthorized, true},
		"another tenant's": {
			reply{status: 404, body: exception("HostDoesNotExistException", "moved")}, actions.ErrNotFound, true,
		},
	} {
		s := newServer(t)
		s.on("DELETE "+runnersURL+"/5", test.reply)
		err := s.client().RemoveRunner(t.Context(), 5)
		if (err != nil) != test.fails || (test.want != nil && !errors.Is(err, test.want)) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
}

// A removal that never reached the service must not count as one: here the organization is hidden from the credential.
func TestRemovalFailsWhenRegistrationAnswers404(t *testing.T) {
	s := newServer(t)
	s.on(registrationTokenCall, reply{status: 404, body: `{"message":"Not Found"}`})
	if err := s.client().RemoveRunner(t.Context(), 5); !errors.Is(err, actions.ErrUnauthorized) {
		t.Errorf("got %v, want ErrUnauthorized", err)
	}
}

// The acquire flow's offers can be listed; services without this call answer 404.
func TestAcquirableJobs(t *testing.T) {
	for name, test := range map[string]struct {
		reply  reply
		want   []int64
		fails  bool
		absent bool
	}{
		"two": {
			reply{body: `{"count":2,"value":[{"runnerRequestId":11},{"runnerRequestId":12}]}`}, []int64{11, 12}, false,
			false,
		},
		"odd time": {reply{body: `{"value":[{"runnerRequestId":11,"queueTime":""}]}`}, []int64{11}, false, false},
		"one odd": {
			reply{body: `{"value":[{"runnerRequestId":"x"},7,{"runnerRequestId":12}]}`}, []int64{12}, false, false,
		},
		"none":     {reply{status: 204}, nil, false, false},
		"no list":  {reply{body: `{"count":0,"value":[]}`}, nil, false, false},
		"not here": {reply{status: 404, body: "not here"}, nil, true, true},
		"failure":  {reply{status: 400}, nil, true, false},
	} {
		s := newServer(t)
		s.on("GET "+scaleSetsURL+"/7/acquirablejobs", test.reply)
		jobs, err := s.client().GetAcquirableJobs(t.Context(), 7)
		if (err != nil) != test.fails || errors.Is(err, actions.ErrNotFound) != test.absent {
			t.Errorf("%s: %v", name, err)
		}
		var got []int64
		for _, job := range jobs {
			got = append(got, job.RunnerRequestID)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Whatever GitHub answers to a registration, the caller gets a usable JIT config or an error that names the call.
func FuzzJITAnswer(f *testing.F) {
	f.Add(`{"runner":{"id":5,"name":"r","runnerScaleSetId":7},"encodedJITConfig":"eyJ"}`)
	f.Add(`{"runner":null,"encodedJITConfig":""}`)
	f.Add(`{"runner":{"id":-1},"encodedJITConfig":"e"}`)
	f.Add(`{"runner":{"id":1e99},"encodedJITConfig":7}`)
	f.Add("\xef\xbb\xbf" + `{"runner":{"id":5},"encodedJITConfig":"e"}`)
	f.Add(`{"runner":{"id":5},"encod`)
	f.Add(`[]`)
	f.Add(``)
	f.Fuzz(func(t *testing.T, body string) {
		s := newServer(t)
		s.on(jitCall, reply{body: body})
		config, err := s.client().GenerateJITConfig(t.Context(), 7, actions.JITConfigRequest{Name: "r"})
		switch {
		case err == nil && (config.EncodedJITConfig == "" || config.Runner.ID <= 0):
			t.Errorf("%q passes as %+v", body, config)
		case err != nil && !strings.Contains(err.Error(), "generate jit config"):
			t.Errorf("%q: the error doesn't say what was asked: %v", body, err)
		}
	})
}

const listRunnersCall = "GET /api/v3/orgs/acme/actions/runners"

// page is an answer of the REST API with that many runners that are online, and the given ones after them.
func page(online int, more ...string) reply {
	runners := make([]string, 0, online+len(more))
	for i := range online {
		runners = append(
			runners,
			fmt.Sprintf(`{"id":%d,"name":"up-%d","os":"linux","status":"online","busy":false,"labels":[]}`, i, i),
		)
	}
	return reply{body: `{"total_count":1,"runners":[` + strings.Join(append(runners, more...), ",") + `]}`}
}

func TestOfflineRunnersAreListedFromAllPages(t *testing.T) {
	s := newServer(t)
	s.on(listRunnersCall,
		page(99, `{"id":200,"name":"gone","os":"linux","status":"offline","busy":false,"labels":[]}`),
		page(
			0, `{"id":201,"name":"lost","os":"unknown","status":"offline","busy":true}`,
			`{"id":202,"name":"odd","status":"sleeping"}`,
		))
	got, err := s.client().ListOfflineRunners(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	want := &actions.OfflineRunners{Names: []string{"gone", "lost"}, ListedAt: epoch}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	calls := s.calls(listRunnersCall)
	if len(calls) != 2 || calls[0].rawQuery != "page=1&per_page=100" || calls[1].rawQuery != "page=2&per_page=100" {
		t.Errorf("requests %v", calls)
	}
	if got, want := calls[0].header.Get("Authorization"), "Bearer "+testToken; got != want {
		t.Errorf("Authorization %q, want %q", got, want)
	}
}

// A thousand sets of one organization see the same runners: one list serves them all.
func TestOfflineRunnersAreListedOnceForAllCallers(t *testing.T) {
	s := newServer(t)
	s.on(listRunnersCall, page(1))
	client := s.client()
	list := func() {
		t.Helper()
		if _, err := client.ListOfflineRunners(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	list()
	s.clock.Step(time.Minute)
	list()
	if got := len(s.calls(listRunnersCall)); got != 1 {
		t.Fatalf("%d lists within a minute, want 1", got)
	}
	s.clock.Step(time.Second)
	list()
	if got := len(s.calls(listRunnersCall)); got != 2 {
		t.Errorf("%d lists after more than a minute, want 2", got)
	}
}

func TestOfflineRunnersAreCutAfterAHundredPages(t *testing.T) {
	s := newServer(t)
	s.on(listRunnersCall, page(100))
	if _, err := s.client().ListOfflineRunners(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if requests := len(s.calls(listRunnersCall)); requests != 100 || !strings.Contains(s.logText(), "more runners") {
		t.Errorf("%d requests, logged %s", requests, s.logText())
	}
}

// A server in GitHub's place can make neither the list long nor its names, and nothing of its answers stays reserved.
func TestAListOfTooManyRunnersIsBounded(t *testing.T) {
	gone := make([]string, 0, 5001)
	gone = append(gone, `{"name":"`+strings.Repeat("x", 64)+`","status":"offline"}`)
	for i := range 5000 {
		gone = append(gone, fmt.Sprintf(`{"name":"runner-%d","status":"offline"}`, i))
	}
	s := newServer(t)
	s.on(listRunnersCall, page(0, gone...))
	const size = 1 << 20
	budget := actions.NewBudget(size, size)
	got, err := s.client(func(o *actions.Options) { o.Budget = budget }).ListOfflineRunners(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	const most = 10_000 // as many as GitHub allows in a runner group
	if len(got.Names) > most || got.Names[0] != "runner-0" {
		t.Errorf("%d names, at most %d are allowed; the first is %.70s", len(got.Names), most, got.Names[0])
	}
	if err := s.room(budget, size)(); err != nil {
		t.Errorf("something is still reserved: %v", err)
	}
}

// GitHub answers 404 to tokens that may not read, and so do servers that lack the call. A failed list is not
// remembered.
func TestRefusedListOfRunners(t *testing.T) {
	for _, status := range []int{403, 404} {
		s := newServer(t)
		s.on(listRunnersCall, reply{status: status, body: `{"message":"no"}`}, page(0))
		client := s.client()
		_, err := client.ListOfflineRunners(t.Context(), time.Hour)
		if !errors.Is(err, actions.ErrUnauthorized) || !strings.Contains(err.Error(), "personal access token") {
			t.Errorf("%d: %v", status, err)
		}
		if _, err := client.ListOfflineRunners(t.Context(), time.Hour); err != nil {
			t.Errorf("after %d: %v", status, err)
		}
	}
}
