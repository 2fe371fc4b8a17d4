package fakegithub_test

import (
	"crypto/rand"
	"crypto/rsa"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v4"

	"github.com/harrier-ci/harrier/internal/fakegithub"
)

func TestRegistrationGivesServiceURLWithPathAndSlash(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	parsed, err := url.Parse(c.service)
	if err != nil || len(parsed.Path) < 2 || !strings.HasSuffix(parsed.Path, "/") {
		t.Fatalf("service URL %q has no path with a trailing slash (%v)", c.service, err)
	}
	claims := jwt.RegisteredClaims{}
	if _, _, err := jwt.NewParser().ParseUnverified(c.adminToken, &claims); err != nil || claims.ExpiresAt == nil {
		t.Fatalf("admin token: %v, exp %v", err, claims.ExpiresAt)
	}
	if left := time.Until(claims.ExpiresAt.Time); left < 59*time.Minute || left > time.Hour {
		t.Errorf("admin token ends in %s, want an hour", left)
	}
}

func TestRegistrationRefuses(t *testing.T) {
	c := newClient(t, fakegithub.Options{PATs: []string{"pat"}})
	var token struct{ Token string }
	c.want(201, c.do("POST", c.base+"/api/v3/orgs/acme/actions/runners/registration-token", "Bearer pat", nil), &token)
	registration := c.base + "/api/v3/actions/runner-registration"
	body := func(path string) any { return map[string]string{"url": c.base + path, "runner_event": "register"} }

	tests := map[string]struct {
		url, auth string
		body      any
		want      int
	}{
		"unknown PAT":               {c.base + "/api/v3/orgs/acme/actions/runners/registration-token", "Bearer other", nil, 401},
		"no credential":             {c.base + "/api/v3/orgs/acme/actions/runners/registration-token", "", nil, 401},
		"repository as org":         {c.base + "/api/v3/orgs/acme/app/actions/runners/registration-token", "Bearer pat", nil, 404},
		"not the REST base":         {c.base + "/orgs/acme/actions/runners/registration-token", "Bearer pat", nil, 404},
		"unknown registration":      {registration, "RemoteAuth nonsense", body("/acme"), 401},
		"bearer, not RemoteAuth":    {registration, "Bearer " + token.Token, body("/acme"), 401},
		"another org's token":       {registration, "RemoteAuth " + token.Token, body("/other"), 401},
		"spent body":                {registration, "RemoteAuth " + token.Token, nil, 400},
		"config URL of three parts": {registration, "RemoteAuth " + token.Token, body("/a/b/c"), 422},
		"right":                     {registration, "RemoteAuth " + token.Token, body("/ACME"), 200},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := c.do("POST", tt.url, tt.auth, tt.body); got.status != tt.want {
				t.Errorf("got %d %s, want %d", got.status, got.body, tt.want)
			}
		})
	}
}

func TestScopes(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	set := c.createSet("linux")
	token := c.adminToken
	c.register("acme/app")
	if again := c.createSet("linux"); again.ID == set.ID {
		t.Errorf("organization and repository share scale set %d", set.ID)
	}
	c.wantException(404, "RunnerScaleSetNotFoundException", c.call("GET", setsPath+"/1", nil))
	// The token of one scope does not open the service of another.
	if got := c.do("GET", c.service+setsPath+"/1", "Bearer "+token, nil); got.status != 404 {
		t.Errorf("foreign service answered %d", got.status)
	}
}

func TestAdminTokens(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	c.server.ExpireAdminTokens()
	c.want(401, c.call("GET", setsPath, nil), nil)
	c.register("acme")
	c.want(200, c.call("GET", setsPath, nil), nil)
	c.server.MoveService()
	c.want(404, c.call("GET", setsPath, nil), nil)
	old := c.service
	c.register("acme")
	if c.service == old {
		t.Error("the service has not moved")
	}
	c.want(200, c.call("GET", setsPath, nil), nil)
	c.server.RevokePAT("pat", true)
	c.want(401, c.do("POST", c.base+"/api/v3/orgs/acme/actions/runners/registration-token", "Bearer pat", nil), nil)
}

