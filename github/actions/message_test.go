package actions_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/github/actions"
)

// reader returns a function that reads messages as they come out of the queue.
func reader(t *testing.T) func(text string) (*actions.Message, error) {
	t.Helper()
	s := newServer(t)
	session := s.session()
	return func(text string) (*actions.Message, error) {
		s.on(pollCall, reply{body: text})
		return session.GetMessage(t.Context(), 0, 1)
	}
}

// The entries of both flows are distinguished.
func TestAllKindsOfEntries(t *testing.T) {
	entry := func(kind string, more map[string]any) map[string]any {
		fields := map[string]any{
			"messageType": kind, "runnerRequestId": 9007199254740993, "repositoryName": "web", "ownerName": "acme",
			"jobId":          "j-1",
			"jobWorkflowRef": "acme/web/.github/workflows/ci.yaml@refs/heads/main", "jobDisplayName": "build",
			"workflowRunId": 8,
			"eventName":     "push", "requestLabels": []string{"big", "gpu"},
			"queueTime":          "2026-03-01T12:00:00.1234567Z",
			"scaleSetAssignTime": "2026-03-01T14:00:01+02:00", "runnerAssignTime": "0001-01-01T00:00:00Z",
			"newKey": []int{1},
		}
		for key, value := range more {
			fields[key] = value
		}
		return fields
	}
	got, err := reader(t)(message(t, 5,
		entry("JobAvailable", map[string]any{"acquireJobUrl": "https://acquire"}),
		entry("JobAssigned", nil),
		entry("JobStarted", map[string]any{"runnerId": 3, "runnerName": "r-1"}),
		entry("JobCompleted", map[string]any{
			"runnerId":   3,
			"runnerName": "r-1",
			"result":     "succeeded",
			"finishTime": "2026-03-01T12:00:02Z",
		}),
		entry("JobMoved", nil),
	))
	if err != nil {
		t.Fatal(err)
	}
	base := actions.JobMessageBase{
		RunnerRequestID: 9007199254740993, RepositoryName: "web", OwnerName: "acme", JobID: "j-1",
		JobWorkflowRef:     "acme/web/.github/workflows/ci.yaml@refs/heads/main",
		JobDisplayName:     "build",
		WorkflowRunID:      8,
		EventName:          "push",
		RequestLabels:      []string{"big", "gpu"},
		QueueTime:          epoch.Add(123456700 * time.Nanosecond),
		ScaleSetAssignTime: epoch.Add(time.Second),
	}
	finished := base
	finished.FinishTime = epoch.Add(2 * time.Second)
	want := &actions.Message{
		ID: 5, Statistics: &actions.Statistics{TotalAssignedJobs: 2}, Entries: 5, Unknown: []string{"JobMoved"},
		JobsAvailable: []actions.JobAvailable{{JobMessageBase: base}},
		JobsAssigned:  []actions.JobAssigned{{JobMessageBase: base}},
		JobsStarted:   []actions.JobStarted{{JobMessageBase: base, RunnerID: 3, RunnerName: "r-1"}},
		JobsCompleted: []actions.JobCompleted{
			{JobMessageBase: finished, Result: "succeeded", RunnerID: 3, RunnerName: "r-1"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Times carry a zone and up to seven digits; unset is year 1, null or absent.
func TestTimes(t *testing.T) {
	read := reader(t)
	for text, want := range map[string]time.Time{
		`"2026-03-01T12:00:00Z"`:              epoch,
		`"2026-03-01T12:00:00.5Z"`:            epoch.Add(500 * time.Millisecond),
		`"2026-03-01T14:00:00.0000001+02:00"`: epoch.Add(100),
		`"0001-01-01T00:00:00Z"`:              {},
		`null`:                                {},
	} {
		got, err := read(`{"messageId":5,"messageType":"RunnerScaleSetJobMessages","statistics":{},"body":` +
			jsonText(t, `[{"messageType":"JobStarted","queueTime":`+text+`}]`) + `}`)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		job := got.JobsStarted[0]
		if !job.QueueTime.Equal(want) || !job.RunnerAssignTime.IsZero() {
			t.Errorf("%s: got %s, absent one %s", text, job.QueueTime, job.RunnerAssignTime)
		}
	}
}

// An empty body has no entries, and unknown inner types are not an error.
func TestBodiesThatAreFine(t *testing.T) {
	read := reader(t)
	for body, entries := range map[string]int{
		`""`:                               0,
		`"[]"`:                             0,
		`"null"`:                           0,
		`null`:                             0,
		`"[{\"messageType\":\"New\"},{}]"`: 2,
	} {
		got, err := read(
			`{"messageId":5,"messageType":"RunnerScaleSetJobMessages","statistics":{},"body":` + body + `}`,
		)
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if got.Entries != entries || len(got.Unknown) != entries {
			t.Errorf("%s: got %d entries, %q unknown; want %d", body, got.Entries, got.Unknown, entries)
		}
	}
}

// Other servers say so that they have none.
func TestNullIsNoMessage(t *testing.T) {
	if got, err := reader(t)("null\n"); got != nil || err != nil {
		t.Errorf("got %+v, %v; want neither a message nor an error", got, err)
	}
}

// The error says what is wrong, what can be read is returned, and nothing crashes.
func TestMalformedMessages(t *testing.T) {
	read := reader(t)
	const good = `[{\"messageType\":\"JobStarted\",\"runnerName\":\"r-1\"}]`
	for name, test := range map[string]struct {
		text    string
		id      int64
		problem string
		started int
	}{
		"unknown envelope": {
			`{"messageId":5,"messageType":"Other","statistics":{},"body":"` + good + `"}`, 5,
			`messageType "Other" is unknown`, 0,
		},
		"no envelope type": {`{"messageId":5,"statistics":{},"body":""}`, 5, "messageType is missing", 0},
		"odd statistics": {
			`{"messageId":5,"messageType":"RunnerScaleSetJobMessages","statistics":{"totalAssignedJobs":"2"},"body":"` + good + `"}`,
			5, "statistics", 1,
		},
		"body is an array": {
			`{"messageId":5,"messageType":"RunnerScaleSetJobMessages","statistics":{},"body":[]}`, 5, "body", 0,
		},
		"body is no JSON": {
			`{"messageId":5,"messageType":"RunnerScaleSetJobMessages","statistics":{},"body":"<html>"}`, 5, "body", 0,
		},
		"body is an object": {
			`{"messageId":5,"messageType":"RunnerScaleSetJobMessages","statistics":{},"body":"{}"}`, 5, "body", 0,
		},
		"body is cut": {
			`{"messageId":5,"messageType":"RunnerScaleSetJobMessages","statistics":{},` +
				`"body":"[{\"messageType\":\"JobStarted\",\"runnerName\":\"r-1\"},{\"mess"}`,
			5, "body", 1,
		},
		"one bad entry": {
			`{"messageId":5,"messageType":"RunnerScaleSetJobMessages","statistics":{},"body":"[7,` +
				`{\"messageType\":\"JobStarted\",\"runnerName\":\"r-1\"}]"}`,
			5, "entry 0", 1,
		},
		"one bad field": {
			`{"messageId":5,"messageType":"RunnerScaleSetJobMessages","statistics":{},` +
				`"body":"[{\"messageType\":\"JobStarted\",\"runnerRequestId\":\"x\"},{\"messageType\":\"JobStarted\",` +
				`\"runnerName\":\"r-1\"}]"}`,
			5, "entry 0", 1,
		},
		"bad time": {
			`{"messageId":5,"messageType":"RunnerScaleSetJobMessages","statistics":{},` +
				`"body":"[{\"messageType\":\"JobStarted\",\"runnerName\":\"r-1\",\"queueTime\":\"\",` +
				`\"finishTime\":null}]"}`,
			5, "entry 0", 1,
		},
		"id is a text": {
			`{"messageId":"5","messageType":"RunnerScaleSetJobMessages","statistics":{},"body":"` + good + `"}`, 0,
			"messageId", 1,
		},
		"no id": {
			`{"messageType":"RunnerScaleSetJobMessages","statistics":{},"body":"` + good + `"}`, 0,
			"messageId is missing", 1,
		},
		"not an object": {`[1]`, 0, "array", 0},
		"no JSON":       {`hello`, 0, "invalid character", 0},
		"empty":         {`{}`, 0, "messageId is missing", 0},
	} {
		message, err := read(test.text)
		var malformed *actions.MalformedMessageError
		if message != nil || !errors.As(err, &malformed) {
			t.Errorf("%s: got %v, %v; want *MalformedMessageError", name, message, err)
			continue
		}
		if malformed.MessageID != test.id || !strings.Contains(err.Error(), test.problem) {
			t.Errorf("%s: message %d, %q; want %d with %q", name, malformed.MessageID, err, test.id, test.problem)
		}
		if name == "odd statistics" && malformed.Message.Statistics != nil {
			t.Errorf("%s: read as %+v, want none", name, *malformed.Message.Statistics)
		}
		if malformed.Message == nil || len(malformed.Message.JobsStarted) != test.started {
			t.Errorf("%s: read %+v, want %d started jobs", name, malformed.Message, test.started)
		}
		if test.started > 0 && malformed.Message.JobsStarted[0].RunnerName != "r-1" {
			t.Errorf("%s: read %+v", name, malformed.Message.JobsStarted[0])
		}
	}
}

// An answer of megabytes is refused if its size is known, and otherwise read up to the largest size of a message.
func TestNoMessageTakesMuchMemory(t *testing.T) {
	const maxEntries = 1000 // 20 times what GitHub puts in one
	read := reader(t)
	for name, entry := range map[string]string{
		"entries": `{}`, "problems": `7`, "nesting": strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000),
	} {
		body := "[" + strings.Repeat(entry+",", 1<<20/len(entry)) + entry + "]"
		text := jsonText(t, map[string]any{
			"messageId":   5,
			"messageType": "RunnerScaleSetJobMessages",
			"statistics":  map[string]any{},
			"body":        body,
		})
		_, err := read(text)
		var malformed *actions.MalformedMessageError
		if !errors.As(err, &malformed) || malformed.MessageID != 5 || malformed.Message.Entries > maxEntries ||
			len(err.Error()) > 10_000 {
			t.Errorf("%s: got %.200v, want a short error about message 5 and at most %d entries", name, err, maxEntries)
		}
	}
}

// Errors go into logs and a status, so whatever part of a message they quote is shortened.
func TestNoErrorQuotesALongMessage(t *testing.T) {
	read := reader(t)
	const size = 1 << 20
	long, digits := strings.Repeat("x", size), strings.Repeat("7", size)
	entry := func(field string) string {
		return `,"body":` + jsonText(t, `[{"messageType":"JobStarted",`+field+`}]`)
	}
	const jobs = `"messageType":"RunnerScaleSetJobMessages"`
	for name, text := range map[string]string{
		"type":                `"messageId":5,"messageType":"` + long + `"`,
		"type, without an id": `"messageType":"` + long + `"`,
		"type as a number":    `"messageId":5,"messageType":` + digits,
		"id":                  `"messageId":` + digits + `,` + jobs,
		"statistics":          `"messageId":5,` + jobs + `,"statistics":{"totalAssignedJobs":` + digits + `}`,
		"body as a number":    `"messageId":5,` + jobs + `,"body":` + digits,
		"number in the body":  `"messageId":5,` + jobs + `,"body":"` + digits + `"`,
		"number of an entry":  `"messageId":5,` + jobs + entry(`"runnerId":`+digits),
		"time of an entry":    `"messageId":5,` + jobs + entry(`"queueTime":"`+long+`"`),
	} {
		_, err := read("{" + text + "}")
		var malformed *actions.MalformedMessageError
		if !errors.As(err, &malformed) {
			t.Errorf("%s: got %.200v, want *MalformedMessageError", name, err)
			continue
		}
		if got := max(len(err.Error()), len(malformed.Err.Error()), len(malformed.MessageType)); got > 10_000 {
			t.Errorf("%s: a text of %d bytes: %.200v", name, got, err)
		}
	}
	known, err := read(message(t, 5, map[string]any{"messageType": long}))
	if err != nil || len(known.Unknown) != 1 || len(known.Unknown[0]) > 10_000 {
		t.Errorf("unknown type: got %.200v, %.200v; want it shortened", known, err)
	}
}

func TestMalformedMessageComesOutOfTheQueue(t *testing.T) {
	s := newServer(t)
	session := s.session()
	s.on(pollCall, reply{body: "\xef\xbb\xbf" + `{"messageId":5,"messageType":"Other"}`})
	_, err := session.GetMessage(t.Context(), 0, 1)
	var malformed *actions.MalformedMessageError
	if !errors.As(err, &malformed) || malformed.MessageID != 5 || malformed.MessageType != "Other" {
		t.Errorf("got %v, want message 5 of type Other", err)
	}
}

// If a message has no statistics, the last ones still hold.
func TestMessageWithoutStatistics(t *testing.T) {
	read := reader(t)
	for _, statistics := range []string{"", `,"statistics":null`} {
		got, err := read(
			`{"messageId":5,"messageType":"RunnerScaleSetJobMessages","body":"[{\"messageType\":\"JobStarted\"}]"` +
				statistics + `}`,
		)
		if err != nil || got.ID != 5 || got.Statistics != nil || len(got.JobsStarted) != 1 {
			t.Errorf("%q: got %+v, %v; want message 5 with one started job and no statistics", statistics, got, err)
		}
	}
}
