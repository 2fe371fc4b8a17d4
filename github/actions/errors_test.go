package actions_test

import (
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/harrier-ci/harrier/github/actions"
)

// A 409 may have another cause than the name, so the error carries what GitHub said.
func TestATakenNameKeepsWhatGitHubSaid(t *testing.T) {
	s := newServer(t)
	answer := reply{
		status: 409,
		body:   exception("QuotaException", "too many runners"),
		header: map[string]string{"ActivityId": "activity"},
	}
	s.on(jitCall, answer)
	s.on("POST "+scaleSetsURL, answer)
	_, registering := s.client().GenerateJITConfig(t.Context(), 7, actions.JITConfigRequest{Name: "r-1"})
	_, creating := s.client().CreateRunnerScaleSet(t.Context(), &actions.RunnerScaleSet{Name: "big"})
	for want, err := range map[error]error{actions.ErrRunnerExists: registering, actions.ErrScaleSetExists: creating} {
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
		for _, said := range []string{"too many runners", "QuotaException", "[ActivityId activity]"} {
			if !strings.Contains(err.Error(), said) {
				t.Errorf("%v lacks %q", err, said)
			}
		}
	}
}

// A gateway on the way may write anything of any length, even in a header.
func TestNoErrorQuotesALongAnswer(t *testing.T) {
	const updateCall = "PATCH " + scaleSetsURL + "/7"
	long := strings.Repeat("7", 100_000)
	for name, answer := range map[string]reply{
		"body": {status: 400, body: long},
		"type": {status: 400, body: `{"message":"x","typeName":"` + long + `"}`},
		"ids": {
			status: 400,
			header: map[string]string{"ActivityId": long, "X-GitHub-Request-Id": long},
		},
		"redirect that only a GET can follow": {
			status: 302,
			header: map[string]string{"Location": "https://example.com/" + long},
		},
		"redirect to no address": {
			status: 307,
			header: map[string]string{"Location": "https://example.com/%zz" + long},
		},
		"success": {body: `{"id":` + long + `}`},
	} {
		s := newServer(t)
		s.on(updateCall, answer)
		_, err := s.client().UpdateRunnerScaleSet(t.Context(), 7, &actions.RunnerScaleSet{Name: "big"})
		if err == nil || len(err.Error()) > 10_000 {
			t.Errorf("%s: got %.200v, want a short error", name, err)
		}
	}
}

// The address of a queue comes from GitHub as well.
func TestNoErrorQuotesALongAddress(t *testing.T) {
	s := newServer(t)
	path := "/queue/" + strings.Repeat("x", 100_000)
	s.on(createSessionCall, reply{body: s.sessionBody("q", map[string]any{"messageQueueUrl": s.URL + path})})
	session, err := s.client().CreateSession(t.Context(), 7, "me")
	if err != nil {
		t.Fatal(err)
	}
	s.on("GET "+path, cutShort("{}"))
	var network *actions.NetworkError
	if _, err := session.GetMessage(t.Context(), 0, 1); !errors.As(err, &network) || len(err.Error()) > 10_000 {
		t.Errorf("got %.200v, want a short *NetworkError", err)
	}
}

// A credential that was cut would not be recognized, and its beginning would be shown.
func TestCredentialIsRedactedBeforeAMessageIsShortened(t *testing.T) {
	const shown = 10 // bytes of the token that are within the limit
	s := newServer(t)
	body := jsonText(t, map[string]any{"message": strings.Repeat("x", 512-shown) + testToken})
	s.on(registrationTokenCall, reply{status: 400, body: body})
	_, err := s.client().GetRunnerScaleSetByID(t.Context(), 7)
	if err == nil || strings.Contains(err.Error(), testToken[:shown]) {
		t.Errorf("got %v, want nothing of the token", err)
	}
}

func TestErrorDoesNotEchoTheCredential(t *testing.T) {
	s := newServer(t)
	s.on(registrationTokenCall, reply{
		status: 400,
		body:   jsonText(t, map[string]any{"message": "you sent Bearer " + testToken}),
	})
	_, err := s.client().GetRunnerScaleSetByID(t.Context(), 7)
	if err == nil || strings.Contains(err.Error(), testToken) || !strings.Contains(err.Error(), "[redacted]") {
		t.Errorf("got %v, want the token redacted", err)
	}
}

