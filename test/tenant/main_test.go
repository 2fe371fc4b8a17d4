// Package tenant lets one team attack another while both share a manager. Both charts, manager and listener run as on a
// cluster (package rig). Team a has scale sets that take jobs; team b has an account with rights in its own namespace
// only, and servers of its own in place of its GitHub, its proxies, and the addresses that only the cluster may reach.
//
//	tenants ─▶ stage (servers, rig, both teams) ─▶ attacks ─▶ a minute in which team a takes jobs ─▶ witness
//
// An attack is a row of a table: what team b writes, what it is told, and what must not have happened. After every
// attack the witness checks that team b has not read, changed, reached or slowed down anything but its own. In make
// test all attacks share a rig and a minute; make tenant-nightly gives each a rig of its own on every path: written
// while the manager runs, before it starts, and before it is killed.
//
// Beside them is a contest: sets of both teams at the same addresses, where team b's own server answers whatever it
// likes to team b's sets. A claim is a row of a table there, and every claim is about a scale set of its own, which
// team a installs, changes, restores, uninstalls and installs again meanwhile.
package tenant

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/harrier-ci/harrier/test/rig"
)

var (
	everyPath = flag.Bool("tenant.every-path", false,
		"give each table of attacks a rig of its own on every path, instead of one rig to all")
	only      = flag.String("tenant.only", "", "a regular expression: make only the attacks whose names match")
	linkLocal = flag.Bool("tenant.link-local", false,
		"also attack link-local and clouds' metadata addresses; the process has to be in a network namespace "+
			"of its own")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *linkLocal {
		if err := ownNetwork(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(rig.Main(m))
}
