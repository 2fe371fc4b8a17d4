package actions

import (
	"strings"
	"testing"
	"unicode"
)

// GitHub's documented refusals, each with its class and with what somebody has to do.
func TestRefusals(t *testing.T) {
	const organization, repository, enterprise = "/acme", "/acme/web", "/enterprises/big"
	calls := map[string]string{organization: "orgs/acme", repository: "repos/acme/web", enterprise: "enterprises/big"}
	type headers = map[string]string
	for name, test := range map[string]struct {
		scope   string
		status  int
		message string
		headers headers
		class   RefusalClass
		advice  string
	}{
		"bad credentials": {organization, 401, "Bad credentials", nil, RefusedCredential, "check that the token has not expired"},
		"unknown words":   {organization, 403, "The stars are wrong", nil, RefusedCredential, "The stars are wrong"},
		"hidden":          {organization, 404, "Not Found", nil, RefusedHidden, "whoever wrote the AutoscalingRunnerSet must check the config URL"},
		"expired":         {organization, 401, "Your token has expired", nil, RefusedExpired, "the token's owner must make a new one"},
		"revoked":         {organization, 401, "This personal access token was revoked by its owner", nil, RefusedExpired, "whoever wrote the Secret put it there"},
		"many logins":     {organization, 403, "Maximum number of login attempts exceeded. Please try again later.", nil, RefusedLogins, "for some minutes"},
		"allow list of an enterprise": {enterprise, 403, "The enterprise `big` has an IP allow list enabled, and 192.0.2.7 is not permitted to access this resource.", nil,
			RefusedAddress, "an owner of the organization or enterprise must add the address"},
		"IP allow list": {organization, 403, "Although you appear to have the correct authorization credentials, the `acme` organization has an IP allow list enabled, " +
			"and your IP address is not permitted to access this resource.", nil, RefusedAddress, "IP allow list, or let the App"},
		"account": {organization, 403, "Sorry. Your account was suspended", nil, RefusedSuspension, "use one of another account"},
		"SSO": {organization, 403, "Resource protected by organization SAML enforcement. You must grant your Personal Access token access to this organization.",
			headers{"X-GitHub-SSO": "required; url=https://SERVER/orgs/acme/sso?authorization_request=A1"}, RefusedSingleSignOn, "single sign-on: https://SERVER/orgs/acme/sso?authorization_request=A1"},
		"SSO, no text": {organization, 403, "", headers{"X-GitHub-SSO": "required; url=https://SERVER/sso"}, RefusedSingleSignOn, "https://SERVER/sso"},
		"SSO elsewhere": {organization, 403, "SAML enforcement", headers{"X-GitHub-SSO": "required; url=https://evil.example/sso"},
			RefusedSingleSignOn, "Configure SSO"},
		"SSO, partial": {organization, 403, "No", headers{"X-GitHub-SSO": "partial-results; organizations=1"}, RefusedCredential, "No"},
		"permission": {organization, 403, "Resource not accessible by personal access token",
			headers{"X-Accepted-GitHub-Permissions": "organization_self_hosted_runners=write"}, RefusedPermission, "the permission organization self hosted runners=write"},
		"permission, hostile": {organization, 403, "Resource not accessible by personal access token",
			headers{"X-Accepted-GitHub-Permissions": "<script>"}, RefusedPermission, "Self-hosted runners: read and write"},
		"permission, repository": {repository, 403, "Resource not accessible by integration", nil, RefusedPermission, "Administration: read and write"},
		"no administrator":       {repository, 403, "Must have admin rights to Repository.", nil, RefusedPermission, "its owner must administer the repository"},
		"enterprise":             {enterprise, 403, "Resource not accessible by personal access token", nil, RefusedPermission, "manage_runners:enterprise"},
		"scope": {organization, 404, "Not Found", headers{"X-OAuth-Scopes": "repo, workflow", "X-Accepted-OAuth-Scopes": "admin:org"},
			RefusedPermission, "the scope admin:org; it has repo, workflow"},
		"no scope":             {organization, 404, "Not Found", headers{"X-OAuth-Scopes": "", "X-Accepted-OAuth-Scopes": "admin:org"}, RefusedPermission, "it has none"},
		"scope is there":       {organization, 404, "Not Found", headers{"X-OAuth-Scopes": "admin:org", "X-Accepted-OAuth-Scopes": "admin:org"}, RefusedHidden, "their account has access there"},
		"scope, in words":      {organization, 403, "Must have admin rights to the organization", headers{"X-OAuth-Scopes": "repo", "X-Accepted-OAuth-Scopes": "admin:org"}, RefusedPermission, "the scope admin:org; it has repo"},
		"classic tokens":       {organization, 403, "`acme` forbids access via a personal access token (classic). Please use a GitHub App.", nil, RefusedTokenPolicy, "use a GitHub App"},
		"lifetime":             {organization, 403, "The 'acme' organization forbids access via a fine-grained personal access tokens if the token's lifetime is greater than 366 days.", nil, RefusedTokenPolicy, "expires sooner"},
		"runners are off":      {repository, 403, "Repository level self-hosted runners are disabled on this repository.", nil, RefusedRunners, "Settings → Actions → General"},
		"Actions are off":      {organization, 403, "GitHub Actions is disabled for this organization by an enterprise policy", nil, RefusedRunners, "an owner must allow"},
		"not approved":         {organization, 403, "This fine-grained token is pending approval by the organization", nil, RefusedTokenPolicy, "an owner of the organization must approve the token"},
		"perhaps not approved": {organization, 403, "Resource not accessible by personal access token", nil, RefusedPermission, "one of its owners must approve it"},
		"OAuth": {organization, 403, "Although you appear to have the correct authorization credentials, the `acme` organization has enabled OAuth App access restrictions", nil,
			RefusedTokenPolicy, "must use a GitHub App"},
		"managed user":   {organization, 403, "As an Enterprise Managed User, you cannot access this content", nil, RefusedTokenPolicy, "of an account that may"},
		"two factors":    {organization, 403, "Members of acme must enable two-factor authentication", nil, RefusedTokenPolicy, "the token's owner must turn on two-factor"},
		"unpaid":         {organization, 403, "Your account is locked due to a billing issue", nil, RefusedAccount, "billing manager"},
		"archived owner": {organization, 403, "The organization acme has been archived", nil, RefusedAccount, "an owner or billing manager"},
		"disabled":       {repository, 403, "Repository disabled. Please ask the owner to check their account.", nil, RefusedRepository, "an administrator of it"},
		"archived":       {repository, 403, "Repository was archived so is read-only.", nil, RefusedRepository, "archived"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			host := strings.TrimPrefix(s.URL, "http://")
			answer := reply{status: test.status, body: `{"message":"` + test.message + `","documentation_url":"https://docs.example"}`, header: headers{}}
			for key, value := range test.headers {
				answer.header[key] = strings.ReplaceAll(value, "SERVER", host)
			}
			s.on("POST /api/v3/"+calls[test.scope]+"/actions/runners/registration-token", answer)
			client, err := NewClient(s.URL+test.scope, Credentials{Token: testToken}, Options{Clock: s.clock})
			if err != nil {
				t.Fatal(err)
			}
			checkRefusal(t, client, test.class, strings.ReplaceAll(test.advice, "SERVER", host))
		})
	}
}