// Paths of config URLs.
const organization, repository, enterprise = "/acme", "/acme/web", "/enterprises/big"

type headers = map[string]string

// refusals are answers to calls with a personal access token, each with its class and with a part of the advice.
var refusals = map[string]struct {
	scope   string
	status  int
	message string
	headers headers
	class   actions.RefusalClass
	advice  string
}{
	"bad credentials": {
		organization, 401, "Bad credentials", nil, actions.RefusedCredential, "check that the token has not expired",
	},
	"unknown words": {organization, 403, "The stars are wrong", nil, actions.RefusedCredential, "The stars are wrong"},
	"hidden": {
		organization, 404, "Not Found", nil, actions.RefusedHidden,
		"whoever wrote the AutoscalingRunnerSet must check the config URL",
	},
	"expired": {
		organization, 401, "Your token has expired", nil, actions.RefusedExpired, "the token's owner must make a new one",
	},
	"revoked": {
		organization, 401, "This personal access token was revoked by its owner", nil, actions.RefusedExpired,
		"whoever wrote the Secret put it there",
	},
	"many logins": {
		organization, 403, "Maximum number of login attempts exceeded. Please try again later.", nil, actions.RefusedLogins,
		"for some minutes",
	},
	"allow list of an enterprise": {enterprise, 403, "The enterprise `big` has an IP allow list enabled, and " +
		"192.0.2.7 is not permitted to access this resource.", nil,
		actions.RefusedAddress, "an owner of the organization or enterprise must add the address"},
	"IP allow list": {organization, 403, "Although you appear to have the correct authorization credentials, " +
		"the `acme` organization has an IP allow list enabled, and your IP address is not permitted to access " +
		"this resource.", nil, actions.RefusedAddress,
		"IP allow list, or let the App"},
	"account": {
		organization, 403, "Sorry. Your account was suspended", nil, actions.RefusedSuspension,
		"use one of another account",
	},
	"SSO": {organization, 403, "Resource protected by organization SAML enforcement. You must grant your " +
		"Personal Access token access to this organization.",
		headers{"X-GitHub-SSO": "required; url=https://SERVER/orgs/acme/sso?authorization_request=A1"},
		actions.RefusedSingleSignOn, "single sign-on: https://SERVER/orgs/acme/sso?authorization_request=A1"},
	"SSO, no text": {
		organization, 403, "", headers{"X-GitHub-SSO": "required; url=https://SERVER/sso"}, actions.RefusedSingleSignOn,
		"https://SERVER/sso",
	},
	"SSO elsewhere": {organization, 403, "SAML enforcement", headers{
		"X-GitHub-SSO": "required; url=https://evil.example/sso",
	},
		actions.RefusedSingleSignOn, "Configure SSO"},
	"SSO, partial": {
		organization, 403, "No", headers{"X-GitHub-SSO": "partial-results; organizations=1"}, actions.RefusedCredential,
		"No",
	},
	"permission": {organization, 403, "Resource not accessible by personal access token",
		headers{"X-Accepted-GitHub-Permissions": "organization_self_hosted_runners=write"}, actions.RefusedPermission,
		"the permission organization self hosted runners=write"},
	"permission, hostile": {organization, 403, "Resource not accessible by personal access token",
		headers{"X-Accepted-GitHub-Permissions": "<script>"}, actions.RefusedPermission,
		"Self-hosted runners: read and write"},
	"permission, repository": {
		repository, 403, "Resource not accessible by integration", nil, actions.RefusedPermission,
		"Administration: read and write",
	},
	"no administrator": {
		repository, 403, "Must have admin rights to Repository.", nil, actions.RefusedPermission,
		"its owner must administer the repository",
	},
	"enterprise": {
		enterprise, 403, "Resource not accessible by personal access token", nil, actions.RefusedPermission,
		"manage_runners:enterprise",
	},
	"scope": {organization, 404, "Not Found", headers{
		"X-OAuth-Scopes":          "repo, workflow",
		"X-Accepted-OAuth-Scopes": "admin:org",
	},
		actions.RefusedPermission, "the scope admin:org; it has repo, workflow"},
	"no scope": {
		organization, 404, "Not Found", headers{"X-OAuth-Scopes": "", "X-Accepted-OAuth-Scopes": "admin:org"},
		actions.RefusedPermission, "it has none",
	},
	"scope is there": {
		organization, 404, "Not Found",
		headers{"X-OAuth-Scopes": "admin:org", "X-Accepted-OAuth-Scopes": "admin:org"}, actions.RefusedHidden,
		"their account has access there",
	},
	"scope, in words": {
		organization, 403, "Must have admin rights to the organization",
		headers{"X-OAuth-Scopes": "repo", "X-Accepted-OAuth-Scopes": "admin:org"}, actions.RefusedPermission,
		"the scope admin:org; it has repo",
	},
	"classic tokens": {
		organization, 403, "`acme` forbids access via a personal access token (classic). Please use a GitHub App.",
		nil, actions.RefusedTokenPolicy, "use a GitHub App",
	},
	"lifetime": {
		organization, 403,
		"The 'acme' organization forbids access via a fine-grained personal access tokens if the token's " +
			"lifetime is greater than 366 days.",
		nil, actions.RefusedTokenPolicy, "expires sooner",
	},
	"runners are off": {
		repository, 403, "Repository level self-hosted runners are disabled on this repository.", nil,
		actions.RefusedRunners, "Settings → Actions → General",
	},
	"Actions are off": {
		organization, 403, "GitHub Actions is disabled for this organization by an enterprise policy", nil,
		actions.RefusedRunners, "an owner must allow",
	},
	"not approved": {
		organization, 403, "This fine-grained token is pending approval by the organization", nil,
		actions.RefusedTokenPolicy, "an owner of the organization must approve the token",
	},
	"perhaps not approved": {
		organization, 403, "Resource not accessible by personal access token", nil, actions.RefusedPermission,
		"one of its owners must approve it",
	},
	"OAuth": {organization, 403, "Although you appear to have the correct authorization credentials, the `acme` " +
		"organization has enabled OAuth App access restrictions", nil,
		actions.RefusedTokenPolicy, "must use a GitHub App"},
	"managed user": {
		organization, 403, "As an Enterprise Managed User, you cannot access this content", nil, actions.RefusedTokenPolicy,
		"of an account that may",
	},
	"two factors": {
		organization, 403, "Members of acme must enable two-factor authentication", nil, actions.RefusedTokenPolicy,
		"the token's owner must turn on two-factor",
	},
	"unpaid": {
		organization, 403, "Your account is locked due to a billing issue", nil, actions.RefusedAccount, "billing manager",
	},
	"archived owner": {
		organization, 403, "The organization acme has been archived", nil, actions.RefusedAccount,
		"an owner or billing manager",
	},
	"disabled": {
		repository, 403, "Repository disabled. Please ask the owner to check their account.", nil,
		actions.RefusedRepository, "an administrator of it",
	},
	"archived": {repository, 403, "Repository was archived so is read-only.", nil, actions.RefusedRepository, "archived"},
}

