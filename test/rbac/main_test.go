// Package rbac compares what the charts allow with what the programs ask for: it leads an installation through all that
// makes manager and listener write (package rig, on a real API server with its audit log), collects the rules that are
// bound to each account meanwhile, and fails on a request that was refused as well as on a verb that nobody needed.
package rbac

import (
	"os"
	"testing"

	"github.com/harrier-ci/harrier/test/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }
