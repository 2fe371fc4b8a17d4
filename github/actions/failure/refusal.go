package failure

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/harrier-ci/harrier/github/actions/configurl"
	"github.com/harrier-ci/harrier/github/actions/credential"
)

// RefusalClass is GitHub's reason to refuse a credential, in the one word that conditions, Events and statuses have for
// it: the constants v1alpha1.Reason… are the same words.
type RefusalClass string

// The classes of refusals, after GitHub's documentation of its REST API and the texts that it was seen to send.
const (
	// RefusedCredential: mistyped or of somebody else; or whatever GitHub does not explain.
	RefusedCredential RefusalClass = "Unauthorized"
	// RefusedExpired: the token has expired or was revoked. Most servers don't say so, and only call it bad.
	RefusedExpired RefusalClass = "TokenExpired"
	// RefusedSuspension: the App's installation, or the account behind the token, is suspended.
	RefusedSuspension RefusalClass = "Suspended"
	// RefusedAddress: an allow list does not have the address from which the call came.
	RefusedAddress RefusalClass = "IPAddressNotAllowed"
	// RefusedSingleSignOn: the organization wants the token to be authorized for SAML single sign-on.
	RefusedSingleSignOn RefusalClass = "SingleSignOnRequired"
	// RefusedPermission: the credential is known, and lacks a permission or scope.
	RefusedPermission RefusalClass = "PermissionMissing"
	// RefusedTokenPolicy: a policy forbids this kind of token or account, or a token that lives so long or was not
	// approved.
	RefusedTokenPolicy RefusalClass = "TokenForbidden"
	// RefusedClock: the App's signature is from the future or too old.
	RefusedClock RefusalClass = "ClockSkewed"
	// RefusedApp: there is no such App or installation, or the key is another App's.
	RefusedApp RefusalClass = "AppNotFound"
	// RefusedRunners: self-hosted runners are switched off there, or Actions is.
	RefusedRunners RefusalClass = "RunnersDisabled"
	// RefusedRepository: the repository is archived, locked, disabled or blocked.
	RefusedRepository RefusalClass = "RepositoryUnavailable"
	// RefusedAccount: the organization or enterprise is archived, locked, disabled or blocked, as for an unpaid bill.
	RefusedAccount RefusalClass = "AccountUnavailable"
	// RefusedHidden: there is nothing at the config URL, or nothing that the credential may see. GitHub makes no
	// difference.
	RefusedHidden RefusalClass = "NotFoundOrHidden"
	// RefusedLogins: GitHub refuses even good credentials for a while, after several bad ones.
	RefusedLogins RefusalClass = "TooManyFailedLogins"
)

// refusalClasses are the constants above.
var refusalClasses = []RefusalClass{
	RefusedCredential, RefusedExpired, RefusedSuspension, RefusedAddress, RefusedSingleSignOn, RefusedPermission,
	RefusedTokenPolicy, RefusedClock, RefusedApp, RefusedRunners, RefusedRepository, RefusedAccount, RefusedHidden,
	RefusedLogins,
}

// RefusalClasses returns all classes.
func RefusalClasses() []RefusalClass { return slices.Clone(refusalClasses) }

// IsKnown reports whether the class is one of the constants: whether a reason that was read from a status means that
// GitHub refuses a credential.
func (c RefusalClass) IsKnown() bool { return slices.Contains(refusalClasses, c) }

// Passes reports whether the refusal ends by itself, without anybody having to do anything.
func (c RefusalClass) Passes() bool { return c == RefusedLogins }

// Refusal is GitHub's refusal of a credential.
type Refusal struct {
	Class RefusalClass
	// Advice names who has to do what.
	Advice string
}