// What GitHub says to an App about its key, and to its installation.
func TestRefusalsOfApps(t *testing.T) {
	for name, test := range map[string]struct {
		scope             string
		token             reply
		registrationToken reply
		class             RefusalClass
		advice            string
	}{
		"suspended":    {"/acme", reply{status: 403, body: `{"message":"This installation has been suspended"}`}, reply{}, RefusedSuspension, "must lift the suspension"},
		"clock":        {"/acme", reply{status: 401, body: `{"message":"'Expiration time' claim ('exp') is too far in the future"}`}, reply{}, RefusedClock, "set it right"},
		"other key":    {"/acme", reply{status: 401, body: `{"message":"A JSON web token could not be decoded"}`}, reply{}, RefusedApp, "private key is this App's"},
		"deleted":      {"/acme", reply{status: 404, body: `{"message":"Integration not found"}`}, reply{}, RefusedApp, "that the App is still installed there"},
		"not selected": {"/acme", reply{status: 201, body: `{"token":"ghs_1"}`}, reply{status: 404, body: `{"message":"Not Found"}`}, RefusedHidden, "among the App's selected repositories"},
		"installation": {"/acme", reply{status: 404, body: `{"message":"Not Found"}`}, reply{}, RefusedApp, "the installation id"},
		"permission": {"/acme", reply{status: 201, body: `{"token":"ghs_1"}`}, reply{status: 403, body: `{"message":"Resource not accessible by integration"}`},
			RefusedPermission, "the owner of the App must give it, and an owner of the organization accept"},
		"enterprise, hidden": {"/enterprises/big", reply{status: 201, body: `{"token":"ghs_1"}`}, reply{status: 404, body: `{"message":"Not Found"}`},
			RefusedHidden, "can't register runners of an enterprise"},
		"enterprise": {"/enterprises/big", reply{status: 201, body: `{"token":"ghs_1"}`}, reply{status: 403, body: `{"message":"Resource not accessible by integration"}`},
			RefusedPermission, "can't register runners of an enterprise"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.on("POST /api/v3/app/installations/42/access_tokens", test.token)
			s.on("POST /api/v3/orgs/acme/actions/runners/registration-token", test.registrationToken)
			s.on("POST /api/v3/enterprises/big/actions/runners/registration-token", test.registrationToken)
			client, err := NewClient(s.URL+test.scope, Credentials{App: &AppCredentials{ID: "1", InstallationID: 42, PrivateKey: pkcs1()}}, Options{Clock: s.clock})
			if err != nil {
				t.Fatal(err)
			}
			checkRefusal(t, client, test.class, test.advice)
		})
	}
}

func checkRefusal(t *testing.T, client *Client, class RefusalClass, advice string) {
	t.Helper()
	_, err := client.GetRunner(t.Context(), 1)
	refusal, refused := RefusalOf(err)
	if !refused || refusal.Class != class || !strings.Contains(err.Error(), advice) {
		t.Errorf("class %s of %v; want %s and %q", refusal.Class, err, class, advice)
	}
}

// What GitHub says is quoted as one line of plain text, without what looks like a token, and not at any length.
func TestRefusalsQuoteWithCare(t *testing.T) {
	s := newServer(t)
	s.on("POST /api/v3/orgs/acme/actions/runners/registration-token", reply{status: 403, body: `{"message":"No \u001b[31m\nto\u202eken ` +
		`ghp_abcdefghijklmnopqrstuvwxyz0123456789 github_pat_11ABCDEFG0123456789_abcdef ` + testToken + ` ` + strings.Repeat("x", 5000) + `"}`})
	client, err := NewClient(s.URL+"/acme", Credentials{Token: testToken}, Options{Clock: s.clock})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.GetRunner(t.Context(), 1)
	if err == nil {
		t.Fatal("no error")
	}
	text := err.Error()
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.Contains(text, "ghp_") || strings.Contains(text, "github_pat_") ||
		strings.Contains(text, testToken) || len(text) > 1024 || !strings.Contains(text, "No  [31m to ken [redacted]") {
		t.Errorf("%d bytes: %q", len(text), text)
	}
}
