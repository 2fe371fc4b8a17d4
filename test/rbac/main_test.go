// Package rbac compares the charts' rules with the programs' requests. It leads an installation through everything that
// makes manager and listener write (package rig, on a real API server with its audit log). Meanwhile it collects the
// rules of each account. It fails on a refused request, and on a verb that nobody needed.
package rbac

import (
	"os"
	"testing"

	"github.com/harrier-ci/harrier/test/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }
