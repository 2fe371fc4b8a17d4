package failure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var sentinels = map[string]error{
	"ErrNotFound": ErrNotFound, "ErrRunnerNotFound": ErrRunnerNotFound, "ErrScaleSetNotFound": ErrScaleSetNotFound,
	"ErrRunnerGroupNotFound": ErrRunnerGroupNotFound, "ErrSessionNotFound": ErrSessionNotFound,
	"ErrRunnerExists":   ErrRunnerExists,
	"ErrScaleSetExists": ErrScaleSetExists, "ErrSessionConflict": ErrSessionConflict,
	"ErrJobStillRunning": ErrJobStillRunning,
	"ErrUnauthorized":    ErrUnauthorized,
}

// answers are unsuccessful answers with the sentinels that they match.
var answers = map[string]struct {
	err  Error
	want []string
}{
	"runner exists": {Error{
		Endpoint:   EndpointGenerateJITConfig,
		StatusCode: 409,
		TypeName:   "GitHub.DistributedTask.WebApi.TaskAgentExistsException, GitHub.DistributedTask.WebApi",
	},
		[]string{"ErrRunnerExists"}},
	"runner exists, another status": {
		Error{StatusCode: 400, TypeName: "AgentExistsException"},
		[]string{"ErrRunnerExists"},
	},
	"runner not found": {
		Error{StatusCode: 404, TypeName: "x.TaskAgentNotFoundException"},
		[]string{"ErrNotFound", "ErrRunnerNotFound"},
	},
	"job running": {
		Error{StatusCode: 400, TypeName: "x.JobStillRunningException"},
		[]string{"ErrJobStillRunning"},
	},
	"session conflict": {
		Error{StatusCode: 409, TypeName: "GitHub.Actions.Runtime.WebApi.RunnerScaleSetSessionConflictException"},
		[]string{"ErrSessionConflict"},
	},
	"session conflict, no name": {
		Error{Endpoint: EndpointCreateSession, StatusCode: 409},
		[]string{"ErrSessionConflict"},
	},
	"session expired": {
		Error{StatusCode: 400, TypeName: "x.RunnerScaleSetSessionExpiredException"},
		[]string{"ErrNotFound", "ErrSessionNotFound"},
	},
	"refresh of a session evicted": {Error{
		Endpoint:   EndpointRefreshSession,
		StatusCode: 404,
		TypeName:   "x.RunnerAdminException",
	},
		[]string{"ErrNotFound", "ErrSessionNotFound"}},
	"scale set not found": {
		Error{StatusCode: 404, TypeName: "x.RunnerScaleSetNotFoundException"},
		[]string{"ErrNotFound", "ErrScaleSetNotFound"},
	},
	"scale set of a session gone": {
		Error{Endpoint: EndpointCreateSession, StatusCode: 404},
		[]string{"ErrNotFound", "ErrScaleSetNotFound"},
	},
	"scale set exists": {
		Error{StatusCode: 400, TypeName: "x.RunnerScaleSetExistsException"},
		[]string{"ErrScaleSetExists"},
	},
	"runner group not found": {
		Error{Endpoint: EndpointFindRunnerGroup, StatusCode: 404},
		[]string{"ErrNotFound", "ErrRunnerGroupNotFound"},
	},
	"tenant not found": {
		Error{Endpoint: EndpointRemoveRunner, StatusCode: 404, TypeName: "x.HostDoesNotExistException"},
		[]string{"ErrNotFound"},
	},
	"message not found": {Error{Endpoint: EndpointDeleteMessage, StatusCode: 404}, []string{"ErrNotFound"}},
	"hidden organization": {
		Error{Endpoint: EndpointRegistrationToken, StatusCode: 404},
		[]string{"ErrUnauthorized"},
	},
	"unauthorized": {Error{StatusCode: 401}, []string{"ErrUnauthorized"}},
	"forbidden":    {Error{StatusCode: 403}, []string{"ErrUnauthorized"}},
	"limited":      {Error{StatusCode: 403, rateLimited: true}, nil},
	"gone": {
		Error{Endpoint: EndpointGetRunner, StatusCode: 410},
		[]string{"ErrNotFound", "ErrRunnerNotFound"},
	},
	"conflict nobody knows": {Error{Endpoint: EndpointGetRunner, StatusCode: 409}, nil},
	"bad request":           {Error{StatusCode: 400, TypeName: "x.ArgumentException"}, nil},
	"server error":          {Error{StatusCode: 500}, nil},
}

