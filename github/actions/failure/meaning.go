package failure

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Sentinel errors, to be matched with errors.Is.
var (
	// ErrNotFound means that something does not exist. All errors whose names end in NotFound match it.
	ErrNotFound = errors.New("not found")
	// ErrRunnerNotFound means that the runner is not registered, or no longer.
	ErrRunnerNotFound = fmt.Errorf("runner %w", ErrNotFound)
	// ErrScaleSetNotFound means that the scale set does not exist. GitHub was observed to delete one that is unused for
	// some days.
	ErrScaleSetNotFound = fmt.Errorf("scale set %w", ErrNotFound)
	// ErrRunnerGroupNotFound means that the runner group does not exist, or that the credentials can't see it.
	ErrRunnerGroupNotFound = fmt.Errorf("runner group %w", ErrNotFound)
	// ErrSessionNotFound means that the session expired or was evicted: create a new one.
	ErrSessionNotFound = fmt.Errorf("session %w", ErrNotFound)

	// ErrRunnerExists means that a runner of that name is already registered in the organization, repository or
	// enterprise.
	ErrRunnerExists = errors.New("runner name is taken")
	// ErrScaleSetExists means that the runner group already has a scale set of that name.
	ErrScaleSetExists = errors.New("scale set name is taken")
	// ErrSessionConflict means that the scale set already has a session, even if it has the same owner. It can't be
	// taken over. GitHub was observed to end an abandoned one after 60 to 91 s.
	ErrSessionConflict = errors.New("another session of the scale set is open")
	// ErrJobStillRunning means that the runner was not removed because it has a job.
	ErrJobStillRunning = errors.New("the runner has a job")
	// ErrUnauthorized means that GitHub refused a credential, the one in [Error.Credential].
	ErrUnauthorized = errors.New("credential refused")
	// ErrForeignAnswer means that the answer is markup. Neither the Actions service nor the REST API sends any, so it
	// comes from a proxy, gateway or firewall on the way and says nothing about what was asked for.
	ErrForeignAnswer = errors.New("the answer did not come from GitHub's API")
	// ErrTruncated means that the answer ends too early.
	ErrTruncated = errors.New("the answer was cut short")
)