// GitHub's documented refusals, each with its class and with what somebody has to do.
func TestRefusals(t *testing.T) {
	calls := map[string]string{organization: "orgs/acme", repository: "repos/acme/web", enterprise: "enterprises/big"}
	for name, test := range refusals {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			host := strings.TrimPrefix(s.URL, "http://")
			answer := reply{
				status: test.status,
				body:   `{"message":"` + test.message + `","documentation_url":"https://docs.example"}`,
				header: headers{},
			}
			for key, value := range test.headers {
				answer.header[key] = strings.ReplaceAll(value, "SERVER", host)
			}
			s.on("POST /api/v3/"+calls[test.scope]+"/actions/runners/registration-token", answer)
			client, err := actions.NewClient(
				s.URL+test.scope, actions.Credentials{Token: testToken}, actions.Options{Clock: s.clock},
			)
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
		class             actions.RefusalClass
		advice            string
	}{
		"suspended": {
			"/acme", reply{status: 403, body: `{"message":"This installation has been suspended"}`}, reply{},
			actions.RefusedSuspension, "must lift the suspension",
		},
		"clock": {
			"/acme", reply{status: 401, body: `{"message":"'Expiration time' claim ('exp') is too far in the future"}`},
			reply{}, actions.RefusedClock, "set it right",
		},
		"other key": {
			"/acme", reply{status: 401, body: `{"message":"A JSON web token could not be decoded"}`}, reply{},
			actions.RefusedApp, "private key is this App's",
		},
		"deleted": {
			"/acme", reply{status: 404, body: `{"message":"Integration not found"}`}, reply{}, actions.RefusedApp,
			"that the App is still installed there",
		},
		"not selected": {
			"/acme", reply{status: 201, body: `{"token":"ghs_1"}`}, reply{status: 404, body: `{"message":"Not Found"}`},
			actions.RefusedHidden, "among the App's selected repositories",
		},
		"installation": {
			"/acme", reply{status: 404, body: `{"message":"Not Found"}`}, reply{}, actions.RefusedApp, "the installation id",
		},
		"permission": {"/acme", reply{status: 201, body: `{"token":"ghs_1"}`}, reply{
			status: 403,
			body:   `{"message":"Resource not accessible by integration"}`,
		},
			actions.RefusedPermission, "the owner of the App must give it, and an owner of the organization accept"},
		"enterprise, hidden": {"/enterprises/big", reply{status: 201, body: `{"token":"ghs_1"}`}, reply{
			status: 404,
			body:   `{"message":"Not Found"}`,
		},
			actions.RefusedHidden, "can't register runners of an enterprise"},
		"enterprise": {"/enterprises/big", reply{status: 201, body: `{"token":"ghs_1"}`}, reply{
			status: 403,
			body:   `{"message":"Resource not accessible by integration"}`,
		},
			actions.RefusedPermission, "can't register runners of an enterprise"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.on("POST /api/v3/app/installations/42/access_tokens", test.token)
			s.on("POST /api/v3/orgs/acme/actions/runners/registration-token", test.registrationToken)
			s.on("POST /api/v3/enterprises/big/actions/runners/registration-token", test.registrationToken)
			client, err := actions.NewClient(
				s.URL+test.scope,
				actions.Credentials{App: &actions.AppCredentials{ID: "1", InstallationID: 42, PrivateKey: pkcs1()}},
				actions.Options{Clock: s.clock},
			)
			if err != nil {
				t.Fatal(err)
			}
			checkRefusal(t, client, test.class, test.advice)
		})
	}
}

