package arc

// InPlace are the replacements that make of the manifests what ARC 0.15 leaves, as its source shows: there is one runner
// set for a scale set, which has its name and is upgraded in place by a revision that counts; it has a finalizer of its
// own, and neither hashes nor numbers of runners. The runners say which revision they were made from.
func InPlace() []string {
	const owner, hash = "    test/controlled-by: AutoscalingRunnerSet/arc\n", "    actions.github.com/runner-spec-hash: 7f9d5c6b4\n"
	return []string{
		"0.14.2", "0.15.0",
		"  name: arc-k7x2m\n  generateName: arc-\n", "  name: arc\n",
		"EphemeralRunnerSet/arc-k7x2m", "EphemeralRunnerSet/arc",
		"ephemeralRunnerSetName: arc-k7x2m", "ephemeralRunnerSetName: arc",
		`"ephemeral_runner_set_name":"arc-k7x2m"`, `"ephemeral_runner_set_name":"arc"`,
		"resourceNames: [arc-k7x2m]", "resourceNames: [arc]",
		"    actions.github.com/change-hash: 5c9f8b7d6\n", "",
		hash + owner, "    actions.github.com/autoscaling-runner-set-generation: \"1\"\n" + owner,
		hash, "    actions.github.com/actionable-revision: \"1\"\n",
		"finalizers: [ephemeralrunner.actions.github.com/finalizer] ", "finalizers: [ephemeralrunnerset.actions.github.com/finalizer] ",
		"  patchID: 3\n", "  patchID: 3\n  actionableRevision: 1\n",
		"status: {currentReplicas: 1, runningEphemeralRunners: 1, phase: Running}",
		"status: {phase: Running, appliedActionableRevision: 1, finishedRunnerCleanupPatchID: 2}",
		"status: {currentRunners: 1, phase: Running, pendingEphemeralRunners: 0, runningEphemeralRunners: 1, failedEphemeralRunners: 0}",
		"status: {phase: Running}",
		"{actions.github.com/runner-spec-hash: 7f9d5c6b4, ", "{",
	}
}
