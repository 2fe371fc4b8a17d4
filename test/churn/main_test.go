// Package churn tests minutes of a cluster that loses its nodes. It waits more than it computes, so it runs beside
// other packages.
package churn

import (
	"os"
	"testing"

	"github.com/harrier-ci/harrier/test/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }
