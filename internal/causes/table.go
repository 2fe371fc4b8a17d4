package causes

import "github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"

const (
	correctSecret = "correct the Secret that githubConfigSecret names: github_token, or the three github_app_* keys"
	reachGitHub   = "it is tried again; check proxy, githubServerTLS and githubConfigUrl, and that the cluster's " +
		"network lets the manager and the listener reach GitHub (docs/networking.md); look at " +
		"https://www.githubstatus.com"
)

// table has what to do about each reason. The texts of errors say it themselves, with more detail, where said is set.
var table = []Cause{
	{
		Reason: v1alpha1.ReasonCredentialsMissing,
		Actor:  User,
		said:   true,
		Advice: "create what the message names, in the scale set's namespace; the Secret that " +
			"githubConfigSecret names needs github_token, or the three github_app_* keys",
	},
	{Reason: v1alpha1.ReasonCredentialsInvalid, Actor: User, said: true, Advice: correctSecret},
	{Reason: v1alpha1.ReasonVaultUnsupported, Actor: User, said: true, Advice: "correct vaultConfig"},
	{
		Reason: v1alpha1.ReasonVaultNotAllowed,
		Actor:  User,
		said:   true,
		Advice: "name a vault and secrets that the namespace may read, or ask the cluster's " +
			"administrator, who decides that by the controller chart's value vaults",
	},
	{Reason: v1alpha1.ReasonInvalidConfigURL, Actor: User, said: true, Advice: "correct githubConfigUrl"},
	{
		Reason: v1alpha1.ReasonInvalidConfiguration,
		Actor:  User,
		said:   true,
		Advice: "correct what the message names in the scale set; the listener picks it up " +
			"without a restart",
	},
	{
		Reason: v1alpha1.ReasonNameTooLong,
		Actor:  User,
		said:   true,
		Advice: "recreate the scale set under a shorter name; runnerScaleSetName can keep the name that " +
			"jobs use in runs-on",
	},
	{
		Reason: v1alpha1.ReasonScaleSetInUse,
		Actor:  User,
		said:   true,
		Advice: "choose another runnerScaleSetName, or remove the installation that uses this one",
	},
	{
		Reason: v1alpha1.ReasonAddressNotAllowed,
		Actor:  User,
		said:   true,
		Advice: "use an address that is allowed, or ask the administrator of the controller to add " +
			"it to flags.allowedGitHubURLs (docs/networking.md)",
	},
	{
		Reason: v1alpha1.ReasonInsecureRedirect,
		Actor:  Administrator,
		said:   true,
		Advice: "let the gateway in front of GitHub Enterprise Server set " +
			"X-Forwarded-Proto: https (docs/networking.md)",
	},

	// GitHub refuses the credentials. Its answer names which permission, policy or page, and so does the error's text.
	{
		Reason: v1alpha1.ReasonUnauthorized,
		Actor:  User,
		said:   true,
		Advice: "give the token or App the permissions that docs/authentication.md lists, or replace " +
			"it; the Secret is read again within a minute",
	},
	{
		Reason: v1alpha1.ReasonTokenExpired,
		Actor:  GitHub,
		said:   true,
		Advice: "have the token's owner make a new one, and write it to the Secret; it is read again " +
			"within a minute",
	},
	{
		Reason: v1alpha1.ReasonSuspended,
		Actor:  GitHub,
		said:   true,
		Advice: "have whoever suspended the App's installation lift that; of a suspended account, use " +
			"another account's token, or an App",
	},
	{
		Reason: v1alpha1.ReasonIPAddressNotAllowed,
		Actor:  GitHub,
		said:   true,
		Advice: "have an owner of the organization or enterprise add the address from which " +
			"the cluster reaches GitHub to the IP allow list",
	},
	{
		Reason: v1alpha1.ReasonSingleSignOnRequired,
		Actor:  GitHub,
		said:   true,
		Advice: "have the token's owner open the address in the message, or authorize the " +
			"token under Settings → Developer settings → Personal access tokens → Configure SSO",
	},
	{
		Reason: v1alpha1.ReasonPermissionMissing,
		Actor:  GitHub,
		said:   true,
		Advice: "give the token or App what the message names; an owner of the organization must " +
			"accept an App's new permissions",
	},
	{
		Reason: v1alpha1.ReasonTokenForbidden,
		Actor:  GitHub,
		said:   true,
		Advice: "have an owner of the organization approve the token or change the policy that the " +
			"message names, or use a GitHub App",
	},
	{
		Reason: v1alpha1.ReasonClockSkewed,
		Actor:  Administrator,
		said:   true,
		Advice: "set the clock of the node on which the program runs that reports this",
	},
	{
		Reason: v1alpha1.ReasonAppNotFound,
		Actor:  User,
		said:   true,
		Advice: "correct the App's id, installation id and private key in the Secret, or install the App " +
			"again; the Secret is read again within a minute",
	},
	{
		Reason: v1alpha1.ReasonRunnersDisabled,
		Actor:  GitHub,
		said:   true,
		Advice: "have an owner allow self-hosted runners: Settings → Actions → General of the " +
			"repository, its organization or its enterprise",
	},
	{
		Reason: v1alpha1.ReasonRepositoryUnavailable,
		Actor:  GitHub,
		said:   true,
		Advice: "have the repository's administrator unarchive or unlock it, or set " +
			"githubConfigUrl to another address",
	},
	{
		Reason: v1alpha1.ReasonAccountUnavailable,
		Actor:  GitHub,
		said:   true,
		Advice: "have an owner or billing manager of the organization or enterprise see to its " +
			"account on GitHub",
	},
	{
		Reason: v1alpha1.ReasonNotFoundOrHidden,
		Actor:  User,
		said:   true,
		Advice: "correct githubConfigUrl, or give the credentials access to what it names; GitHub " +
			"doesn't say which is wrong",
	},
	{
		Reason: v1alpha1.ReasonTooManyFailedLogins,
		said:   true,
		Advice: "wait some minutes; find what uses a bad credential of this account, here or elsewhere, and " +
			"replace it",
	},

	// GitHub refuses, or doesn't answer, what was asked with credentials that it has accepted.
	{
		Reason: v1alpha1.ReasonRateLimited,
		said:   true,
		Advice: "wait; if it happens again, use a GitHub App, whose limit is higher, or spread the scale sets over " +
			"several Apps",
	},
	{Reason: v1alpha1.ReasonRunnerGroupNotFound, Actor: User, Advice: "create it on GitHub, or correct runnerGroup"},
	{
		Reason: v1alpha1.ReasonRefusedByGitHub,
		Actor:  User,
		Advice: "it is tried again; correct what GitHub names; if the answer doesn't say what to correct, give " +
			"its IDs to GitHub's support",
	},
	{
		Reason: v1alpha1.ReasonScaleSetNotFound,
		Advice: "wait: the manager recreates the scale set, and the conditions of the AutoscalingRunnerSet say how " +
			"far it is",
	},
	{
		Reason: v1alpha1.ReasonSessionConflict,
		Advice: "the listener asks again at least every 15 s, and after a crash GitHub ends the old session within " +
			"two minutes; if the conflict stays, check whether a second installation, perhaps in another cluster, " +
			"uses this scale set, and remove one while it has no jobs: that also deletes the scale set and its " +
			"queue on GitHub",
	},
	{Reason: v1alpha1.ReasonGitHubUnavailable, Advice: reachGitHub},
	{Reason: v1alpha1.ReasonTimeout, Advice: reachGitHub},
}

// For returns the cause with a reason, as it is read from a status.
func For(reason string) Cause {
	for _, known := range table {
		if known.Reason == reason {
			return known
		}
	}
	return Cause{Reason: reason}
}
