package load

import (
	"fmt"
	"math"
)

// budget is what a load may cost on any machine.
type budget struct {
	// requests, of them own, and gitHub are those of one runner; shared those of sets in a second.
	requests, own, shared, gitHub float64
}

// budgetsOf returns the budget of a scenario. docs/performance.md allows 12 requests of a runner in a burst, 11 of them
// its own: creations of runner, Secret and pod, the manager's status patch, two more by the listener, one of the pod,
// three deletions, the release of the finalizer. The rest is what is written for a set: two statuses at most once a
// second, and replicas after a poll, of which there are five a second at most. How many of that a runner bears depends on
// the machine, as does the number of messages that tell of its job; so check, which has to hold everywhere, has a budget
// by the second, and room for a message of each job.
// Jobs that come one at a time share nothing; those of sets of 20 share less than those of a large one.
func budgetsOf(scenario string) budget {
	const own, sharedOfASet = 11.1, 8 // 0.1: a few repeated after a conflict
	switch scenario {
	case "check":
		return budget{requests: 20, own: own, shared: sharedOfASet, gitHub: 2.5}
	case "latency", "churn", "soak":
		return budget{requests: 20, own: own, shared: sharedOfASet, gitHub: 6}
	case "sets", "hang":
		return budget{requests: 14, own: own, shared: 50 * sharedOfASet, gitHub: 4}
	case "limit":
		// A runner is asked for again in the windows after its own: see limited.go.
		return budget{requests: 20, own: own + 2, shared: sharedOfASet, gitHub: 2.5}
	case "idle":
		// Without jobs there is nothing to divide by: the figures to look at are among the notes.
		return budget{requests: math.Inf(1), own: math.Inf(1), shared: math.Inf(1), gitHub: math.Inf(1)}
	default:
		return budget{requests: 12, own: own, shared: sharedOfASet, gitHub: 1.5}
	}
}

// exceeded names what is over budget.
func (b budget) exceeded(result Result) []string {
	var over []string
	for name, figure := range map[string]struct{ is, most float64 }{
		"requests to the API server per runner": {result.RequestsPerRunner, b.requests},
		"requests about a runner itself":        {result.OwnPerRunner, b.own},
		"requests about sets per second":        {result.SharedPerSecond, b.shared},
		"calls to GitHub per runner":            {result.GitHubPerRunner, b.gitHub},
		"runners too many":                      {float64(result.OverCreated), 0},
		"things leaked":                         {float64(len(result.Leaked)), 0},
		"requests refused by RBAC":              {float64(len(result.Refused)), 0},
	} {
		if figure.is > figure.most {
			over = append(over, fmt.Sprintf("%s: %.2f, allowed are %.2f", name, figure.is, figure.most))
		}
	}
	return over
}
