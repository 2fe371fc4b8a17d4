package trends

import "strings"

// What stands in the place of refs that never repeat, such as that of a pull request. A branch that is really named so
// counts among them.
const (
	PullRequests = "(pull requests)"
	Tags         = "(tags)"
	MergeQueue   = "(merge queue)"
)

const branches = "refs/heads/"

// together are refs that count as one.
var together = []struct{ prefix, name string }{
	{"refs/pull/", PullRequests}, {"refs/tags/", Tags}, {branches + "gh-readonly-queue/", MergeQueue},
}

// BranchOf returns the branch of a ref, or what refs like it are called.
func BranchOf(ref string) string {
	for _, many := range together {
		if strings.HasPrefix(ref, many.prefix) {
			return many.name
		}
	}
	return strings.TrimPrefix(ref, branches)
}

// RefsOf returns the refs whose branch this is: one, or all that begin with a prefix.
func RefsOf(branch string) (ref, prefix string) {
	for _, many := range together {
		if many.name == branch {
			return "", many.prefix
		}
	}
	if strings.HasPrefix(branch, "refs/") {
		return branch, ""
	}
	return branches + branch, ""
}