// refusalRules are GitHub's documented refusals, the most telling first: a header before a text. GitHub has no codes
// for them. A rule holds if the header's value and the message match, where given. Whoever wrote the answer may be
// hostile, so that a rule decides which advice is shown and nothing else.
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
	{
		class:  RefusedSingleSignOn,
		header: "X-GitHub-SSO",
		value:  regexp.MustCompile(`(?i)^\s*required\b`),
		advice: authorizeSingleSignOn,
	},
	{
		class:   RefusedSingleSignOn,
		message: regexp.MustCompile(`(?i)SAML (enforcement|SSO|single sign)|single sign-on`),
		advice:  authorizeSingleSignOn,
	},
	{
		class:   RefusedAddress,
		message: regexp.MustCompile(`(?i)IP (allow|white) ?list|IP address .*not (permitted|allowed)`),
		advice: advise(
			"an owner of the organization or enterprise must add the address from which this cluster reaches GitHub " +
				"to its IP allow list, or let the App add it"),
	},
	{
		class:   RefusedSuspension,
		message: regexp.MustCompile(`(?i)(installation|integration|app) (was|has been|is) suspended`),
		advice: advise(
			"whoever suspended the App's installation, its owner under Settings → GitHub Apps or the App's own " +
				"owner, must lift the suspension"),
	},
	{
		class:   RefusedSuspension,
		message: regexp.MustCompile(`(?i)(account|user) (was|has been|is) suspended`),
		advice: advise(
			"the account to which the token belongs is suspended: whoever wrote the Secret must use one of another " +
				"account, or a GitHub App"),
	},
	{class: RefusedLogins, message: regexp.MustCompile(`(?i)number of login attempts`), advice: advise(
		"GitHub refuses even good credentials of the account for some minutes, after several bad ones: whoever uses " +
			"a bad one, here or elsewhere, must replace it; it is tried again")},
	{class: RefusedTokenPolicy, message: regexp.MustCompile(`(?i)forbids access via .*lifetime`), advice: advise(
		"the token's owner must make one that expires sooner, as the organization's policy wants it, or whoever " +
			"wrote the Secret use a GitHub App")},
	{
		class:   RefusedTokenPolicy,
		message: regexp.MustCompile(`(?i)forbids access via|OAuth App access restrictions`),
		advice: advise(
			"the policy of the organization or enterprise forbids this kind of token: whoever wrote the Secret must " +
				"use a GitHub App, or an owner change the policy"),
	},
	{
		class: RefusedTokenPolicy,
		message: regexp.MustCompile(
			`(?i)(pending|awaiting|waiting for|requires?|needs?) .*approval|not (yet )?(been )?approved`,
		),
		advice: advise(
			"an owner of the organization must approve the token: Settings → Personal access tokens → Pending " +
				"requests"),
	},
	{class: RefusedTokenPolicy, message: regexp.MustCompile(`(?i)Enterprise Managed User`), advice: advise(
		"the token is of a managed user, who reaches nothing outside of their enterprise: whoever wrote the Secret " +
			"must use the token of an account that may, or a GitHub App")},
	{class: RefusedTokenPolicy, message: regexp.MustCompile(`(?i)two-factor`), advice: advise(
		"the token's owner must turn on two-factor authentication, which the organization requires of its members")},
	{
		class: RefusedRunners,
		message: regexp.MustCompile(
			`(?i)runners? .*(disabled|not (allowed|permitted|enabled))|\bactions (is|are|was|has been|` +
				`have been) (currently )?(disabled|not (allowed|enabled))`,
		),
		advice: advise(
			"an owner must allow self-hosted runners there: Settings → Actions → General of the repository, its " +
				"organization or its enterprise"),
	},
	{
		class:   RefusedRepository,
		message: regexp.MustCompile(`(?i)repository (access |(was|is|has been) )?(archived|blocked|locked|disabled)`),
		advice: advise(
			"the repository is archived, locked, disabled or blocked: an administrator of it must end that, or " +
				"whoever wrote the AutoscalingRunnerSet register runners at another address"),
	},
	{class: RefusedAccount, message: regexp.MustCompile(`(?i)billing|payment|trade controls|license (has|is) expired|` +
		`(organization|enterprise|account)( \S+)? (was|is|has been) (archived|blocked|locked|disabled|flagged|` +
		`suspended|restricted|deleted|marked as archived)`), advice: advise(
		"an owner or billing manager of the organization or enterprise must see to its account, or ask GitHub's " +
			"support")},
	{
		class:      RefusedClock,
		credential: credential.App,
		message:    regexp.MustCompile(`(?i)'(exp|iat)'|expiration time|issued at|in the future|too far`),
		advice: advise(
			"the clock of the machine on which this runs differs from GitHub's: whoever runs the cluster must set it " +
				"right"),
	},
	{
		class:      RefusedApp,
		credential: credential.App,
		message: regexp.MustCompile(
			`(?i)could not be decoded|'(Issuer|iss)'|issuer|integration not found|generate a public key`,
		),
		advice: advise(checkApp),
	},
	{class: RefusedApp, credential: credential.App, status: http.StatusNotFound, advice: advise(checkApp)},
	{
		class:      RefusedPermission,
		header:     "X-Accepted-OAuth-Scopes",
		value:      scopeList,
		credential: credential.PersonalAccessToken,
		advice:     addScope,
	},
	{
		class:  RefusedPermission,
		header: "X-Accepted-GitHub-Permissions",
		value:  permissionList,
		status: http.StatusForbidden,
		advice: grantPermission,
	},
	{
		class: RefusedPermission,
		message: regexp.MustCompile(
			`(?i)not accessible by|must (have|be) .*(admin|owner|permission|scope)|(insufficient|missing|` +
				`lacks?) .*(scope|permission|right)`,
		),
		advice: grantPermission,
	},
	{
		class:   RefusedExpired,
		message: regexp.MustCompile(`(?i)(token|credential)s? .*(expired|revoked)|expired .*token`),
		advice: advise(
			"the token's owner must make a new one, and whoever wrote the Secret put it there"),
	},
	{class: RefusedHidden, status: http.StatusNotFound, advice: makeVisible},
}

