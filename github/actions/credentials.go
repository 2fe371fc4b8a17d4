package actions

import (
	"crypto/rsa"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v4"
)

// Credentials authenticate to GitHub's REST API. Exactly one of the fields must be set. Printing or logging them shows no secret.
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
	// PrivateKey is the app's RSA key in PEM form, PKCS#1 or PKCS#8. What became of its line ends on its way doesn't matter, and the
	// PEM may be base64-encoded.
	PrivateKey string
}

// Names of the credentials in the chain, for [Error.Credential].
const (
	// CredentialPersonalAccessToken is [Credentials.Token].
	CredentialPersonalAccessToken = "personal access token"
	// CredentialApp is the JWT that the key of [Credentials.App] signs. It is exchanged for an installation access token.
	CredentialApp = "GitHub App key"
	// CredentialInstallationToken is what an app uses in place of a personal access token. GitHub lets it live for an hour.
	CredentialInstallationToken = "installation access token"
	// CredentialRegistrationToken is exchanged for the address of the Actions service and an admin token.
	CredentialRegistrationToken = "registration token"
	// CredentialAdminToken authorizes calls to the Actions service. It is a JWT, and its claim exp says how long it lives.
	CredentialAdminToken = "admin token"
	// CredentialQueueToken authorizes a session's polls, deletions and acquisitions. Observed to live for 50 to 60 min.
	CredentialQueueToken = "message queue token"
)

var credentialAdvice = map[string]string{
	CredentialPersonalAccessToken: "whoever wrote the Secret must check that the token has not expired, that it may use single sign-on where that is required, and its scopes: " +
		"repo for a repository, admin:org for an organization, manage_runners:enterprise for an enterprise; also check the config URL",
	CredentialApp: "whoever wrote the Secret must check the app's id, the installation id, and that the private key belongs to the app; whoever runs the cluster, this machine's clock",
	CredentialInstallationToken: "an owner of the account must check that the app is installed there and may write self-hosted runners (organization) " +
		"or administration (repository); also check the config URL",
	CredentialRegistrationToken: "GitHub issued it a moment ago; if this persists, whoever wrote the AutoscalingRunnerSet must check that the config URL names what the token was made for " +
		"and that self-hosted runners are allowed there",
	CredentialAdminToken: "whoever wrote the Secret must check that the personal access token or GitHub App was not revoked, and that it has the rights for self-hosted runners there",
	CredentialQueueToken: "the session may be gone",
}

// Validate checks that the credentials are complete and well-formed, without asking GitHub. It fails with ErrInvalidCredentials.
func (c Credentials) Validate() error {
	_, err := c.source()
	return err
}

// source checks the credentials and prepares them for use.
func (c Credentials) source() (credentialSource, error) {
	token := strings.TrimSpace(c.Token) // files and Secrets often end in a newline
	switch {
	case token != "" && c.App != nil:
		return credentialSource{}, fmt.Errorf("%w: both a personal access token and a GitHub App are given; give one", ErrInvalidCredentials)
	case c.App != nil:
		return c.App.source()
	case token == "":
		return credentialSource{}, fmt.Errorf("%w: give a personal access token or a GitHub App", ErrInvalidCredentials)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return credentialSource{}, fmt.Errorf("%w: the personal access token contains white space or other characters that no token has; copy it again", ErrInvalidCredentials)
	}
	return credentialSource{token: token}, nil
}

func (a *AppCredentials) source() (credentialSource, error) {
	id := strings.TrimSpace(a.ID)
	switch {
	case id == "":
		return credentialSource{}, fmt.Errorf("%w: the GitHub App's id or client id is missing", ErrInvalidCredentials)
	case a.InstallationID <= 0:
		return credentialSource{}, fmt.Errorf("%w: the GitHub App's installation id is missing", ErrInvalidCredentials)
	}
	key, err := privateKeyOf(a.PrivateKey)
	if err != nil {
		return credentialSource{}, fmt.Errorf("%w: the GitHub App's private key: %w; give all of a .pem file that the app's settings on GitHub generate",
			ErrInvalidCredentials, err)
	}
	return credentialSource{appID: id, installationID: a.InstallationID, appKey: key}, nil
}

// credentialSource is the first link of the chain of credentials: either token, or the three other fields.
type credentialSource struct {
	token          string
	appID          string
	installationID int64
	appKey         *rsa.PrivateKey
}

func (s credentialSource) isApp() bool { return s.appKey != nil }

// appToken returns the JWT that authenticates as the app. It is backdated by 60 s because GitHub refuses tokens from
// the future, and expires 9 min after that, because GitHub allows at most 10.
func (s credentialSource) appToken(now time.Time) (string, error) {
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
