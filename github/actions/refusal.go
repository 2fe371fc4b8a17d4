package actions

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// RefusalClass says why GitHub refused a credential. It is one word, for a condition's reason.
type RefusalClass string

// The classes of refusals, after GitHub's documentation of its REST API and the texts that it was seen to send.
const (
	// RefusedCredential: expired, revoked, mistyped or of somebody else; or whatever GitHub does not explain.
	RefusedCredential RefusalClass = "Unauthorized"
	// RefusedSuspension: the App's installation, or the account behind the token, is suspended.
	RefusedSuspension RefusalClass = "Suspended"
	// RefusedAddress: an allow list does not have the address from which the call came.
	RefusedAddress RefusalClass = "IPAddressNotAllowed"
	// RefusedSingleSignOn: the organization wants the token to be authorized for SAML single sign-on.
	RefusedSingleSignOn RefusalClass = "SingleSignOnRequired"
	// RefusedPermission: the credential is known, and lacks a permission or scope.
	RefusedPermission RefusalClass = "PermissionMissing"
	// RefusedTokenPolicy: a policy forbids this kind of token, or one that lives so long.
	RefusedTokenPolicy RefusalClass = "TokenForbidden"
	// RefusedClock: the App's signature is from the future or too old.
	RefusedClock RefusalClass = "ClockSkewed"
	// RefusedApp: there is no such App or installation, or the key is another App's.
	RefusedApp RefusalClass = "AppNotFound"
	// RefusedRunners: self-hosted runners are switched off there, or Actions is.
	RefusedRunners RefusalClass = "RunnersDisabled"
	// RefusedRepository: the repository is archived, locked or blocked.
	RefusedRepository RefusalClass = "RepositoryUnavailable"
)

// Refusal is GitHub's refusal of a credential.
type Refusal struct {
	Class RefusalClass
	// Advice says who has to do what.
	Advice string
}

// RefusalOf returns the class and the advice for an error that matches ErrUnauthorized. Of a refusal that no rule knows the class is
// RefusedCredential; the error's own text quotes GitHub.
func RefusalOf(err error) (refusal Refusal, refused bool) {
	if !errors.Is(err, ErrUnauthorized) {
		return Refusal{}, false
	}
	if answer, ok := errors.AsType[*Error](err); ok && answer.refusal.Class != "" {
		return answer.refusal, true
	}
	return Refusal{Class: RefusedCredential}, true
}

// refusalRules are GitHub's documented refusals, the most telling first: a header before a text. GitHub has no codes for them. A rule holds
// if the header's value and the message match, where given. Whoever wrote the answer may be hostile, so that a rule decides
// which advice is shown and nothing else.
var refusalRules = []struct {
	class   RefusalClass
	header  string
	value   *regexp.Regexp
	message *regexp.Regexp
	// credential and status limit the rule to one kind of credential and one status.
	credential string
	status     int
	advice     func(*answerToRefuse) string
}{
	{class: RefusedSingleSignOn, header: "X-GitHub-SSO", value: regexp.MustCompile(`^required\b`), advice: authorizeSingleSignOn},
	{class: RefusedSingleSignOn, message: regexp.MustCompile(`SAML enforcement`), advice: authorizeSingleSignOn},
	{class: RefusedAddress, message: regexp.MustCompile(`IP allow list`), advice: advise(
		"an owner of the organization or enterprise must add the address from which this cluster reaches GitHub to its IP allow list, or let the App add it")},
	{class: RefusedSuspension, message: regexp.MustCompile(`(?i)installation (has been|is) suspended`), advice: advise(
		"whoever suspended the App's installation, its owner under Settings → GitHub Apps or the App's own owner, must lift the suspension")},
	{class: RefusedSuspension, message: regexp.MustCompile(`(?i)account (was|has been|is) suspended`), advice: advise(
		"the account to which the token belongs is suspended: use one of another account, or a GitHub App")},
	{class: RefusedTokenPolicy, message: regexp.MustCompile(`forbids access via a fine-grained personal access tokens? if the token's lifetime`), advice: advise(
		"the token's owner must make one that expires sooner, as the organization's policy wants it, or use a GitHub App")},
	{class: RefusedTokenPolicy, message: regexp.MustCompile(`forbids access via a (personal access token|fine-grained)`), advice: advise(
		"the organization's policy forbids this kind of token: use a GitHub App, or let an owner of the organization change the policy")},
	{class: RefusedRunners, message: regexp.MustCompile(`(?i)self-hosted runners (are|have been) (disabled|not allowed)|runners? .*disabled`), advice: advise(
		"an owner must allow self-hosted runners there: Settings → Actions → General of the repository, its organization or its enterprise")},
	{class: RefusedRepository, message: regexp.MustCompile(`(?i)repository (was archived|access blocked|has been locked)`), advice: advise(
		"the repository is archived, locked or blocked: an administrator must unlock it, or register runners at another address")},
	{class: RefusedClock, credential: CredentialApp, message: regexp.MustCompile(`(?i)'(exp|iat)'|expiration time|issued at|in the future|too far`), advice: advise(
		"the clock of the machine on which this runs differs from GitHub's: set it right")},
	{class: RefusedApp, credential: CredentialApp, message: regexp.MustCompile(`(?i)could not be decoded|'Issuer' claim|integration not found|^not found$`), advice: advise(
		"check the App's id or client id, the installation id, that the App is still installed there, and that the private key is this App's")},
	{class: RefusedPermission, header: "X-Accepted-GitHub-Permissions", value: permissionList, status: http.StatusForbidden, advice: grantPermission},
	{class: RefusedPermission, message: regexp.MustCompile(`(?i)not accessible by|must have admin rights|must be an? (organization )?(admin|owner)`), advice: grantPermission},
	{class: RefusedPermission, header: "X-Accepted-OAuth-Scopes", value: scopeList, credential: CredentialPersonalAccessToken, advice: addScope},
}