// Exceptions match by substring, whatever the status.
func TestWhatAnAnswerMeans(t *testing.T) {
	for name, test := range answers {
		var got []string
		for sentinel, err := range sentinels {
			if errors.Is(&test.err, err) {
				got = append(got, sentinel)
			}
		}
		if diff := cmp.Diff(test.want, got, sorted); diff != "" {
			t.Errorf("%s matches (-want +got):\n%s", name, diff)
		}
	}
}

var sorted = cmp.Transformer("set", func(names []string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		set[name] = true
	}
	return set
})

// Bodies of errors, a taken name that another component wrapped, and what is not GitHub's and so isn't quoted.
func TestBodiesOfErrors(t *testing.T) {
	foreign := func(mediaType string) string {
		return "the answer has no error of GitHub's form (its type: " + mediaType + ")"
	}
	const plain, html = "text/plain; charset=utf-8", "text/html"
	wrapped := `{"error":"Bad request","details":"upstream said: ` +
		strings.ReplaceAll(exception("RunnerScaleSetExistsException", "taken"), `"`, `\"`) + `"}`
	for name, test := range map[string]struct{ contentType, body, message, typeName string }{
		"service": {
			"application/json", exception("XException", "why"), "why",
			"GitHub.Some.WebApi.XException, GitHub.Some.WebApi",
		},
		"REST": {
			"application/json", `{"message":"Not Found","documentation_url":"https://x"}`, "Not Found", "",
		},
		"JSON as text": {plain, `{"message":"why"}`, "why", ""},
		"no type named": {
			plain, exception("XException", "why"), "why", "GitHub.Some.WebApi.XException, GitHub.Some.WebApi",
		},
		"HTML":       {html, "<h1>502</h1>", foreign("text/html"), ""},
		"plain text": {plain, "root:x:0:0", foreign("text/plain"), ""},
		"somebody's JSON": {
			"application/json", `{"AccessKeyId":"AKIA","SecretAccessKey":"s"}`, foreign("application/json"), "",
		},
		"a JSON string":     {"application/json", `"secret"`, foreign("application/json"), ""},
		"an odd type":       {"secret; is=here", "x", foreign("of no known type"), ""},
		"empty":             {"", "", "no explanation was given", ""},
		"white space":       {"", " \n", "no explanation was given", ""},
		"an array":          {"application/json", `["x"]`, foreign("application/json"), ""},
		"no known key":      {"application/json", `{"reason":"x"}`, foreign("application/json"), ""},
		"only error":        {"application/json", `{"error":"x"}`, "x", ""},
		"only a short name": {"application/json", `{"typeKey":"XException","message":"why"}`, "why", "XException"},
		"an odd field": {
			"application/json", `{"typeName":"XException","message":"why","error":{"code":1}}`, "why", "XException",
		},
		"odd fields": {
			"application/json", `{"typeName":7,"typeKey":null,"message":["why"],"error":1}`, `["why"]`, "",
		},
		"details with name": {
			"application/json", `{"error":"e","details":` + exception("XException", "why") + `}`, "why",
			"GitHub.Some.WebApi.XException, GitHub.Some.WebApi",
		},
		"details without": {"application/json", `{"message":"why","details":[{"field":"name"}]}`, "why", ""},
		"wrapped JSON": {
			"application/json", wrapped, "taken",
			"GitHub.Some.WebApi.RunnerScaleSetExistsException, GitHub.Some.WebApi",
		},
		"wrapped text": {
			"application/json", `{"error":"e","details":"a.b.RunnerScaleSetExistsException: taken"}`,
			"a.b.RunnerScaleSetExistsException: taken", "a.b.RunnerScaleSetExistsException",
		},
		"wrapped nonsense": {"application/json", `{"error":"e","details":"{{{"}`, "{{{", ""},
	} {
		answer := Answer{Header: http.Header{"Content-Type": {test.contentType}}, Body: []byte(test.body)}
		message, typeName := answer.explain()
		if message != test.message || typeName != test.typeName {
			t.Errorf("%s: got %q, %q; want %q, %q", name, message, typeName, test.message, test.typeName)
		}
	}
}

