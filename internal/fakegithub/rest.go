package fakegithub

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

type tokenAnswer struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}

func restReply(status int, value any) reply {
	rep := jsonReply(status, value)
	rep.contentType = restContentType
	return rep
}

// createAccessToken turns an app's JWT into an installation access token.
func (s *Server) createAccessToken(r *request) (rep reply) {
	s.do(func(now time.Time) {
		app := s.tokens.app(now, bearer(r.Header.Get("Authorization"), "Bearer"))
		if app == nil {
			rep = restError(http.StatusUnauthorized, "A JSON web token could not be decoded")
			return
		}
		id, err := strconv.ParseInt(r.PathValue("installation"), 10, 64)
		if err != nil || (len(app.Installations) > 0 && !slices.Contains(app.Installations, id)) {
			rep = restError(http.StatusNotFound, "Not Found")
			return
		}
		rep = s.tokens.limited(now, spender{app.ID + app.ClientID, coreResource}, coreLimit, func() reply {
			token, until := s.tokens.newInstallationToken(now, app)
			return restReply(http.StatusCreated, tokenAnswer{token, until.UTC().Truncate(time.Second)})
		})
	})
	return rep
}

// createRegistrationToken turns a PAT or installation token into a token that
// registers clients for one scope.
func (s *Server) createRegistrationToken(r *request) (rep reply) {
	scope, ok := restScope(r)
	if !ok {
		return restError(http.StatusNotFound, "Not Found")
	}
	s.do(func(now time.Time) {
		credential := bearer(r.Header.Get("Authorization"), "Bearer")
		if !s.tokens.acceptsREST(now, credential) {
			rep = restError(http.StatusUnauthorized, "Bad credentials")
			return
		}
		rep = s.tokens.limited(now, spender{credential, registrationResource}, s.opts.RegistrationLimit, func() reply {
			token, until := s.tokens.newRegistrationToken(now, scope)
			return restReply(http.StatusCreated, tokenAnswer{token, until})
		})
		if expires := s.opts.PATExpires; !expires.IsZero() && !s.tokens.isInstallation(credential) {
			rep.header["GitHub-Authentication-Token-Expiration"] = expires.UTC().Format("2006-01-02 15:04:05 MST")
		}
	})
	return rep
}

// registerClient turns a registration token into the address of the Actions
// service and an admin token.
func (s *Server) registerClient(r *request) (rep reply) {
	var body struct {
		URL         string `json:"url"`
		RunnerEvent string `json:"runner_event"`
	}
	if err := json.Unmarshal(r.body, &body); err != nil {
		return restError(http.StatusBadRequest, "Problems parsing JSON")
	}
	t, err := parseConfigURL(body.URL)
	if err != nil || body.RunnerEvent != "register" {
		return restError(http.StatusUnprocessableEntity, "Validation Failed")
	}
	s.do(func(now time.Time) {
		given, ok := s.tokens.registration[bearer(r.Header.Get("Authorization"), "RemoteAuth")]
		if !ok || !now.Before(given.until) || given.scopeKey != state.ScopeKey(t.kind, t.owner, t.repo) {
			rep = restError(http.StatusUnauthorized, "Bad credentials")
			return
		}
		scope := s.state.Scope(t.kind, t.owner, t.repo)
		token, err := s.tokens.newAdminToken(now, scope.Key)
		if err != nil {
			rep = restError(http.StatusInternalServerError, "The admin token could not be signed")
			return
		}
		rep = restReply(http.StatusOK, map[string]string{
			"url":          s.publicURL(r) + "/services/" + s.tokens.serviceName(scope.ID) + "/",
			"token":        token,
			"token_schema": "OAuthAccessToken",
		})
	})
	return rep
}

// publicURL is the address that answers tell the client to use, without a
// trailing slash. A hosted name keeps its pattern: the client reaches
// "pipelines.…" through the same proxy as "api.…".
func (s *Server) publicURL(r *request) string {
	if s.opts.PublicURL != "" {
		return strings.TrimRight(s.opts.PublicURL, "/")
	}
	host := r.Host
	if rest, hosted := strings.CutPrefix(host, "api."); hosted {
		host = "pipelines." + rest
	}
	if r.TLS != nil {
		return "https://" + host
	}
	return "http://" + host
}

// runnerURL is the address that JIT configs tell the runner to use.
func (s *Server) runnerURL(r *request) string {
	if s.opts.RunnerURL != "" {
		return strings.TrimRight(s.opts.RunnerURL, "/")
	}
	return s.publicURL(r)
}

// admin wraps a handler of the Actions service: the admin token must be good and
// meant for the scope whose service is addressed. The handler runs under the lock.
func admin(handle func(s *Server, now time.Time, scope *state.Scope, r *request) reply) func(*Server, *request) reply {
	return func(s *Server, r *request) (rep reply) {
		s.do(func(now time.Time) {
			key := s.tokens.adminScope(now, bearer(r.Header.Get("Authorization"), "Bearer"))
			scope := s.state.ScopeByKey(key)
			if scope == nil {
				rep = errorReply(&state.Error{Kind: state.Unauthorized, Message: "The admin token is not valid."})
				return
			}
			if r.PathValue("service") != s.tokens.serviceName(scope.ID) {
				rep = restError(http.StatusNotFound, "Not Found")
				return
			}
			rep = handle(s, now, scope, r)
		})
		return rep
	}
}

// pathID reads the number in the path; 0, which is nobody's id, when it is none.
func pathID(r *request) int {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil {
		return 0
	}
	return id
}
