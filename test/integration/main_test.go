// Package integration tests the product as a whole: real charts, manager and listener on a real API server, against a
// GitHub and a node that are played (package rig). Each test has its own installation.
package integration

import (
	"os"
	"testing"

	"github.com/harrier-ci/harrier/test/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }
