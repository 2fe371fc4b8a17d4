// Package recipe says which programs and files go into each image of the project, builds the programs and hands the result
// to hack/images/archive. Programs are static, so no image has a base.
package recipe

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/harrier-ci/harrier/hack/images/archive"
)

const (
	// LocalName is the product's name where no registry is involved.
	LocalName = "localhost/harrier/gha-runner-scale-set-controller:dev"
	// DemoSuffix after the product's tag names the image of Demo.
	DemoSuffix = "-demo"
	// StandInSuffix after the product's tag names the image of StandIn where runners use it.
	StandInSuffix = "-stand-in"
	// DockerName is what the chart names the image of its Docker daemon, in full.
	DockerName = "docker.io/library/docker:dind"
)

// Recipe is an image to be built from packages of this module.
type Recipe struct {
	// Name is used in messages and as the name of the archive.
	Name string
	// Programs maps the path of a program in the image to its package below the module's root.
	Programs map[string]string
	// Entrypoint and User as in archive.Spec.
	Entrypoint []string
	User       string
	// TrustedCertificates copies this machine's CA bundle into the image, for programs that call the Internet.
	TrustedCertificates bool
}

// Product returns the image that both charts install: manager and listener.
func Product() Recipe {
	return Recipe{
		Name:                "product",
		Programs:            map[string]string{"/manager": "./cmd/manager", "/ghalistener": "./cmd/listener"},
		Entrypoint:          []string{"/manager"},
		User:                "65532:65532",
		TrustedCertificates: true,
	}
}

// Demo returns the image with what a demonstration needs besides the product: a GitHub that runs in memory and a runner that
// talks to it. The runner has the path of the real one, so the chart's default command starts it.
func Demo() Recipe {
	return Recipe{
		Name:       "demo",
		Programs:   map[string]string{"/fakegithub": "./test/fakegithub", "/home/runner/run.sh": "./test/runner"},
		Entrypoint: []string{"/home/runner/run.sh"},
		User:       "1001:1001",
	}
}

// StandIn returns the image that plays, in tests of container modes, what runners meet there: the Docker daemon and its client,
// the container hook, and the few files of the real runner image that the chart's pods touch.
func StandIn() Recipe {
	const docker = "./test/standin/docker"
	return Recipe{
		Name: "stand-in",
		Programs: map[string]string{
			"/home/runner/run.sh": "./test/runner", "/home/runner/k8s/index.js": "./test/standin/hook", "/home/runner/k8s-novolume/index.js": "./test/standin/hook",
			// No job is run by it; there has to be a file for the init container to copy.
			"/home/runner/externals/node": "./hack/images/pause",
			"/usr/local/bin/docker":       docker, "/usr/local/bin/cp": docker,
		},
		Entrypoint: []string{"/usr/local/bin/docker"},
	}
}

// Pause returns the image of a pod's first process.
func Pause() Recipe {
	return Recipe{
		Name:       "pause",
		Programs:   map[string]string{"/pause": "./hack/images/pause"},
		Entrypoint: []string{"/pause"},
		User:       "65535:65535",
	}
}

// bundles are the places where distributions keep their trusted certificates; the first is also the place in the image.
var bundles = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"}

// buildPackage holds the variables that tell a program its own version.
const buildPackage = "github.com/harrier-ci/harrier/internal/build"

// Build compiles the recipe's programs from the module at root into a directory below work, where the next call finds those
// that did not change, and makes the image of them. The error carries the compiler's output.
func (recipe Recipe) Build(ctx context.Context, root, work string, version Version) (*archive.Image, error) {
	binaries := filepath.Join(work, recipe.Name)
	if err := recipe.compile(ctx, root, binaries, version); err != nil {
		return nil, fmt.Errorf("build image %s: %w", recipe.Name, err)
	}
	image, err := archive.New(archive.Spec{
		Files:       recipe.files(binaries),
		Entrypoint:  recipe.Entrypoint,
		User:        recipe.User,
		Environment: []string{"PATH=/usr/local/bin:/usr/bin:/bin:/"},
		Labels: map[string]string{
			"org.opencontainers.image.version":  version.Version,
			"org.opencontainers.image.revision": version.Commit,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	})
	if err != nil {
		return nil, fmt.Errorf("build image %s: %w", recipe.Name, err)
	}
	return image, nil
}

// compile runs one go build per image: -o with a directory names each program after its package.
func (recipe Recipe) compile(ctx context.Context, root, binaries string, version Version) error {
	if err := os.MkdirAll(binaries, 0o755); err != nil {
		return err
	}
	ldflags := fmt.Sprintf("-s -w -X %[1]s.Version=%[2]s -X %[1]s.CommitSHA=%[3]s", buildPackage, version.Version, version.Commit)
	arguments := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o", binaries + string(filepath.Separator)}
	packages := slices.Sorted(maps.Values(recipe.Programs))
	arguments = append(arguments, slices.Compact(packages)...)
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir = root
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Run(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, strings.TrimSpace(output.String()))
	}
	return nil
}

// files maps every path in the image to where its content is on this machine. A machine without a CA bundle gives an image
// without one.
func (recipe Recipe) files(binaries string) map[string]archive.File {
	files := make(map[string]archive.File, len(recipe.Programs)+1)
	for target, packagePath := range recipe.Programs {
		files[target] = archive.File{Source: filepath.Join(binaries, path.Base(packagePath)), Mode: 0o755}
	}
	if !recipe.TrustedCertificates {
		return files
	}
	for _, bundle := range bundles {
		if _, err := os.Stat(bundle); err == nil {
			files[bundles[0]] = archive.File{Source: bundle, Mode: 0o644}
			break
		}
	}
	return files
}