func TestDoubleSlashesAreAccepted(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	c.want(200, c.do("GET", c.service+"/"+setsPath+"?api-version=6.0-preview", "Bearer "+c.adminToken, nil), nil)
}

func TestApp(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, fakegithub.Options{Apps: []fakegithub.App{{ID: "12", ClientID: "Iv1.x", Installations: []int64{7},
		PublicKey: &key.PublicKey}}})
	now := time.Now()
	tests := map[string]struct {
		issuer, installation string
		iat, exp             time.Duration
		key                  any
		method               jwt.SigningMethod
		want                 int
	}{
		"app id":               {"12", "7", -time.Minute, 8 * time.Minute, key, jwt.SigningMethodRS256, 201},
		"client id":            {"Iv1.x", "7", -time.Minute, 8 * time.Minute, key, jwt.SigningMethodRS256, 201},
		"unknown issuer":       {"13", "7", -time.Minute, 8 * time.Minute, key, jwt.SigningMethodRS256, 401},
		"unknown installation": {"12", "8", -time.Minute, 8 * time.Minute, key, jwt.SigningMethodRS256, 404},
		"foreign key":          {"12", "7", -time.Minute, 8 * time.Minute, other, jwt.SigningMethodRS256, 401},
		"expired":              {"12", "7", -9 * time.Minute, -time.Second, key, jwt.SigningMethodRS256, 401},
		"issued in the future": {"12", "7", time.Minute, 8 * time.Minute, key, jwt.SigningMethodRS256, 401},
		"lives too long":       {"12", "7", -time.Minute, 11 * time.Minute, key, jwt.SigningMethodRS256, 401},
		"other algorithm":      {"12", "7", -time.Minute, 8 * time.Minute, key, jwt.SigningMethodRS512, 401},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			signed, err := jwt.NewWithClaims(tt.method, jwt.RegisteredClaims{
				Issuer: tt.issuer, IssuedAt: jwt.NewNumericDate(now.Add(tt.iat)), ExpiresAt: jwt.NewNumericDate(now.Add(tt.exp)),
			}).SignedString(tt.key)
			if err != nil {
				t.Fatal(err)
			}
			got := c.do("POST", c.base+"/api/v3/app/installations/"+tt.installation+"/access_tokens", "Bearer "+signed, nil)
			if got.status != tt.want {
				t.Fatalf("got %d %s, want %d", got.status, got.body, tt.want)
			}
			if got.status == 201 {
				var token struct{ Token string }
				c.want(201, got, &token)
				if !strings.HasPrefix(token.Token, "ghs_12_eyJ") || strings.Count(token.Token, ".") != 2 ||
					len(token.Token) < 500 {
					t.Errorf("token %s, want GitHub's form of April 2026", token.Token)
				}
				c.want(201, c.do("POST", c.base+"/api/v3/repos/acme/app/actions/runners/registration-token", "Bearer "+
					token.Token, nil), nil)
			}
		})
	}
}

// A hosted name is reached with the fake as HTTP proxy: requests come in
// absolute form, for the API host and then for the service's own.
func TestHostedNameThroughProxy(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	proxy, err := url.Parse(c.base)
	if err != nil {
		t.Fatal(err)
	}
	c.http = &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}

	var token struct{ Token string }
	c.want(201, c.do("POST", "http://api.github.localhost/orgs/acme/actions/runners/registration-token", "Bearer pat",
		nil), &token)
	var connection struct{ URL, Token string }
	c.want(200, c.do("POST", "http://api.github.localhost/actions/runner-registration", "RemoteAuth "+token.Token,
		map[string]string{"url": "http://github.localhost/acme", "runner_event": "register"}), &connection)
	if !strings.HasPrefix(connection.URL, "http://pipelines.github.localhost/") {
		t.Errorf("service URL %s is not on the hosted name", connection.URL)
	}
	c.service, c.adminToken = connection.URL, connection.Token
	set := c.createSet("linux")
	c.want(202, c.openSession(set.ID).poll(0, 0), nil)
}
