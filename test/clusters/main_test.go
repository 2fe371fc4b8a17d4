// Package clusters tests two clusters that share the jobs of one GitHub, as docs/clusters.md tells a platform team to
// set them up. Each has an API server, a manager and a listener of its own (package rig).
package clusters

import (
	"os"
	"testing"

	"github.com/harrier-ci/harrier/test/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }
