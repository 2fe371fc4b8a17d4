// Package azurekeyvault reads secrets from an Azure Key Vault as an application that authenticates with a certificate.
//
//	certificate ─▶ signed assertion ─▶ Microsoft Entra: access token ─▶ vault: secret
//
// It keeps nothing between calls: secrets are read about every minute, and a certificate that was replaced on disk is
// used from the next call on. It uses the standard library's HTTP client, because the one call it needs does not
// justify Azure's SDK.
package azurekeyvault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/github/actions"
)

// ErrNotFound reports that the vault has no secret of that name.
var ErrNotFound = errors.New("not found in the vault")

// ErrAddress reports that Vault.URL is not the address of a vault.
var ErrAddress = errors.New(
	"it is not the address of a vault; use https://NAME.vault.azure.net, or that of Azure China or Azure US Government",
)

const (
	// apiVersion of the vault's REST interface; every sovereign cloud has it.
	apiVersion = "7.4"
	// maxAnswer bounds what is read of an answer: a vault's secret has at most 25 kB, a token about 2 kB.
	maxAnswer = 1 << 20
)

// Vault has the place of the secrets and the identity that asks for them. CertificateDirectory, HTTP, Clock and
// Authority are optional.
type Vault struct {
	// URL of the vault, such as https://my-vault.vault.azure.net.
	URL string
	// TenantID and ClientID are the Entra tenant and the application in it.
	TenantID, ClientID string
	// CertificatePath is a file with the application's certificate and RSA key, PEM or PKCS#12 without a password.
	CertificatePath string
	// CertificateDirectory, if set, is the only directory that CertificatePath may be in; a relative path is relative
	// to it.
	CertificateDirectory string
	// HTTP sends the requests; nil means http.DefaultClient.
	HTTP *http.Client
	// Clock dates the assertion; nil means the real clock.
	Clock clock.PassiveClock
	// Authority issues tokens for a vault on any host; "" means the authority of the cloud that the vault's host
	// belongs to.
	Authority string
}

// Error is a refusal by the authority or the vault. It contains their explanation, but no secret.
type Error struct {
	// StatusCode is the HTTP status.
	StatusCode int
	// Code and Message are Azure's own, possibly empty.
	Code, Message string
}

// Error returns Azure's explanation.
func (e *Error) Error() string {
	return strings.TrimRight(fmt.Sprintf("Azure answered %d %s: %s", e.StatusCode, e.Code, e.Message), ": ")
}

// cloud has the authority that issues the tokens for its vaults, and the scope of these tokens.
type cloud struct{ hostSuffix, authority, scope string }

// clouds begins with the public one.
var clouds = []cloud{
	{".vault.azure.net", "https://login.microsoftonline.com", "https://vault.azure.net/.default"},
	{".vault.azure.cn", "https://login.chinacloudapi.cn", "https://vault.azure.cn/.default"},
	{".vault.usgovcloudapi.net", "https://login.microsoftonline.us", "https://vault.usgovcloudapi.net/.default"},
}

// cloudOf returns the cloud that a vault's host belongs to. No token is sent to any other host. Otherwise whoever may
// create an AutoscalingRunnerSet could name a host of their own, and read all vaults with the application's token.
func cloudOf(host string) (cloud, bool) {
	i := slices.IndexFunc(clouds, func(c cloud) bool { return strings.HasSuffix(strings.ToLower(host), c.hostSuffix) })
	if i < 0 {
		return cloud{}, false
	}
	return clouds[i], true
}

// Secret returns the current version of a secret. It fails with ErrNotFound, ErrAddress, *Error,
// *CertificateError, or the network's own error.
func (v Vault) Secret(ctx context.Context, name string) (string, error) {
	address, err := url.Parse(v.URL)
	if err != nil || address.Scheme != "https" || address.Host == "" {
		return "", ErrAddress
	}
	at, known := cloudOf(address.Hostname())
	switch {
	case v.Authority != "":
		at = cloud{authority: v.Authority, scope: clouds[0].scope}
	case !known:
		return "", ErrAddress
	}
	token, err := v.accessToken(ctx, at)
	if err != nil {
		return "", fmt.Errorf("get an access token for vault %s: %w", address.Host, err)
	}
	secretURL := address.JoinPath("secrets", url.PathEscape(name))
	secretURL.RawQuery = url.Values{"api-version": {apiVersion}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, secretURL.String(), nil)
	if err != nil {
		return "", fmt.Errorf("ask vault %s: %w", address.Host, err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	var answer struct {
		Value string `json:"value"`
	}
	err = v.exchange(request, token, &answer)
	if refusal, ok := errors.AsType[*Error](err); ok && refusal.StatusCode == http.StatusNotFound {
		return "", fmt.Errorf("secret %s in vault %s: %w", name, address.Host, ErrNotFound)
	}
	if err != nil {
		return "", fmt.Errorf("read secret %s of vault %s: %w", name, address.Host, err)
	}
	return answer.Value, nil
}

// accessToken trades a signed assertion for a token.
func (v Vault) accessToken(ctx context.Context, at cloud) (string, error) {
	endpoint := strings.TrimRight(at.authority, "/") + "/" + url.PathEscape(v.TenantID) + "/oauth2/v2.0/token"
	assertion, err := v.assertion(ctx, endpoint)
	if err != nil {
		return "", err
	}
	form := url.Values{
		"grant_type":            {"client_credentials"},
		"client_id":             {v.ClientID},
		"scope":                 {at.scope},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
		"client_assertion":      {assertion},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return "", fmt.Errorf("ask the authority: %w", err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	var answer struct {
		AccessToken string `json:"access_token"`
	}
	if err := v.exchange(request, assertion, &answer); err != nil {
		return "", err
	}
	return answer.AccessToken, nil
}

// exchange sends a request, which carries a secret, and decodes the answer. It fails with *Error unless the answer is a
// success.
func (v Vault) exchange(request *http.Request, secret string, into any) error {
	sender := v.HTTP
	if sender == nil {
		sender = http.DefaultClient
	}
	response, err := sender.Do(request) //nolint:gosec // the dialler checks the address, and the list of vaults the host
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return refusalOf(response.StatusCode, body, secret)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return errors.New("the answer is not the JSON that Azure promises") // the decoder's text may quote a secret
	}
	return nil
}

// refusalOf reads the two forms of Azure's explanations: the authority's is flat, the vault's nested. Nothing of the
// request's secret is in it.
func refusalOf(status int, body []byte, secret string) *Error {
	refusal := &Error{StatusCode: status}
	var flat struct {
		Code    string `json:"error"`
		Message string `json:"error_description"`
	}
	var nested struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	switch {
	case json.Unmarshal(body, &flat) == nil:
		refusal.Code, refusal.Message = flat.Code, flat.Message
	case json.Unmarshal(body, &nested) == nil:
		refusal.Code, refusal.Message = nested.Error.Code, nested.Error.Message
	}
	refusal.Code, refusal.Message = actions.Quote(refusal.Code, secret), actions.Quote(refusal.Message, secret)
	return refusal
}
