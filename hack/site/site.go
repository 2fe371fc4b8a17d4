// Package site prepares what the product needs to run: a cluster, a simulated GitHub (internal/fakegithub), and the
// images of this tree. It installs both charts there, waits with deadlines whose errors name what is missing, and finds
// what is left after an uninstallation. hack/demo and test/e2e are built on it.
package site

import (
	"context"
	"fmt"
	"io"

	"github.com/harrier-ci/harrier/hack/installation"
	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// Names of what is installed. The callers name scale sets and their namespaces.
const (
	SystemNamespace = "harrier-demo-system"
	ControllerName  = "harrier-demo"
	// Organization is the organization that the runners serve.
	Organization = "my-org"
)

// Site is a cluster with a GitHub, ready for the charts to be installed.
type Site struct {
	// Root is the directory with this module's go.mod.
	Root string
	installation.Tools
	// ProductImage and DemoImage are images that the cluster's nodes have or can pull.
	ProductImage, DemoImage string
	// PullPolicy is that of all pods. With a registry it is Always, because a tag may have been pushed again.
	PullPolicy string
	// GitHubURL is GitHub's URL for pods, without an organization.
	GitHubURL string
	// Control reaches the same GitHub from this process, to queue jobs and read its state.
	Control *fakegithub.ControlClient
	// Logs is a directory with logs for the search of a failure's cause. Empty if there is none.
	Logs string
	// Progress gets a line about what is being waited for; nil: none.
	Progress io.Writer
	// Failed returns an error if something that the site depends on has ended. If Failed is nil, that does not happen.
	Failed func() error
	// Down removes the site.
	Down func(context.Context) error
	// Leave gives up the site and keeps it running.
	Leave func()
	// AddNode starts a second node and returns its name. It has the taint cluster.SecondNodeTaint. Nil if the site
	// can't.
	AddNode func(context.Context) (string, error)
	// AddStorage starts a CSI stack with the driver cluster.CSIDriver, and returns the folder with its volumes. Nil if the
	// site can't.
	AddStorage func(context.Context) (string, error)
}

// Report writes a line to Progress. Failures to write are ignored.
func (s *Site) Report(format string, arguments ...any) {
	if s.Progress != nil {
		_, _ = fmt.Fprintf(s.Progress, format+"\n", arguments...)
	}
}
