package fakegithub

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// reply is an answer not yet sent, so that a fault can still spoil it. Status 0
// means that nobody is there to read it.
type reply struct {
	status      int
	contentType string
	body        []byte
	header      map[string]string
}

const (
	serviceContentType = "application/json; charset=utf-8; api-version=6.0-preview.1"
	restContentType    = "application/json; charset=utf-8"
)

func jsonReply(status int, value any) reply {
	body, err := json.Marshal(value)
	if err != nil {
		// Only values of this package get here and all of them can be encoded.
		panic("fakegithub: encode answer: " + err.Error())
	}
	return reply{status: status, contentType: serviceContentType, body: body}
}

func emptyReply(status int) reply { return reply{status: status} }

// list wraps several values as the service does.
type list[T any] struct {
	Count int `json:"count"`
	Value []T `json:"value"`
}

func listReply[T any](values []T) reply {
	return jsonReply(http.StatusOK, list[T]{Count: len(values), Value: values})
}

// exception is an error of the Actions service.
type exception struct {
	status         int
	name, assembly string
}

var exceptions = map[state.Kind]exception{
	state.Invalid: {http.StatusBadRequest, "System.ArgumentException", "mscorlib"},
	state.Unauthorized: {http.StatusUnauthorized, "GitHub.Services.Common.VssUnauthorizedException",
		"GitHub.Services.Common"},
	state.ScaleSetNotFound: {http.StatusNotFound, "GitHub.Actions.Runtime.WebApi.RunnerScaleSetNotFoundException",
		"GitHub.Actions.Runtime.WebApi"},
	state.ScaleSetExists: {http.StatusBadRequest, "GitHub.Actions.Runtime.WebApi.RunnerScaleSetExistsException",
		"GitHub.Actions.Runtime.WebApi"},
	state.SessionConflict: {http.StatusConflict, "GitHub.Actions.Runtime.WebApi.RunnerScaleSetSessionConflictException",
		"GitHub.Actions.Runtime.WebApi"},
	state.SessionExpired: {http.StatusBadRequest,
		"GitHub.Actions.Runtime.WebApi.RunnerScaleSetSessionExpiredException", "GitHub.Actions.Runtime.WebApi"},
	state.SessionNotFound: {http.StatusNotFound, "RunnerAdminException", "GitHub.Actions.Runtime.WebApi"},
	state.RunnerExists: {http.StatusConflict, "GitHub.DistributedTask.WebApi.TaskAgentExistsException",
		"GitHub.DistributedTask.WebApi"},
	state.RunnerNotFound: {http.StatusNotFound, "GitHub.DistributedTask.WebApi.TaskAgentNotFoundException",
		"GitHub.DistributedTask.WebApi"},
	state.JobStillRunning: {http.StatusBadRequest, "GitHub.DistributedTask.WebApi.JobStillRunningException",
		"GitHub.DistributedTask.WebApi"},
	state.JobNotFound: {http.StatusNotFound, "GitHub.DistributedTask.WebApi.TaskAgentJobNotFoundException",
		"GitHub.DistributedTask.WebApi"},
	state.JITConfigUsed: {http.StatusConflict, "GitHub.DistributedTask.WebApi.TaskAgentSessionConflictException",
		"GitHub.DistributedTask.WebApi"},
	state.RunnerRemoved: {http.StatusGone, "GitHub.DistributedTask.WebApi.TaskAgentNotFoundException",
		"GitHub.DistributedTask.WebApi"},
	state.VersionDeprecated: {http.StatusUpgradeRequired, "GitHub.DistributedTask.WebApi.AccessDeniedException",
		"GitHub.DistributedTask.WebApi"},
}

// vssError is the body of an error of the Actions service.
type vssError struct {
	ID             string  `json:"$id"`
	InnerException *string `json:"innerException"`
	Message        string  `json:"message"`
	TypeName       string  `json:"typeName"`
	TypeKey        string  `json:"typeKey"`
	ErrorCode      int     `json:"errorCode"`
	EventID        int     `json:"eventId"`
}

func errorReply(err error) reply {
	refused, ok := errors.AsType[*state.Error](err)
	if !ok {
		refused = &state.Error{Kind: state.Invalid, Message: err.Error()}
	}
	e := exceptions[refused.Kind]
	return jsonReply(e.status, vssError{
		ID: "1", Message: refused.Message, TypeName: e.name + ", " + e.assembly, TypeKey: shortName(e.name), EventID: 3000,
	})
}

func shortName(typeName string) string {
	for i := len(typeName) - 1; i >= 0; i-- {
		if typeName[i] == '.' {
			return typeName[i+1:]
		}
	}
	return typeName
}

// restError is an error of the REST API.
func restError(status int, message string) reply {
	r := jsonReply(status, map[string]string{
		"message": message, "documentation_url": "https://docs.github.com/rest",
	})
	r.contentType = restContentType
	return r
}

// send writes the answer as the fault, if any, leaves it.
func (rep reply) send(w http.ResponseWriter, fault *Fault) {
	h := w.Header()
	h.Set("ActivityId", uuid.NewString())
	h.Set("X-GitHub-Request-Id", uuid.NewString())
	for name, value := range rep.header {
		h.Set(name, value)
	}
	if len(rep.body) == 0 {
		w.WriteHeader(rep.status)
		return
	}
	body := rep.body
	if fault != nil && fault.BOM {
		body = append([]byte("\xEF\xBB\xBF"), body...)
	}
	h.Set("Content-Type", rep.contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(rep.status)
	if fault != nil && fault.Truncate {
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush() // or the half would die with the connection
		// To the client, a connection that is closed after half of the announced length is an unexpected end.
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(body)
}
