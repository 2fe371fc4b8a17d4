package load

import "fmt"

// budget is what a load may cost on any machine.
type budget struct{ requests, gitHub float64 }

// budgetsOf returns the budget of a scenario. DESIGN §8 allows 12 requests of a runner in a burst: creations of runner,
// Secret and pod, three status patches, two more by the listener, three deletions, one release of the finalizer, and a
// share of what is written for the whole set, which is at most one write a second and kind.
// Jobs that come one at a time share no message, so each has a patch of replicas, of the set's status, and
// calls to GitHub of its own; those of sets of 20 share less than those of a large one.
func budgetsOf(scenario string) budget {
	switch scenario {
	case "latency", "churn", "soak":
		return budget{requests: 20, gitHub: 6}
	case "sets", "hang":
		return budget{requests: 14, gitHub: 4}
	default:
		return budget{requests: 12, gitHub: 1.5}
	}
}

// exceeded names what is over budget.
func (b budget) exceeded(result Result) []string {
	var over []string
	for name, figure := range map[string]struct{ is, most float64 }{
		"requests to the API server per runner": {result.RequestsPerRunner, b.requests},
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
