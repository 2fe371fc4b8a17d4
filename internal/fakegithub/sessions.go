package fakegithub

import (
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// sessionAnswer is a session as the service writes it, the same for create and
// refresh: the client replaces everything it had.
type sessionAnswer struct {
	SessionID   string           `json:"sessionId"`
	OwnerName   string           `json:"ownerName"`
	ScaleSet    scaleSetAnswer   `json:"runnerScaleSet"`
	QueueURL    string           `json:"messageQueueUrl"`
	AccessToken string           `json:"messageQueueAccessToken"`
	Statistics  state.Statistics `json:"statistics"`
}

// sessionReply answers a session or the refusal. The queue URL has a query string
// because the hosted one has, and clients must keep it.
func (s *Server) sessionReply(r *request, session *state.Session, err error) reply {
	if err != nil {
		return errorReply(err)
	}
	set := s.describeScaleSet(r, session.Set)
	return jsonReply(http.StatusOK, sessionAnswer{
		SessionID: session.ID, OwnerName: session.OwnerName, ScaleSet: set, AccessToken: session.Token,
		QueueURL:   s.publicURL(r) + "/scalesets/message?sessionId=" + url.QueryEscape(session.ID),
		Statistics: set.Statistics,
	})
}

func createSession(s *Server, now time.Time, scope *state.Scope, r *request) reply {
	var body struct {
		OwnerName string `json:"ownerName"`
	}
	if err := json.Unmarshal(r.body, &body); err != nil {
		return errorReply(err)
	}
	session, err := s.state.CreateSession(now, scope, pathID(r), body.OwnerName)
	return s.sessionReply(r, session, err)
}

func refreshSession(s *Server, now time.Time, scope *state.Scope, r *request) reply {
	session, err := s.state.RefreshSession(now, scope, pathID(r), r.PathValue("session"))
	return s.sessionReply(r, session, err)
}

func deleteSession(s *Server, _ time.Time, scope *state.Scope, r *request) reply {
	if err := s.state.DeleteSession(scope, pathID(r), r.PathValue("session")); err != nil {
		return errorReply(err)
	}
	return emptyReply(http.StatusNoContent)
}
