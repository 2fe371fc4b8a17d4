package meaning

import "github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"

const (
	correctSecret = "correct the Secret that githubConfigSecret names: github_token, or the three github_app_* keys"
	reachGitHub   = "it is tried again; check proxy, githubServerTLS and githubConfigUrl, and that the cluster's " +
		"network lets the manager and the listener reach GitHub (docs/networking.md); look at " +
		"https://www.githubstatus.com"
)

// ofGitHub are the reasons of errors about GitHub, and about what is read before GitHub can be asked: package causes
// finds them in errors.
var ofGitHub = []Row{
	{
		Reason: v1alpha1.ReasonCredentialsMissing,
		Actor:  User,
		Advice: "create what the message names, in the scale set's namespace; the Secret that " +
			"githubConfigSecret names needs github_token, or the three github_app_* keys",
	},
	{Reason: v1alpha1.ReasonCredentialsInvalid, Actor: User, Advice: correctSecret},
	{Reason: v1alpha1.ReasonVaultUnsupported, Actor: User, Advice: "correct vaultConfig"},
	{
		Reason: v1alpha1.ReasonVaultNotAllowed,
		Actor:  User,
		Advice: "name a vault and secrets that the namespace may read, or ask the cluster's " +
			"administrator, who decides that by the controller chart's value vaults",
	},
	{Reason: v1alpha1.ReasonInvalidConfigURL, Actor: User, Advice: "correct githubConfigUrl"},
	{
		Reason: v1alpha1.ReasonInvalidConfiguration,
		Actor:  User,
		Advice: "correct what the message names in the scale set; the listener picks it up " +
			"without a restart",
	},
	{
		Reason: v1alpha1.ReasonNameTooLong,
		Actor:  User,
		Advice: "recreate the scale set under a shorter name; runnerScaleSetName can keep the name that " +
			"jobs use in runs-on",
	},
	{
		Reason: v1alpha1.ReasonScaleSetInUse,
		Actor:  User,
		Advice: "choose another runnerScaleSetName, or remove the installation that uses this one",
	},
	{
		Reason: v1alpha1.ReasonAddressNotAllowed,
		Actor:  User,
		Advice: "use an address that is allowed, or ask the administrator of the controller to add " +
			"it to flags.allowedGitHubURLs (docs/networking.md)",
	},
	{
		Reason: v1alpha1.ReasonInsecureRedirect,
		Actor:  Administrator,
		Advice: "let the gateway in front of GitHub Enterprise Server set " +
			"X-Forwarded-Proto: https (docs/networking.md)",
	},

	// GitHub refuses the credentials. Its answer names which permission, policy or page, and so does the error's text.
	{
		Reason: v1alpha1.ReasonUnauthorized,
		Actor:  User,
		Advice: "give the token or App the permissions that docs/authentication.md lists, or replace " +
			"it; the Secret is read again within a minute",
	},
	{
		Reason: v1alpha1.ReasonTokenExpired,
		Actor:  GitHub,
		Advice: "have the token's owner make a new one, and write it to the Secret; it is read again " +
			"within a minute",
	},
	{
		Reason: v1alpha1.ReasonSuspended,
		Actor:  GitHub,
		Advice: "have whoever suspended the App's installation lift that; of a suspended account, use " +
			"another account's token, or an App",
	},
	{
		Reason: v1alpha1.ReasonIPAddressNotAllowed,
		Actor:  GitHub,
		Advice: "have an owner of the organization or enterprise add the address from which " +
			"the cluster reaches GitHub to the IP allow list",
	},
	{
		Reason: v1alpha1.ReasonSingleSignOnRequired,
		Actor:  GitHub,
		Advice: "have the token's owner open the address in the message, or authorize the " +
			"token under Settings → Developer settings → Personal access tokens → Configure SSO",
	},
	{
		Reason: v1alpha1.ReasonPermissionMissing,
		Actor:  GitHub,
		Advice: "give the token or App what the message names; an owner of the organization must " +
			"accept an App's new permissions",
	},
	{
		Reason: v1alpha1.ReasonTokenForbidden,
		Actor:  GitHub,
		Advice: "have an owner of the organization approve the token or change the policy that the " +
			"message names, or use a GitHub App",
	},
	{
		Reason: v1alpha1.ReasonClockSkewed,
		Actor:  Administrator,
		Advice: "set the clock of the node on which the program runs that reports this",
	},
	{
		Reason: v1alpha1.ReasonAppNotFound,
		Actor:  User,
		Advice: "correct the App's id, installation id and private key in the Secret, or install the App " +
			"again; the Secret is read again within a minute",
	},
	{
		Reason: v1alpha1.ReasonRunnersDisabled,
		Actor:  GitHub,
		Advice: "have an owner allow self-hosted runners: Settings → Actions → General of the " +
			"repository, its organization or its enterprise",
	},
	{
		Reason: v1alpha1.ReasonRepositoryUnavailable,
		Actor:  GitHub,
		Advice: "have the repository's administrator unarchive or unlock it, or set " +
			"githubConfigUrl to another address",
	},
	{
		Reason: v1alpha1.ReasonAccountUnavailable,
		Actor:  GitHub,
		Advice: "have an owner or billing manager of the organization or enterprise see to its " +
			"account on GitHub",
	},
	{
		Reason: v1alpha1.ReasonNotFoundOrHidden,
		Actor:  User,
		Advice: "correct githubConfigUrl, or give the credentials access to what it names; GitHub " +
			"doesn't say which is wrong",
	},
	{
		Reason: v1alpha1.ReasonTooManyFailedLogins,
		Advice: "wait some minutes; find what uses a bad credential of this account, here or elsewhere, and " +
			"replace it",
	},

	// GitHub refuses, or doesn't answer, what was asked with credentials that it has accepted.
	{
		Reason: v1alpha1.ReasonRateLimited,
		Few:    "GitHub's rate limit",
		Author: "GitHub lets no more runners register for now",
		Advice: "wait; if it happens again, use a GitHub App, whose limit is higher, or spread the scale sets over " +
			"several Apps",
	},
	{
		Reason: v1alpha1.ReasonRunnerGroupNotFound, Actor: User, Unsaid: true,
		Advice: "create it on GitHub, or correct runnerGroup",
	},
	{
		Reason: v1alpha1.ReasonRefusedByGitHub,
		Author: "GitHub refuses what the scale set asks",
		Unsaid: true,
		Actor:  User,
		Advice: "it is tried again; correct what GitHub names; if the answer doesn't say what to correct, give " +
			"its IDs to GitHub's support",
	},
	{
		Reason: v1alpha1.ReasonScaleSetNotFound,
		Unsaid: true,
		Advice: "wait: the manager recreates the scale set, and the conditions of the AutoscalingRunnerSet say how " +
			"far it is",
	},
	{
		Reason: v1alpha1.ReasonSessionConflict,
		Unsaid: true,
		Advice: "the listener asks again at least every 15 s, and after a crash GitHub ends the old session within " +
			"two minutes; if the conflict stays, check whether a second installation, perhaps in another cluster, " +
			"uses this scale set, and remove one while it has no jobs: that also deletes the scale set and its " +
			"queue on GitHub",
	},
	{
		Reason: v1alpha1.ReasonHostNotFound,
		Actor:  User,
		Few:    "no such host",
		Author: "the scale set doesn't find GitHub's host",
		Unsaid: true,
		Advice: "it is tried again; check the spelling of the host in githubConfigUrl, which is github.com unless your GitHub is a server " +
			"of its own, and that of the proxy; if both are right, the cluster's DNS doesn't know the host",
	},
	{
		Reason: v1alpha1.ReasonGitHubUnavailable, Few: "GitHub is away", Unsaid: true,
		Author: "GitHub doesn't answer the scale set",
		Advice: reachGitHub,
	},
	{
		Reason: v1alpha1.ReasonTimeout, Author: "GitHub doesn't answer the scale set", Unsaid: true,
		Advice: reachGitHub,
	},
	{Reason: "CheckingCredentials", Advice: reachGitHub},
}
