package conversion

import (
	"slices"

	"github.com/harrier-ci/harrier/operations/convert/legacy"
	"github.com/harrier-ci/harrier/operations/convert/remarks"
)

// Variables of the runner by their use in ARC's image.
var (
	// switches turn off what GitHub's image doesn't do.
	switches = []string{
		"LOG_DEBUG_DISABLED", "LOG_NOTICE_DISABLED", "LOG_WARNING_DISABLED", "LOG_ERROR_DISABLED",
		"LOG_SUCCESS_DISABLED",
		"STARTUP_DELAY_IN_SECONDS",
		"DISABLE_WAIT_FOR_DOCKER", "RUNNER_STATUS_UPDATE_HOOK", "RUNNER_ASSETS_DIR", "RUNNER_HOME", "UNITTEST",
		"DOCKER_ENABLED", "DOCKERD_IN_RUNNER",
		"ARC_DOCKER_MTU_PROPAGATION",
	}
	// registration has the variables with which ARC's script registers the runner.
	registration = []string{
		"RUNNER_NAME", "RUNNER_TOKEN", "RUNNER_ORG", "RUNNER_REPO", "RUNNER_ENTERPRISE", "RUNNER_LABELS",
		"RUNNER_GROUP",
		"RUNNER_GROUPS", "RUNNER_WORKDIR",
		"RUNNER_EPHEMERAL", "RUNNER_FEATURE_FLAG_EPHEMERAL", "RUNNER_FEATURE_FLAG_ONCE", "GITHUB_URL",
	}
	// ofMode are variables that ARC sets after the user's, so that these have no effect. Those of the chart give way to
	// the user's.
	ofMode = map[string][]string{
		modeDind:       {"DOCKER_HOST"},
		modeKubernetes: {"ACTIONS_RUNNER_CONTAINER_HOOKS", "ACTIONS_RUNNER_POD_NAME", "ACTIONS_RUNNER_JOB_NAMESPACE"},
	}
	// ofDaemon are options of a daemon in the runner's container.
	ofDaemon = []string{poolBase, poolSize, "MTU", "DOCKER_REGISTRY_MIRROR", "DOCKER_INSECURE_REGISTRY"}
)

// The addresses of Docker's networks, which ARC's image takes from both or not at all.
const poolBase, poolSize = "DOCKER_DEFAULT_ADDRESS_POOL_BASE", "DOCKER_DEFAULT_ADDRESS_POOL_SIZE"

// variables converts the variables of a container, other than those that were meant for ARC's image. The report has the
// names of variables, and not their values.
func (c *conversion) variables(part *legacy.Fields, key, target string) (variables []any) {
	for _, entry := range part.Objects(key) {
		name := entry.Text("name")
		field := part.Path(key) + "[" + name + "]"
		why := c.notNeeded(name, target)
		switch {
		case why != "":
			c.NotNeeded(why, field)
			entry.Drop()
			continue
		case target == runnerPath && c.dockerInRunner && slices.Contains(ofDaemon, name):
			c.daemonOption(entry, name, field)
			continue
		case target == runnerPath && name == "WAIT_FOR_DOCKER_SECONDS":
			name = "RUNNER_WAIT_FOR_DOCKER_IN_SECONDS"
		}
		variable := map[string]any{"name": name}
		if entry.Has("value") {
			variable["value"] = entry.Text("value")
		}
		if entry.Has("valueFrom") {
			variable["valueFrom"] = entry.Any("valueFrom")
		}
		c.Became(field, target+".env["+name+"]")
		variables = append(variables, variable)
	}
	return variables
}

// notNeeded returns the reason why a variable has nothing left to do; "" if it has.
func (c *conversion) notNeeded(name, target string) string {
	switch {
	case target == dockerPath && name == "DOCKER_GROUP_GID":
		return "the container dind gives the socket to the group of GitHub's image"
	case (target == dockerPath || target == runnerPath) && name == "RUNNER_GRACEFUL_STOP_TIMEOUT":
		return "a runner that runs a job is not stopped"
	case target != runnerPath:
		return ""
	case slices.Contains(switches, name):
		return "it is a switch of ARC's image, which GitHub's doesn't have"
	case slices.Contains(registration, name):
		return "the controller registers the runner"
	case slices.Contains(ofMode[c.mode], name):
		return "the container mode sets it"
	case name == "DISABLE_RUNNER_UPDATE":
		return "runners of scale sets don't update themselves: they are as new as their image"
	case slices.Contains(ofDaemon, name) && !c.dockerInRunner:
		return "only an image with Docker in it uses it"
	}
	return ""
}

// daemonOption keeps an option for the arguments of the container dind, if its value stands here.
func (c *conversion) daemonOption(entry *legacy.Fields, name, field string) {
	if value := entry.Text("value"); value != "" {
		c.daemon[name] = option{field, value}
		return
	}
	entry.Drop()
	c.NeedsHand("NoCounterpart", "an option of Docker has no value here, and arguments can't have it from elsewhere",
		remarks.Advice{Whose: remarks.Installer, Fix: "add it to " + dockerPath + ".args"}, field)
}
