package rig

import (
	"runtime"
	"testing"

	"github.com/harrier-ci/harrier/internal/testkube"
)

// What can't be measured is not nothing.
func TestUsageOfNoAPIServer(t *testing.T) {
	used, err := APIServerUsage(&testkube.Cluster{})
	if onLinux := runtime.GOOS == "linux"; onLinux != (err != nil) || used != (Usage{}) {
		t.Errorf("an API server that doesn't run has used %+v, %v", used, err)
	}
}
