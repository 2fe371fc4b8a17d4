package registrations

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
)

func TestStraysAmong(t *testing.T) {
	offline := []string{
		"set-runner-bbbbb", "SET-runner-aaaaa", "set-runner-known", "sets-runner-aaaaa", "other", "set-runner-bbbbb",
	}
	got := straysAmong(offline, "set", sets.New("set-runner-known", "set-runner-more"))
	if diff := cmp.Diff([]string{"set-runner-aaaaa", "set-runner-bbbbb"}, got); diff != "" {
		t.Error(diff)
	}
}
