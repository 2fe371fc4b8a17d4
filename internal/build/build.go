// Package build has the name, the version and the commit of this program. The linker sets both variables (-ldflags "-X
// github.com/harrier-ci/harrier/internal/build.Version=…"). Builds without that flag have version dev.
package build

var (
	// Version is the version of the charts this binary belongs to, such as 0.1.0.
	Version = "dev"
	// CommitSHA is the commit that this binary was built from.
	CommitSHA = "dev"
)

// Program is what this program says that it is, and ProgramFlag the flag with which the chart asks whether it is that.
const (
	Program     = "harrier"
	ProgramFlag = "program"
)
