package diagnosis_test

import (
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/operations/doctor/diagnosis"
	"github.com/harrier-ci/harrier/operations/finding"
)

// How many lost jobs wait for the decision whether they run again is told, and that nobody has to act.
func TestRerunsThatWait(t *testing.T) {
	s := healthy()
	s.Sets[0].RunnerSets = append(s.Sets[0].RunnerSets, v1alpha1.EphemeralRunnerSet{
		Status: v1alpha1.EphemeralRunnerSetStatus{RerunsWaiting: 2900}})
	for _, found := range diagnosis.Diagnose(s) {
		if found.Reason == "RerunsWaiting" && found.Severity == finding.Info && strings.Contains(found.Message, "2900 lost jobs wait") {
			return
		}
	}
	t.Errorf("the doctor says %+v", diagnosis.Diagnose(s))
}