// checkApp is the advice if GitHub knows no such App, installation or key.
const checkApp = "whoever wrote the Secret must check the App's id or client id, the installation id and that the " +
	"private key is this App's; an owner of the account, that the App is still installed there"

// credentialAdvice names the checks if no rule knows why a credential was refused.
var credentialAdvice = map[string]string{
	credential.PersonalAccessToken: "whoever wrote the Secret must check that the token has not expired, that it " +
		"may use single sign-on where that is required, and its scopes: repo for a repository, admin:org for an " +
		"organization, manage_runners:enterprise for an enterprise; also check the config URL",
	credential.App: "whoever wrote the Secret must check the app's id, the installation id, and that the private key " +
		"belongs to the app; whoever runs the cluster, this machine's clock",
	credential.InstallationToken: "an owner of the account must check that the app is installed there and may write " +
		"self-hosted runners (organization) or administration (repository); also check the config URL",
	credential.RegistrationToken: "GitHub issued it a moment ago; if this persists, whoever wrote the " +
		"AutoscalingRunnerSet must check that the config URL names what the token was made for and that self-hosted " +
		"runners are allowed there",
	credential.AdminToken: "whoever wrote the Secret must check that the personal access token or GitHub App was not " +
		"revoked, and that it has the rights for self-hosted runners there",
	credential.QueueToken: "the session may be gone",
}

// answerToRefuse is the part of an answer that rules read.
type answerToRefuse struct {
	*Error
	header http.Header
	config *configurl.URL
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
		if given && err == nil && page.Scheme == "https" && page.User == nil && len(value) <= maxMessageLength &&
			strings.EqualFold(page.Host, a.config.URL.Host) {
			return advice + ": " + page.String()
		}
	}
	return advice + ", under Settings → Developer settings → Personal access tokens → Configure SSO"
}

// permissionList matches the header X-Accepted-GitHub-Permissions: NAME=LEVEL, of which "," means and and ";" means or.
var permissionList = regexp.MustCompile(`^[a-z_]+=[a-z]+([,;] ?[a-z_]+=[a-z]+){0,9}$`)

const noAppOfEnterprise = "a GitHub App can't register runners of an enterprise: whoever wrote the Secret must use " +
	"a classic personal access token with the scope manage_runners:enterprise, or register at an organization of " +
	"the enterprise"

func grantPermission(a *answerToRefuse) string {
	who := "the owner of the token must give it"
	if a.Credential == credential.InstallationToken {
		if a.config.Scope == configurl.ScopeEnterprise {
			return noAppOfEnterprise
		}
		who = "the owner of the App must give it, and an owner of the organization accept,"
	}
	unapproved := ""
	if strings.Contains(a.Message, "by personal access token") { // GitHub says so of fine-grained ones only
		unapproved = "; if the organization approves fine-grained tokens, one of its owners must approve it"
	}
	if accepted := a.header.Get("X-Accepted-GitHub-Permissions"); permissionList.MatchString(accepted) {
		return fmt.Sprintf("%s the permission %s%s", who, strings.ReplaceAll(accepted, "_", " "), unapproved)
	}
	switch a.config.Scope {
	case configurl.ScopeRepository:
		return who + " the repository permission Administration: read and write (classic token: the scope repo, and " +
			"its owner must administer the repository)" + unapproved
	case configurl.ScopeEnterprise:
		return who + " the scope manage_runners:enterprise; its owner must own the enterprise"
	default:
		return who + " the organization permission Self-hosted runners: read and write (classic token: the scope " +
			"admin:org, and its owner must own the organization)" + unapproved
	}
}

// makeVisible is for a 404 about what the config URL names. It returns "" if the call was about something else.
func makeVisible(a *answerToRefuse) string {
	const hides = "whoever wrote the AutoscalingRunnerSet must check the config URL (githubConfigUrl): GitHub says " +
		"this also of what the credential may not see; "
	switch {
	case a.Credential == credential.InstallationToken && a.config.Scope == configurl.ScopeEnterprise:
		return noAppOfEnterprise
	case a.Credential == credential.PersonalAccessToken:
		return hides + "the token's owner, that their account has access there, and the token the rights: for a " +
			"classic one the scope repo for a repository, admin:org for an organization, manage_runners:enterprise " +
			"for an enterprise"
	case a.Credential == credential.InstallationToken:
		return hides + "an owner of the account, that the App is installed there, for a repository: that it is among " +
			"the App's selected repositories"
	}
	return ""
}

// scopeList matches the headers X-OAuth-Scopes and X-Accepted-OAuth-Scopes.
var scopeList = regexp.MustCompile(`^[a-z_]+(:[a-z_]+)?(, ?[a-z_]+(:[a-z_]+)?){0,40}$`)

// addScope names the scopes of which a classic token needs one and has none. It returns "" if scopes are not what is
// missing.
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
	return fmt.Sprintf(
		"the token's owner must give it the scope %s; it has %s",
		strings.Join(wanted, " or "), orNone(has),
	)
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
