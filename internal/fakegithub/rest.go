package fakegithub

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v4"
	"github.com/google/uuid"

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

// InventScaleSet has the scale set of an id exist under a name at a config URL: whoever owns a server has it answer
// what they like.
func (s *Server) InventScaleSet(configURL string, id int, name string) error {
	t, err := parseConfigURL(configURL)
	if err != nil {
		return err
	}
	s.do(func(now time.Time) {
		err = s.state.InventScaleSet(now, s.state.Scope(t.kind, t.owner, t.repo), id, name)
	})
	return err
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

const (
	// Lifetimes as of the real service.
	installationTokenLifetime = time.Hour
	registrationTokenLifetime = time.Hour
	// maxJWTLifetime is the longest life GitHub accepts in an app's JWT.
	maxJWTLifetime = 10 * time.Minute
)

// tokens are the credentials given out and accepted. The Server's lock guards it.
type tokens struct {
	pats          []string // nil: any
	revoked       map[string]bool
	apps          []App
	installation  map[string]installationToken
	permissions   map[string]string // of the installations: nil for all
	registration  map[string]registrationToken
	key           []byte // signs admin tokens
	epoch         int    // admin tokens of older epochs are worthless
	generation    int    // of the service URL
	adminLifetime time.Duration
	spent         map[spender]allowance
	created       map[string][]time.Time // content, within the last hour
}

// installationToken has the permissions that the App had when it was made.
type installationToken struct {
	until       time.Time
	app         string
	permissions map[string]string
}

type registrationToken struct {
	scopeKey string
	until    time.Time
}

func newTokens(opts *Options) tokens {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return tokens{
		pats: opts.PATs, apps: opts.Apps, key: key, adminLifetime: opts.AdminTokenLifetime,
		revoked:      map[string]bool{},
		installation: map[string]installationToken{},
		permissions:  opts.Permissions,
		registration: map[string]registrationToken{},
		spent:        map[spender]allowance{},
		created:      map[string][]time.Time{},
	}
}

// bearer takes the credential out of an Authorization header of the given scheme.
func bearer(header, scheme string) string {
	got, credential, ok := strings.Cut(header, " ")
	if !ok || !strings.EqualFold(got, scheme) {
		return ""
	}
	return strings.TrimSpace(credential)
}

// acceptsREST tells whether a credential may ask for registration tokens.
func (t *tokens) acceptsREST(now time.Time, credential string) bool {
	if credential == "" || t.revoked[credential] {
		return false
	}
	if token, ok := t.installation[credential]; ok {
		return now.Before(token.until)
	}
	return t.pats == nil || slices.Contains(t.pats, credential)
}

func (t *tokens) isInstallation(credential string) bool {
	_, ok := t.installation[credential]
	return ok
}

// app returns the app that has signed the JWT, or nil when it is not acceptable:
// RS256 by the issuer's key, issued in the past, ending soon but not yet.
func (t *tokens) app(now time.Time, credential string) *App {
	var signer *App
	claims := jwt.RegisteredClaims{}
	// Times are checked below against the injected clock.
	parser := jwt.NewParser(jwt.WithValidMethods([]string{"RS256"}), jwt.WithoutClaimsValidation())
	_, err := parser.ParseWithClaims(credential, &claims, func(*jwt.Token) (any, error) {
		for i, app := range t.apps {
			if claims.Issuer != "" && (claims.Issuer == app.ID || claims.Issuer == app.ClientID) {
				signer = &t.apps[i]
				return app.PublicKey, nil
			}
		}
		return nil, jwt.ErrTokenInvalidIssuer
	})
	if err != nil || claims.IssuedAt == nil || claims.ExpiresAt == nil {
		return nil
	}
	iat, exp := claims.IssuedAt.Time, claims.ExpiresAt.Time
	if iat.After(now) || !now.Before(exp) || exp.After(now.Add(maxJWTLifetime)) {
		return nil
	}
	return signer
}

func (t *tokens) newInstallationToken(now time.Time, app *App) (string, time.Time) {
	maps.DeleteFunc(t.installation, func(_ string, token installationToken) bool { return !now.Before(token.until) })
	until := now.Add(installationTokenLifetime)
	token := installationTokenOf(cmp.Or(app.ID, app.ClientID), now, until)
	t.installation[token] = installationToken{until: until, app: app.ID + app.ClientID, permissions: t.permissions}
	return token, until
}

// installationTokenOf returns a token of the form that GitHub's have since April 2026: ghs_<app>_<JWT>, about 520
// characters. Nobody verifies its signature: a token is good if it is known.
func installationTokenOf(app string, now, until time.Time) string {
	signature := make([]byte, 256) // as long as an RSA key of 2,048 bits makes it
	_, _ = rand.Read(signature)    // never fails
	encode := base64.RawURLEncoding.EncodeToString
	claims := fmt.Sprintf(`{"iss":"fakegithub","jti":%q,"iat":%d,"exp":%d}`, uuid.NewString(), now.Unix(), until.Unix())
	return "ghs_" + app + "_" + encode([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + encode([]byte(claims)) + "." +
		encode(signature)
}

func (t *tokens) newRegistrationToken(now time.Time, scopeKey string) (string, time.Time) {
	for token, known := range t.registration {
		if !now.Before(known.until) {
			delete(t.registration, token)
		}
	}
	token, until := "A"+strings.ToUpper(uuid.NewString()), now.Add(registrationTokenLifetime)
	t.registration[token] = registrationToken{scopeKey: scopeKey, until: until}
	return token, until
}

// adminClaims are the claims of an admin token. Clients read exp only.
type adminClaims struct {
	jwt.RegisteredClaims
	Scope string `json:"scope"`
	Epoch int    `json:"epoch"`
}

func (t *tokens) newAdminToken(now time.Time, scopeKey string) (string, error) {
	claims := adminClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			ID: uuid.NewString(), Issuer: "fakegithub",
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(t.adminLifetime)),
		},
		Scope: scopeKey, Epoch: t.epoch,
	}
	return jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(t.key)
}

// adminScope returns the scope key of a good admin token, else "".
func (t *tokens) adminScope(now time.Time, credential string) string {
	claims := adminClaims{}
	parser := jwt.NewParser(jwt.WithValidMethods([]string{"HS256"}), jwt.WithoutClaimsValidation())
	_, err := parser.ParseWithClaims(credential, &claims, func(*jwt.Token) (any, error) { return t.key, nil })
	if err != nil || claims.Epoch != t.epoch || !now.Before(claims.ExpiresAt.Time) {
		return ""
	}
	return claims.Scope
}

// serviceName is the path segment of a scope's Actions service. It changes when
// the service moves.
func (t *tokens) serviceName(scopeID int) string {
	return strconv.Itoa(scopeID) + "-" + strconv.Itoa(t.generation)
}
