package diagnosis

import (
	"strings"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/meaning"
)

// fixOfRunner returns what to do about the set's runners that failed with a reason. An unwritable work folder looks
// like a wrong command.
func (s set) fixOfRunner(reason string) string {
	fix := meaning.OfRunner(reason)
	if unwritable := kube.UnwritableWork(&s.Spec.Template.Spec, v1alpha1.RunnerContainerName); unwritable != "" &&
		strings.HasPrefix(fix, meaning.CorrectCommand) {
		fix += "; " + unwritable
	}
	return fix
}
