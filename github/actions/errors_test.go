package actions

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var sentinels = map[string]error{
	"ErrNotFound": ErrNotFound, "ErrRunnerNotFound": ErrRunnerNotFound, "ErrScaleSetNotFound": ErrScaleSetNotFound,
	"ErrRunnerGroupNotFound": ErrRunnerGroupNotFound, "ErrSessionNotFound": ErrSessionNotFound, "ErrRunnerExists": ErrRunnerExists,
	"ErrScaleSetExists": ErrScaleSetExists, "ErrSessionConflict": ErrSessionConflict, "ErrJobStillRunning": ErrJobStillRunning,
	"ErrUnauthorized": ErrUnauthorized,
}

// Exceptions match by substring, whatever the status.
func TestWhatAnAnswerMeans(t *testing.T) {
	for name, test := range map[string]struct {
		err  Error
		want []string
	}{
		"runner exists": {Error{Endpoint: EndpointGenerateJITConfig, StatusCode: 409, TypeName: "GitHub.DistributedTask.WebApi.TaskAgentExistsException, GitHub.DistributedTask.WebApi"},
			[]string{"ErrRunnerExists"}},
		"runner exists, another status": {Error{StatusCode: 400, TypeName: "AgentExistsException"}, []string{"ErrRunnerExists"}},
		"runner not found":              {Error{StatusCode: 404, TypeName: "x.TaskAgentNotFoundException"}, []string{"ErrNotFound", "ErrRunnerNotFound"}},
		"job running":                   {Error{StatusCode: 400, TypeName: "x.JobStillRunningException"}, []string{"ErrJobStillRunning"}},
		"session conflict":              {Error{StatusCode: 409, TypeName: "GitHub.Actions.Runtime.WebApi.RunnerScaleSetSessionConflictException"}, []string{"ErrSessionConflict"}},
		"session conflict, no name":     {Error{Endpoint: EndpointCreateSession, StatusCode: 409}, []string{"ErrSessionConflict"}},
		"session expired":               {Error{StatusCode: 400, TypeName: "x.RunnerScaleSetSessionExpiredException"}, []string{"ErrNotFound", "ErrSessionNotFound"}},
		"refresh of a session evicted": {Error{Endpoint: EndpointRefreshSession, StatusCode: 404, TypeName: "x.RunnerAdminException"},
			[]string{"ErrNotFound", "ErrSessionNotFound"}},
		"scale set not found":         {Error{StatusCode: 404, TypeName: "x.RunnerScaleSetNotFoundException"}, []string{"ErrNotFound", "ErrScaleSetNotFound"}},
		"scale set of a session gone": {Error{Endpoint: EndpointCreateSession, StatusCode: 404}, []string{"ErrNotFound", "ErrScaleSetNotFound"}},
		"scale set exists":            {Error{StatusCode: 400, TypeName: "x.RunnerScaleSetExistsException"}, []string{"ErrScaleSetExists"}},
		"runner group not found":      {Error{Endpoint: EndpointFindRunnerGroup, StatusCode: 404}, []string{"ErrNotFound", "ErrRunnerGroupNotFound"}},
		"tenant not found":            {Error{Endpoint: EndpointRemoveRunner, StatusCode: 404, TypeName: "x.HostDoesNotExistException"}, []string{"ErrNotFound"}},
		"message not found":           {Error{Endpoint: EndpointDeleteMessage, StatusCode: 404}, []string{"ErrNotFound"}},
		"hidden organization":         {Error{Endpoint: EndpointRegistrationToken, StatusCode: 404}, []string{"ErrUnauthorized"}},
		"unauthorized":                {Error{StatusCode: 401}, []string{"ErrUnauthorized"}},
		"forbidden":                   {Error{StatusCode: 403}, []string{"ErrUnauthorized"}},
		"limited":                     {Error{StatusCode: 403, rateLimited: true}, nil},
		"gone":                        {Error{Endpoint: EndpointGetRunner, StatusCode: 410}, []string{"ErrNotFound", "ErrRunnerNotFound"}},
		"conflict nobody knows":       {Error{Endpoint: EndpointGetRunner, StatusCode: 409}, nil},
		"bad request":                 {Error{StatusCode: 400, TypeName: "x.ArgumentException"}, nil},
		"server error":                {Error{StatusCode: 500}, nil},
	} {
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

// A 409 may have another cause than the name, so the error carries what GitHub said.
func TestATakenNameKeepsWhatGitHubSaid(t *testing.T) {
	s := newServer(t)
	answer := reply{status: 409, body: exception("QuotaException", "too many runners"), header: map[string]string{headerActivityID: "activity"}}
	s.on(jitCall, answer)
	s.on("POST "+scaleSetsURL, answer)
	_, registering := s.client().GenerateJITConfig(t.Context(), 7, JITConfigRequest{Name: "r-1"})
	_, creating := s.client().CreateRunnerScaleSet(t.Context(), &RunnerScaleSet{Name: "big"})
	for want, err := range map[error]error{ErrRunnerExists: registering, ErrScaleSetExists: creating} {
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
		for _, said := range []string{"too many runners", "QuotaException", "[ActivityId activity]"} {
			if !strings.Contains(err.Error(), said) {
				t.Errorf("%v lacks %q", err, said)
			}
		}
	}
}

// Bodies of errors, a taken name that another component wrapped, and what is not GitHub's and so isn't quoted.
func TestBodiesOfErrors(t *testing.T) {
	foreign := func(mediaType string) string {
		return "the answer has no error of GitHub's form (its type: " + mediaType + ")"
	}
	const plain, html = "text/plain; charset=utf-8", "text/html"
	wrapped := `{"error":"Bad request","details":"upstream said: ` + strings.ReplaceAll(exception("RunnerScaleSetExistsException", "taken"), `"`, `\"`) + `"}`
	for name, test := range map[string]struct{ contentType, body, message, typeName string }{
		"service":           {"application/json", exception("XException", "why"), "why", "GitHub.Some.WebApi.XException, GitHub.Some.WebApi"},
		"REST":              {"application/json", `{"message":"Not Found","documentation_url":"https://x"}`, "Not Found", ""},
		"JSON as text":      {plain, `{"message":"why"}`, "why", ""},
		"no type named":     {plain, exception("XException", "why"), "why", "GitHub.Some.WebApi.XException, GitHub.Some.WebApi"},
		"HTML":              {html, "<h1>502</h1>", foreign("text/html"), ""},
		"plain text":        {plain, "root:x:0:0", foreign("text/plain"), ""},
		"somebody's JSON":   {"application/json", `{"AccessKeyId":"AKIA","SecretAccessKey":"s"}`, foreign("application/json"), ""},
		"a JSON string":     {"application/json", `"secret"`, foreign("application/json"), ""},
		"an odd type":       {"secret; is=here", "x", foreign("of no known type"), ""},
		"empty":             {"", "", "no explanation was given", ""},
		"white space":       {"", " \n", "no explanation was given", ""},
		"an array":          {"application/json", `["x"]`, foreign("application/json"), ""},
		"no known key":      {"application/json", `{"reason":"x"}`, foreign("application/json"), ""},
		"only error":        {"application/json", `{"error":"x"}`, "x", ""},
		"only a short name": {"application/json", `{"typeKey":"XException","message":"why"}`, "why", "XException"},
		"an odd field":      {"application/json", `{"typeName":"XException","message":"why","error":{"code":1}}`, "why", "XException"},
		"odd fields":        {"application/json", `{"typeName":7,"typeKey":null,"message":["why"],"error":1}`, `["why"]`, ""},
		"details with name": {"application/json", `{"error":"e","details":` + exception("XException", "why") + `}`, "why", "GitHub.Some.WebApi.XException, GitHub.Some.WebApi"},
		"details without":   {"application/json", `{"message":"why","details":[{"field":"name"}]}`, "why", ""},
		"wrapped JSON":      {"application/json", wrapped, "taken", "GitHub.Some.WebApi.RunnerScaleSetExistsException, GitHub.Some.WebApi"},
		"wrapped text":      {"application/json", `{"error":"e","details":"a.b.RunnerScaleSetExistsException: taken"}`, "a.b.RunnerScaleSetExistsException: taken", "a.b.RunnerScaleSetExistsException"},
		"wrapped nonsense":  {"application/json", `{"error":"e","details":"{{{"}`, "{{{", ""},
	} {
		message, typeName := explain(&response{header: map[string][]string{"Content-Type": {test.contentType}}, body: []byte(test.body)})
		if message != test.message || typeName != test.typeName {
			t.Errorf("%s: got %q, %q; want %q, %q", name, message, typeName, test.message, test.typeName)
		}
	}
}

func TestLongMessageIsShortenedBetweenRunes(t *testing.T) {
	for offset := range 3 {
		text := strings.Repeat("x", offset) + strings.Repeat("€", maxMessageLength)
		got := shorten(text)
		if len(got) > maxMessageLength+len("…") || !utf8.ValidString(got) {
			t.Errorf("got %d bytes, valid: %v", len(got), utf8.ValidString(got))
		}
	}
}

// A gateway on the way may write anything of any length, even in a header.
func TestNoErrorQuotesALongAnswer(t *testing.T) {
	const updateCall = "PATCH " + scaleSetsURL + "/7"
	long := strings.Repeat("7", 100_000)
	for name, answer := range map[string]reply{
		"body":                                {status: 400, body: long},
		"type":                                {status: 400, body: `{"message":"x","typeName":"` + long + `"}`},
		"ids":                                 {status: 400, header: map[string]string{headerActivityID: long, headerRequestID: long}},
		"redirect that only a GET can follow": {status: 302, header: map[string]string{"Location": "https://example.com/" + long}},
		"redirect to no address":              {status: 307, header: map[string]string{"Location": "https://example.com/%zz" + long}},
		"success":                             {body: `{"id":` + long + `}`},
	} {
		s := newServer(t)
		s.on(updateCall, answer)
		_, err := s.client().UpdateRunnerScaleSet(t.Context(), 7, &RunnerScaleSet{Name: "big"})
		if err == nil || len(err.Error()) > 10_000 {
			t.Errorf("%s: got %.200v, want a short error", name, err)
		}
	}
}

// The address of a queue comes from GitHub as well.
func TestNoErrorQuotesALongAddress(t *testing.T) {
	s := newServer(t)
	path := "/queue/" + strings.Repeat("x", 100_000)
	s.on(createSessionCall, reply{body: s.sessionBody("q", map[string]any{"messageQueueUrl": s.URL + path})})
	session, err := s.client().CreateSession(t.Context(), 7, "me")
	if err != nil {
		t.Fatal(err)
	}
	s.on("GET "+path, cutShort("{}"))
	var network *NetworkError
	if _, err := session.GetMessage(t.Context(), 0, 1); !errors.As(err, &network) || len(err.Error()) > 10_000 {
		t.Errorf("got %.200v, want a short *NetworkError", err)
	}
}

// A credential that was cut would not be recognized, and its beginning would be shown.
func TestCredentialIsRedactedBeforeAMessageIsShortened(t *testing.T) {
	const shown = 10 // bytes of the token that are within the limit
	s := newServer(t)
	body := jsonText(t, map[string]any{"message": strings.Repeat("x", maxMessageLength-shown) + testToken})
	s.on(registrationTokenCall, reply{status: 400, body: body})
	_, err := s.client().GetRunnerScaleSetByID(t.Context(), 7)
	if err == nil || strings.Contains(err.Error(), testToken[:shown]) {
		t.Errorf("got %v, want nothing of the token", err)
	}
}

func TestErrorDoesNotEchoTheCredential(t *testing.T) {
	s := newServer(t)
	s.on(registrationTokenCall, reply{status: 400, body: jsonText(t, map[string]any{"message": "you sent Bearer " + testToken})})
	_, err := s.client().GetRunnerScaleSetByID(t.Context(), 7)
	if err == nil || strings.Contains(err.Error(), testToken) || !strings.Contains(err.Error(), "[redacted]") {
		t.Errorf("got %v, want the token redacted", err)
	}
}
