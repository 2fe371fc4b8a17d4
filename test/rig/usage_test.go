package rig

import (
	"runtime"
	"testing"

	"github.com/harrier-ci/harrier/internal/testkube"
)

// On Linux an API server without a process is an error, not a usage of zero.
func TestUsageOfNoAPIServer(t *testing.T) {
	used, err := APIServerUsage(&testkube.Cluster{})
	if onLinux := runtime.GOOS == "linux"; onLinux != (err != nil) || used != (Usage{}) {
		t.Errorf("an API server that doesn't run has used %+v, %v", used, err)
	}
}
