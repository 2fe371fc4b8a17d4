package actions

import "strings"

// Names of GitHub's endpoints, for metrics and errors.
const (
	// Endpoints of the REST API.
	EndpointInstallationToken = "create_installation_token" // POST app/installations/{id}/access_tokens
	EndpointRegistrationToken = "create_registration_token" // POST {scope}/actions/runners/registration-token
	EndpointRegister          = "register"                  // POST actions/runner-registration
	EndpointListRunners       = "list_runners"              // GET {scope}/actions/runners

	// Endpoints of the Actions service that are about scale sets, below _apis/runtime.
	EndpointFindScaleSet      = "find_scale_set"      // GET runnerscalesets?runnerGroupId=…&name=…
	EndpointGetScaleSet       = "get_scale_set"       // GET runnerscalesets/{id}
	EndpointCreateScaleSet    = "create_scale_set"    // POST runnerscalesets
	EndpointUpdateScaleSet    = "update_scale_set"    // PATCH runnerscalesets/{id}
	EndpointDeleteScaleSet    = "delete_scale_set"    // DELETE runnerscalesets/{id}
	EndpointFindRunnerGroup   = "find_runner_group"   // GET runnergroups/?groupName=…
	EndpointGenerateJITConfig = "generate_jit_config" // POST runnerscalesets/{id}/generatejitconfig
	EndpointGetAcquirableJobs = "get_acquirable_jobs" // GET runnerscalesets/{id}/acquirablejobs
	EndpointAcquireJobs       = "acquire_jobs"        // POST runnerscalesets/{id}/acquirejobs, with the queue token
	EndpointCreateSession     = "create_session"      // POST runnerscalesets/{id}/sessions
	EndpointRefreshSession    = "refresh_session"     // PATCH runnerscalesets/{id}/sessions/{session}
	EndpointDeleteSession     = "delete_session"      // DELETE runnerscalesets/{id}/sessions/{session}

	// Endpoints of the Actions service that are about runners, below _apis/distributedtask/pools/0.
	EndpointGetRunner    = "get_runner"    // GET agents/{id}
	EndpointFindRunner   = "find_runner"   // GET agents?agentName=…
	EndpointRemoveRunner = "remove_runner" // DELETE agents/{id}

	// Endpoints of the message queue, whose address comes with the session.
	EndpointGetMessage    = "get_message"    // GET {queue}&lastMessageId=…
	EndpointDeleteMessage = "delete_message" // DELETE {queue}/{message}
)

// endpoint says what an answer without the name of an exception means.
type endpoint struct {
	// missing is the meaning of 404, conflict of 409, unprocessable of 422; nil means no particular one.
	missing, conflict, unprocessable error
	// missingByAnyName applies missing also if the answer names an exception that is not in exceptions.
	missingByAnyName bool
}

// meaningOfNotFound is careful with unknown exceptions: "no such tenant" must not be read as "no such runner",
// because to a caller that removes runners the latter is a success.
func (e endpoint) meaningOfNotFound(exception string) error {
	if e.missing != nil && (exception == "" || e.missingByAnyName) {
		return e.missing
	}
	return ErrNotFound
}

// hidden is what 404 means in the REST API: GitHub answers it in place of 403 if the credential must not even learn that
// the organization or repository exists.
var hidden = endpoint{missing: ErrUnauthorized, missingByAnyName: true}

var endpoints = map[string]endpoint{
	EndpointInstallationToken: hidden,
	EndpointRegistrationToken: hidden,
	EndpointRegister:          hidden,
	EndpointListRunners:       hidden,
	EndpointFindScaleSet:      {},
	EndpointGetScaleSet:       {missing: ErrScaleSetNotFound},
	EndpointCreateScaleSet:    {conflict: ErrScaleSetExists},
	EndpointUpdateScaleSet:    {missing: ErrScaleSetNotFound, conflict: ErrScaleSetExists},
	EndpointDeleteScaleSet:    {missing: ErrScaleSetNotFound},
	EndpointFindRunnerGroup:   {missing: ErrRunnerGroupNotFound},
	EndpointGenerateJITConfig: {missing: ErrScaleSetNotFound, conflict: ErrRunnerExists},
	EndpointGetRunner:         {missing: ErrRunnerNotFound},
	EndpointFindRunner:        {missing: ErrRunnerNotFound},
	// GitHub's REST API refuses with 422 to remove a busy runner. When in doubt, the runner counts as busy: it may have a job.
	EndpointRemoveRunner:      {missing: ErrRunnerNotFound, conflict: ErrJobStillRunning, unprocessable: ErrJobStillRunning},
	EndpointGetAcquirableJobs: {},
	EndpointCreateSession:     {missing: ErrScaleSetNotFound, conflict: ErrSessionConflict},
	EndpointRefreshSession:    {missing: ErrSessionNotFound, missingByAnyName: true}, // RunnerAdminException
	EndpointDeleteSession:     {missing: ErrSessionNotFound},
	EndpointAcquireJobs:       {missing: ErrScaleSetNotFound},
	EndpointGetMessage:        {missing: ErrSessionNotFound},
	EndpointDeleteMessage:     {},
}

// describe turns an endpoint's name into words.
func describe(endpoint string) string { return strings.ReplaceAll(endpoint, "_", " ") }
