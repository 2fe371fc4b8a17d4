package roster

import (
	"testing"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

func TestSpellingsOfOnePlace(t *testing.T) {
	at := func(url string) ConfigURL { return ConfigURLOf(&v1alpha1.EphemeralRunnerSpec{GitHubConfigUrl: url}) }
	for _, same := range []string{"https://github.com/My-Org/", " https://GitHub.com/my-org"} {
		if at(same) != at("https://github.com/my-org") {
			t.Errorf("%q is another address", same)
		}
	}
	if at("https://github.com/my-org/repo") == at("https://github.com/my-org") {
		t.Error("a repository is its organization")
	}
}
