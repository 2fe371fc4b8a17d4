package fakegithub

import (
	"crypto/rand"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v4"
	"github.com/google/uuid"
)

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
	token, until := "ghs_"+uuid.NewString(), now.Add(installationTokenLifetime)
	t.installation[token] = installationToken{until: until, app: app.ID + app.ClientID, permissions: t.permissions}
	return token, until
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
