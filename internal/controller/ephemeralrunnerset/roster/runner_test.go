package roster_test

import (
	"testing"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
)

func TestSpellingsOfOnePlace(t *testing.T) {
	at := func(url string) roster.ConfigURL {
		return roster.ConfigURLOf(&v1alpha1.EphemeralRunnerSpec{GitHubConfigUrl: url})
	}
	for _, same := range []string{"https://github.com/My-Org/", " https://GitHub.com/my-org"} {
		if at(same) != at("https://github.com/my-org") {
			t.Errorf("%q is another address", same)
		}
	}
	if at("https://github.com/my-org/repo") == at("https://github.com/my-org") {
		t.Error("a repository is its organization")
	}
}

// A runner on a node that is shut down in good order is told to stop, and tells GitHub. One on a node that is gone does
// not.
func TestWhoseRunnerWasSilent(t *testing.T) {
	for reason, silent := range map[string]bool{
		"Terminated": false, "NodeShutdown": false, "TerminationByKubelet": false, "NodeLost": true,
		"DeletionByTaintManager": true, "PodLost": true, "": true,
	} {
		lost := &v1alpha1.EphemeralRunner{}
		lost.Status.LostCause, lost.Status.Reason = v1alpha1.LostCauseNodeLost, reason
		if view := roster.Of(lost); view.LostJob.Silent != silent {
			t.Errorf("%q: silent is %v", reason, view.LostJob.Silent)
		}
	}
	evicted := &v1alpha1.EphemeralRunner{}
	evicted.Status.LostCause, evicted.Status.Reason = v1alpha1.LostCauseEvicted, "Evicted"
	if roster.Of(evicted).LostJob.Silent {
		t.Error("an evicted runner is silent")
	}
}