func checkRefusal(t *testing.T, client *actions.Client, class actions.RefusalClass, advice string) {
	t.Helper()
	_, err := client.GetRunner(t.Context(), 1)
	refusal, refused := actions.RefusalOf(err)
	if !refused || refusal.Class != class || !strings.Contains(err.Error(), advice) {
		t.Errorf("class %s of %v; want %s and %q", refusal.Class, err, class, advice)
	}
}

// What GitHub says is quoted as one line of plain text, without what looks like a token, and not at any length.
func TestRefusalsQuoteWithCare(t *testing.T) {
	s := newServer(t)
	s.on("POST /api/v3/orgs/acme/actions/runners/registration-token", reply{
		status: 403,
		body: `{"message":"No \u001b[31m\nto\u202eken ` +
			`ghp_abcdefghijklmnopqrstuvwxyz0123456789 github_pat_11ABCDEFG0123456789_abcdef ` + testToken + ` ` +
			strings.Repeat("x", 5000) + `"}`,
	})
	client, err := actions.NewClient(s.URL+"/acme", actions.Credentials{Token: testToken}, actions.Options{Clock: s.clock})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.GetRunner(t.Context(), 1)
	if err == nil {
		t.Fatal("no error")
	}
	text := err.Error()
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) ||
		strings.Contains(text, "ghp_") || strings.Contains(text, "github_pat_") ||
		strings.Contains(text, testToken) || len(text) > 1024 || !strings.Contains(text, "No  [31m to ken [redacted]") {
		t.Errorf("%d bytes: %q", len(text), text)
	}
}