// answerToRefuse is what rules read of an answer.
type answerToRefuse struct {
	*Error
	header http.Header
	config *ConfigURL
}

// classify returns the refusal that an answer is, the zero Refusal if no rule knows it.
func (a *answerToRefuse) classify() Refusal {
	for _, rule := range refusalRules {
		switch {
		case rule.credential != "" && rule.credential != a.Credential,
			rule.status != 0 && rule.status != a.StatusCode,
			rule.value != nil && !rule.value.MatchString(a.header.Get(rule.header)),
			rule.message != nil && !rule.message.MatchString(a.Message):
			continue
		}
		if advice := rule.advice(a); advice != "" {
			return Refusal{Class: rule.class, Advice: advice}
		}
	}
	return Refusal{}
}

func advise(advice string) func(*answerToRefuse) string {
	return func(*answerToRefuse) string { return advice }
}

// authorizeSingleSignOn gives the address that GitHub sends for it, if it is on the host of the config URL.
func authorizeSingleSignOn(a *answerToRefuse) string {
	const advice = "the token's owner must authorize it for the organization's single sign-on"
	for part := range strings.SplitSeq(a.header.Get("X-GitHub-SSO"), ";") {
		value, given := strings.CutPrefix(strings.TrimSpace(part), "url=")
		page, err := url.Parse(value)
		if given && err == nil && page.Scheme == "https" && page.User == nil && len(value) <= maxMessageLength && strings.EqualFold(page.Host, a.config.URL.Host) {
			return advice + ": " + page.String()
		}
	}
	return advice + ", under Settings → Developer settings → Personal access tokens → Configure SSO"
}

// permissionList matches the header X-Accepted-GitHub-Permissions: NAME=LEVEL, of which "," means and and ";" means or.
var permissionList = regexp.MustCompile(`^[a-z_]+=[a-z]+([,;] ?[a-z_]+=[a-z]+){0,9}$`)

func grantPermission(a *answerToRefuse) string {
	who := "the owner of the token must give it"
	if a.Credential == CredentialInstallationToken {
		if a.config.Scope == ScopeEnterprise {
			return "a GitHub App can't register runners of an enterprise: use a classic personal access token with the scope manage_runners:enterprise, " +
				"or register at an organization of the enterprise"
		}
		who = "the owner of the App must give it, and an owner of the organization accept,"
	}
	if accepted := a.header.Get("X-Accepted-GitHub-Permissions"); permissionList.MatchString(accepted) {
		return fmt.Sprintf("%s the permission %s", who, strings.ReplaceAll(accepted, "_", " "))
	}
	switch a.config.Scope {
	case ScopeRepository:
		return who + " the repository permission Administration: read and write (classic token: the scope repo, and its owner must administer the repository)"
	case ScopeEnterprise:
		return who + " the scope manage_runners:enterprise; its owner must own the enterprise"
	default:
		return who + " the organization permission Self-hosted runners: read and write (classic token: the scope admin:org, and its owner must own the organization)"
	}
}

// scopeList matches the headers X-OAuth-Scopes and X-Accepted-OAuth-Scopes.
var scopeList = regexp.MustCompile(`^[a-z_]+(:[a-z_]+)?(, ?[a-z_]+(:[a-z_]+)?){0,40}$`)

// addScope names the scopes of which a classic token needs one and has none. It returns "" if scopes are not what is missing.
func addScope(a *answerToRefuse) string {
	list := func(header string) []string {
		if value := a.header.Get(header); scopeList.MatchString(value) {
			return strings.Split(strings.ReplaceAll(value, " ", ""), ",")
		}
		return nil
	}
	wanted, has := list("X-Accepted-OAuth-Scopes"), list("X-OAuth-Scopes")
	_, classic := a.header["X-Oauth-Scopes"] // in the canonical form of net/http; empty for a token without scopes
	if !classic || len(wanted) == 0 {
		return ""
	}
	for _, scope := range wanted {
		for _, given := range has {
			if given == scope {
				return ""
			}
		}
	}
	return fmt.Sprintf("the token's owner must give it the scope %s; it has %s", strings.Join(wanted, " or "), orNone(has))
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
