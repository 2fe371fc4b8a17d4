package actions

import "strings"

// Names of GitHub's endpoints, for metrics and errors.
const (
	EndpointInstallationToken = "create_installation_token"
	EndpointRegistrationToken = "create_registration_token"
	EndpointRegister          = "register"
	EndpointFindScaleSet      = "find_scale_set"
	EndpointGetScaleSet       = "get_scale_set"
	EndpointCreateScaleSet    = "create_scale_set"
	EndpointUpdateScaleSet    = "update_scale_set"
	EndpointDeleteScaleSet    = "delete_scale_set"
	EndpointFindRunnerGroup   = "find_runner_group"
	EndpointGenerateJITConfig = "generate_jit_config"
	EndpointGetRunner         = "get_runner"
	EndpointFindRunner        = "find_runner"
	EndpointRemoveRunner      = "remove_runner"
	EndpointGetAcquirableJobs = "get_acquirable_jobs"
	EndpointCreateSession     = "create_session"
	EndpointRefreshSession    = "refresh_session"
	EndpointDeleteSession     = "delete_session"
	EndpointAcquireJobs       = "acquire_jobs"
	EndpointGetMessage        = "get_message"
	EndpointDeleteMessage     = "delete_message"
)

// endpoint says what an answer means that names no exception.
type endpoint struct {
	// missing is the meaning of 404, conflict that of 409, unprocessable that of 422; nil when there is no particular one.
	missing, conflict, unprocessable error
	// missingByAnyName applies missing also when the answer names an exception that says nothing to us.
	missingByAnyName bool
}

// meaningOfNotFound is careful with exceptions it doesn't know: "no such tenant" must not pass for "no such runner",
// because whoever removes runners takes that for success.
func (e endpoint) meaningOfNotFound(exception string) error {
	if e.missing != nil && (exception == "" || e.missingByAnyName) {
		return e.missing
	}
	return ErrNotFound
}

// hidden is what 404 means of the REST API: GitHub says it instead of 403 where a credential must not even learn that
// an organization or repository exists.
var hidden = endpoint{missing: ErrUnauthorized, missingByAnyName: true}

var endpoints = map[string]endpoint{
	EndpointInstallationToken: hidden,
	EndpointRegistrationToken: hidden,
	EndpointRegister:          hidden,
	EndpointFindScaleSet:      {},
	EndpointGetScaleSet:       {missing: ErrScaleSetNotFound},
	EndpointCreateScaleSet:    {conflict: ErrScaleSetExists},
	EndpointUpdateScaleSet:    {missing: ErrScaleSetNotFound, conflict: ErrScaleSetExists},
	EndpointDeleteScaleSet:    {missing: ErrScaleSetNotFound},
	EndpointFindRunnerGroup:   {missing: ErrRunnerGroupNotFound},
	EndpointGenerateJITConfig: {missing: ErrScaleSetNotFound, conflict: ErrRunnerExists},
	EndpointGetRunner:         {missing: ErrRunnerNotFound},
	EndpointFindRunner:        {missing: ErrRunnerNotFound},
	// With 422 GitHub's REST API refuses to remove a busy runner. Doubt counts as busy: a job may depend on it.
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