// Names of GitHub's endpoints, for metrics and errors.
const (
	// Endpoints of the REST API.
	EndpointInstallationToken = "create_installation_token" // POST app/installations/{id}/access_tokens
	EndpointRegistrationToken = "create_registration_token" // POST {scope}/actions/runners/registration-token
	EndpointRegister          = "register"                  // POST actions/runner-registration
	EndpointListRunners       = "list_runners"              // GET {scope}/actions/runners

	// Endpoints of the REST API that are about workflow runs and commits, below repos/{owner}/{repo}.
	EndpointRunnerDownloads = "list_runner_downloads" // GET actions/runners/downloads
	EndpointRunnerReleases  = "list_runner_releases"  // GET repos/actions/runner/releases
	EndpointGetRun          = "get_workflow_run"      // GET actions/runs/{id}
	EndpointListRunJobs     = "list_run_jobs"         // GET actions/runs/{id}/jobs
	EndpointListRuns        = "list_workflow_runs"    // GET actions/workflows/{id}/runs
	EndpointRerunJob        = "rerun_job"             // POST actions/jobs/{id}/rerun
	EndpointRerunFailedJobs = "rerun_failed_jobs"     // POST actions/runs/{id}/rerun-failed-jobs
	EndpointListCheckRuns   = "list_check_runs"       // GET commits/{sha}/check-runs
	EndpointCreateCheckRun  = "create_check_run"      // POST check-runs
	EndpointUpdateCheckRun  = "update_check_run"      // PATCH check-runs/{id}

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

// Words turns an endpoint's name into words.
func Words(endpoint string) string { return strings.ReplaceAll(endpoint, "_", " ") }

// exceptions maps the service's exception names to what they mean. Names are matched by substring because the service
// sends them with a namespace and an assembly, which have changed over time. Their status codes differ between
// versions.
var exceptions = []struct {
	name    string
	meaning error
}{
	{"AgentExistsException", ErrRunnerExists},
	{"AgentNotFoundException", ErrRunnerNotFound},
	{"JobStillRunningException", ErrJobStillRunning},
	{"SessionConflictException", ErrSessionConflict},
	{"SessionExpiredException", ErrSessionNotFound},
	{"RunnerScaleSetNotFoundException", ErrScaleSetNotFound},
	{"RunnerScaleSetExistsException", ErrScaleSetExists},
}

// endpoint has the meanings of answers without the name of an exception.
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

// hidden is the meaning of 404 in the REST API: GitHub answers it in place of 403 if the credential must not even learn
// that the organization or repository exists.
var hidden = endpoint{missing: ErrUnauthorized, missingByAnyName: true}

var endpoints = map[string]endpoint{
	EndpointInstallationToken: hidden,
	EndpointRegistrationToken: hidden,
	EndpointRegister:          hidden,
	EndpointListRunners:       hidden,
	EndpointRunnerDownloads:   {},
	EndpointRunnerReleases:    {},
	EndpointGetRun:            {},
	EndpointListRunJobs:       {},
	EndpointListRuns:          {},
	EndpointRerunJob:          {},
	EndpointRerunFailedJobs:   {},
	EndpointListCheckRuns:     {},
	EndpointCreateCheckRun:    {},
	EndpointUpdateCheckRun:    {},
	EndpointFindScaleSet:      {},
	EndpointGetScaleSet:       {missing: ErrScaleSetNotFound},
	EndpointCreateScaleSet:    {conflict: ErrScaleSetExists},
	EndpointUpdateScaleSet:    {missing: ErrScaleSetNotFound, conflict: ErrScaleSetExists},
	EndpointDeleteScaleSet:    {missing: ErrScaleSetNotFound},
	EndpointFindRunnerGroup:   {missing: ErrRunnerGroupNotFound},
	EndpointGenerateJITConfig: {missing: ErrScaleSetNotFound, conflict: ErrRunnerExists},
	EndpointGetRunner:         {missing: ErrRunnerNotFound},
	EndpointFindRunner:        {missing: ErrRunnerNotFound},
	// GitHub's REST API refuses with 422 to remove a busy runner. When in doubt, the runner counts as busy: it may have
	// a job.
	EndpointRemoveRunner: {
		missing:       ErrRunnerNotFound,
		conflict:      ErrJobStillRunning,
		unprocessable: ErrJobStillRunning,
	},
	EndpointGetAcquirableJobs: {},
	EndpointCreateSession:     {missing: ErrScaleSetNotFound, conflict: ErrSessionConflict},
	EndpointRefreshSession:    {missing: ErrSessionNotFound, missingByAnyName: true}, // RunnerAdminException
	EndpointDeleteSession:     {missing: ErrSessionNotFound},
	EndpointAcquireJobs:       {missing: ErrScaleSetNotFound},
	EndpointGetMessage:        {missing: ErrSessionNotFound},
	EndpointDeleteMessage:     {},
}

// meaningOf returns the meaning of an answer that is no success, nil for none in particular. exception is the name of
// the service's exception, if it names one.
func meaningOf(name string, status int, exception string, webPage bool) error {
	for _, known := range exceptions {
		if strings.Contains(exception, known.name) {
			return known.meaning
		}
	}
	switch {
	case status == http.StatusUnauthorized:
		return ErrUnauthorized // whoever refused the credential: renewing it costs little
	case webPage:
		return ErrForeignAnswer
	}
	switch status {
	case http.StatusForbidden:
		return ErrUnauthorized
	case http.StatusConflict:
		return endpoints[name].conflict
	case http.StatusUnprocessableEntity:
		return endpoints[name].unprocessable
	case http.StatusNotFound, http.StatusGone:
		return endpoints[name].meaningOfNotFound(exception)
	}
	return nil
}
