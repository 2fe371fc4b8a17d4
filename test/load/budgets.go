package load

import (
	"fmt"
	"math"
)

// budget bounds the cost of a load on any machine.
type budget struct {
	// requests counts requests to the API server per runner, own those of them about the runner itself, shared those
	// about sets per second, and gitHub the calls to GitHub per runner.
	requests, own, shared, gitHub float64
}

// budgetsOf returns the budget of a scenario. docs/performance.md allows 12 requests per runner in a burst, of which 11
// are the runner's own: three creations (runner, Secret and pod), the manager's status patch, two more by the listener,
// one of the pod, three deletions, and the release of the finalizer. The rest is written for a set: two statuses, each
// at most every second, and replicas after a poll, at most five a second. The share of one runner depends on the
// machine, and so does the number of messages about its job. The scenario check has to pass on every machine, so it
// bounds requests about sets per second and allows one message per job.
//
// The creation of a claim costs one more of the runner's own requests; a claim that a runner finds costs none.
//
// Jobs that come one at a time share no requests. Those of sets of 20 share fewer than those of a large set.
func budgetsOf(scenario string) budget {
	const own, sharedOfASet = 11.1, 8 // 0.1 for the few that are repeated after a conflict
	switch scenario {
	case "check":
		return budget{requests: 20, own: own, shared: sharedOfASet, gitHub: 2.5}
	case "latency", "churn", "soak":
		return budget{requests: 20, own: own, shared: sharedOfASet, gitHub: 6}
	case "sets", "hang":
		return budget{requests: 14, own: own, shared: 50 * sharedOfASet, gitHub: 4}
	case "limit":
		// A refused runner is requested again in later windows, see limited.go.
		return budget{requests: 20, own: own + 2, shared: sharedOfASet, gitHub: 2.5}
	case "idle":
		// Without jobs there is nothing to divide by. The figures of interest are among the notes.
		return budget{requests: math.Inf(1), own: math.Inf(1), shared: math.Inf(1), gitHub: math.Inf(1)}
	default:
		return budget{requests: 12, own: own, shared: sharedOfASet, gitHub: 1.5}
	}
}

// exceeded lists the figures that are over budget.
func (b budget) exceeded(result Result) []string {
	claims := float64(result.Claims) / float64(max(1, result.Jobs))
	b.requests, b.own = b.requests+claims, b.own+claims
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
			over = append(over, fmt.Sprintf("%s: %.2f, at most %.2f are allowed", name, figure.is, figure.most))
		}
	}
	return over
}
