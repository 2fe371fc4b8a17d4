// Package credential has what a client of GitHub's API authenticates with: a personal access token, or the key of a
// GitHub App in whatever form it comes. It checks both without asking GitHub, and prints neither.
package credential

import (
	"crypto/rsa"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v4"
)

// Credentials authenticate to GitHub's REST API. Exactly one of the fields must be set. Printing or logging them shows
// no secret.
type Credentials struct {
	// Token is a personal access token, classic or fine-grained.
	Token string
	// App is a GitHub App that is installed where the runners register.
	App *AppCredentials
}

// AppCredentials are the credentials of a GitHub App.
type AppCredentials struct {
	// ID is the app's numeric ID or its client ID.
	ID string
	// InstallationID is the ID of the app's installation in the organization or repository.
	InstallationID int64
	// PrivateKey is the app's RSA key in PEM form, PKCS#1 or PKCS#8. What became of its line ends on its way doesn't
	// matter, and the PEM may be base64-encoded.
	PrivateKey string
}

// Kinds of credentials: the links of the chain that begins with a personal access token or a GitHub App.
const (
	// PersonalAccessToken is [Credentials.Token].
	PersonalAccessToken = "personal access token"
	// App is the JWT that the key of [Credentials.App] signs. It is exchanged for an installation access token.
	App = "GitHub App key"
	// An InstallationToken takes the place of a personal access token for an App. GitHub lets it live for an hour.
	InstallationToken = "installation access token"
	// RegistrationToken is exchanged for the address of the Actions service and an admin token.
	RegistrationToken = "registration token"
	// AdminToken authorizes calls to the Actions service. It is a JWT, and its claim exp is the time of its end.
	AdminToken = "admin token"
	// QueueToken authorizes a session's polls, deletions and acquisitions. Observed to live for 50 to 60 min.
	QueueToken = "message queue token"
)

// ErrInvalid means that the credentials can't work, which is known without asking GitHub.
var ErrInvalid = errors.New("invalid credentials")

// Validate checks that the credentials are complete and well-formed, without asking GitHub. It fails with ErrInvalid.
func (c Credentials) Validate() error {
	_, err := NewSource(c)
	return err
}

// Format prints the kind of credential, without the secret, whatever verb or logger prints it.
func (c Credentials) Format(state fmt.State, _ rune) {
	if c.App != nil {
		c.App.Format(state, 'v')
		return
	}
	fmt.Fprint(state, PersonalAccessToken)
}

// MarshalLog returns what Format prints, for logr.
func (c Credentials) MarshalLog() any { return fmt.Sprint(c) }

// Format prints the IDs of the app and its installation, without the key.
func (a AppCredentials) Format(state fmt.State, _ rune) {
	fmt.Fprint(state, "GitHub App "+a.ID+", installation "+strconv.FormatInt(a.InstallationID, 10))
}

// MarshalLog returns what Format prints, for logr.
func (a AppCredentials) MarshalLog() any { return fmt.Sprint(a) }

// maxTokenBytes bounds a personal access token. GitHub's have at most 255 bytes.
const maxTokenBytes = 16 << 10

// Source is the first link of the chain of credentials: either Token, or the three other fields.
type Source struct {
	// Token is the personal access token.
	Token string
	// InstallationID is the ID of the app's installation.
	InstallationID int64

	appID  string
	appKey *rsa.PrivateKey
}

// NewSource checks credentials and prepares them for use. It fails with ErrInvalid.
func NewSource(c Credentials) (*Source, error) {
	token := strings.TrimSpace(c.Token) // files and Secrets often end in a newline
	switch {
	case token != "" && c.App != nil:
		return nil, fmt.Errorf("%w: both a personal access token and a GitHub App are given; give one", ErrInvalid)
	case c.App != nil:
		return c.App.source()
	case token == "":
		return nil, fmt.Errorf("%w: give a personal access token or a GitHub App", ErrInvalid)
	case len(token) > maxTokenBytes:
		return nil, fmt.Errorf("%w: the personal access token has %d bytes, and none has more than %d; copy it again",
			ErrInvalid, len(token), maxTokenBytes)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, fmt.Errorf(
			"%w: the personal access token contains white space or other characters that no token has; copy it again",
			ErrInvalid,
		)
	}
	return &Source{Token: token}, nil
}

func (a *AppCredentials) source() (*Source, error) {
	id := strings.TrimSpace(a.ID)
	switch {
	case id == "":
		return nil, fmt.Errorf("%w: the GitHub App's id or client id is missing", ErrInvalid)
	case a.InstallationID <= 0:
		return nil, fmt.Errorf("%w: the GitHub App's installation id is missing", ErrInvalid)
	}
	key, err := privateKeyOf(a.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("%w: the GitHub App's private key: %w; give all of a .pem file that the app's "+
			"settings on GitHub generate",
			ErrInvalid, err)
	}
	return &Source{appID: id, InstallationID: a.InstallationID, appKey: key}, nil
}

// IsApp reports whether the credentials are those of a GitHub App.
func (s *Source) IsApp() bool { return s.appKey != nil }

// Account names the account whose limits at GitHub the credentials use: the App, whatever its installation, or whoever
// has made the token.
func (s *Source) Account() string {
	if s.IsApp() {
		return "App " + s.appID
	}
	return "token"
}

// AppToken returns the JWT that authenticates as the app. It is backdated by 60 s because GitHub refuses tokens from
// the future, and expires 9 min after that, because GitHub allows at most 10.
func (s *Source) AppToken(now time.Time) (string, error) {
	issued := now.Add(-time.Minute)
	claims := jwt.RegisteredClaims{
		Issuer:    s.appID,
		IssuedAt:  jwt.NewNumericDate(issued),
		ExpiresAt: jwt.NewNumericDate(issued.Add(9 * time.Minute)),
	}
	signed, err := jwt.NewWithClaims(jwt.SigningMethodRS256, claims).SignedString(s.appKey)
	if err != nil {
		return "", fmt.Errorf("sign the GitHub App's token: %w", err)
	}
	return signed, nil
}