func TestLongMessageIsShortenedBetweenRunes(t *testing.T) {
	for offset := range 3 {
		text := strings.Repeat("x", offset) + strings.Repeat("€", maxMessageLength)
		got := Shorten(text)
		if len(got) > maxMessageLength+len("…") || !utf8.ValidString(got) {
			t.Errorf("got %d bytes, valid: %v", len(got), utf8.ValidString(got))
		}
	}
}

func TestIsRejected(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"no error":            {nil, false},
		"bad request":         {&Error{StatusCode: 400}, true},
		"wrapped":             {fmt.Errorf("polling: %w", &Error{StatusCode: 404}), true},
		"rate limited":        {&RateLimitedError{Until: time.Now(), Err: &Error{StatusCode: 429}}, true},
		"timeout of a proxy":  {&Error{StatusCode: 408}, false},
		"web page of a proxy": {&Error{StatusCode: 403, webPage: true}, false},
		"server error":        {&Error{StatusCode: 500}, false},
		"network":             {&NetworkError{Err: context.DeadlineExceeded}, false},
		"protocol":            {Unexpected(EndpointGetMessage, errors.New("no body")), false},
		"success as web page": {WebPage(EndpointGetMessage, 200), false},
	} {
		if got := IsRejected(test.err); got != test.want {
			t.Errorf("%s: IsRejected = %t, want %t", name, got, test.want)
		}
	}
}

// exception is the body of a service error.
func exception(name, message string) string {
	return fmt.Sprintf(`{"$id":"1","innerException":null,"message":%q,"typeName":"GitHub.Some.WebApi.%s,`+
		` GitHub.Some.WebApi","typeKey":%q,"errorCode":0,"eventId":3000}`,
		message, name, name)
}

func TestLimitedUntil(t *testing.T) {
	epoch := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	day := epoch.Add(24 * time.Hour)
	for name, test := range map[string]struct {
		status  int
		header  http.Header
		until   time.Time
		limited bool
	}{
		"no header":            {429, http.Header{}, time.Time{}, false},
		"other status":         {500, http.Header{"Retry-After": {"5"}}, time.Time{}, false},
		"zero":                 {429, http.Header{"Retry-After": {"0"}}, epoch, true},
		"negative":             {429, http.Header{"Retry-After": {"-1"}}, time.Time{}, false},
		"nonsense":             {429, http.Header{"Retry-After": {"later"}}, time.Time{}, false},
		"seconds beyond a day": {429, http.Header{"Retry-After": {"9223372036854775807"}}, day, true},
		"date beyond a day":    {503, http.Header{"Retry-After": {"Fri, 01 Jan 2100 00:00:00 GMT"}}, day, true},
		"reset beyond a day": {
			403, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"99999999999"}}, day, true,
		},
		"requests remain": {
			403, http.Header{"X-Ratelimit-Remaining": {"1"}, "X-Ratelimit-Reset": {"99999999999"}}, time.Time{}, false,
		},
		"reset is nonsense": {
			403, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"x"}}, time.Time{}, false,
		},
		"503 has no quota to use": {
			503, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"99999999999"}}, time.Time{}, false,
		},
	} {
		until, limited := LimitedUntil(test.status, test.header, epoch)
		if limited != test.limited || (limited && !until.Equal(test.until)) {
			t.Errorf("%s: got %s, %v; want %s, %v", name, until, limited, test.until, test.limited)
		}
	}
}
