// Package recipe says which programs and files go into each image of the project. It builds the programs and passes them to
// hack/images/archive. hack/images, hack/cluster and hack/site build images with it. Programs are linked statically, so no image
// needs a base.
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
	// LocalName is the name of the product's image if no registry is involved.
	LocalName = "localhost/harrier/gha-runner-scale-set-controller:dev"
	// DemoSuffix follows the product's tag in the name of Demo's image.
	DemoSuffix = "-demo"
	// StandInSuffix follows the product's tag in the name of StandIn's image where it serves as the runner's image.
	StandInSuffix = "-stand-in"
	// DockerName is the full name of the chart's image for its Docker daemon.
	DockerName = "docker.io/library/docker:dind"
)

// Recipe describes an image that is built from packages of this module.
type Recipe struct {
	// Name is used in messages and as the name of the archive.
	Name string
	// Programs maps the path of a program in the image to its package below the module's root.
	Programs map[string]string
	// Entrypoint and User are those of archive.Spec.
	Entrypoint []string
	User       string
	// TrustedCertificates puts the certificates of public authorities into the image, for programs that connect to the Internet.
	TrustedCertificates bool
}

// Product is the image that both charts use: manager, listener, and the program for operators, which runs as manager doctor, too.
func Product() Recipe {
	return Recipe{
		Name:                "product",
		Programs:            map[string]string{"/manager": "./cmd/manager", "/ghalistener": "./cmd/listener", "/harrier": "./cmd/harrier"},
		Entrypoint:          []string{"/manager"},
		User:                "65532:65532",
		TrustedCertificates: true,
	}
}

// Demo is the image with what a demonstration needs besides the product: a simulated GitHub and a runner that talks to it. The
// runner has the path of the real one, so that the chart's default command starts it.
func Demo() Recipe {
	return Recipe{
		Name:       "demo",
		Programs:   map[string]string{"/fakegithub": "./test/fakegithub", "/home/runner/run.sh": "./test/runner"},
		Entrypoint: []string{"/home/runner/run.sh"},
		User:       "1001:1001",
	}
}

// StandIn is an image for tests of container modes. It stands in for what runners find there: the Docker daemon and its client,
// the container hook, and the few files of the real runner image that the chart's pods use.
func StandIn() Recipe {
	const docker = "./test/standin/docker"
	return Recipe{
		Name: "stand-in",
		Programs: map[string]string{
			"/home/runner/run.sh": "./test/runner", "/home/runner/k8s/index.js": "./test/standin/hook", "/home/runner/k8s-novolume/index.js": "./test/standin/hook",
			// Any program will do: no job runs it, but the init container needs a file to copy.
			"/home/runner/externals/node": "./hack/images/pause",
			"/usr/local/bin/docker":       docker, "/usr/local/bin/cp": docker,
		},
		Entrypoint: []string{"/usr/local/bin/docker"},
	}
}

// Pause is the image of a pod's first process.
func Pause() Recipe {
	return Recipe{
		Name:       "pause",
		Programs:   map[string]string{"/pause": "./hack/images/pause"},
		Entrypoint: []string{"/pause"},
		User:       "65535:65535",
	}
}

// buildPackage has the variables for a program's version and commit.
const buildPackage = "github.com/harrier-ci/harrier/internal/build"

// Build compiles the recipe's programs from the module at root into a directory below work and makes the image of them. The error
// has the compiler's output.
func (recipe Recipe) Build(ctx context.Context, root, work string, version Version) (*archive.Image, error) {
	binaries := filepath.Join(work, recipe.Name)
	if err := recipe.compile(ctx, root, binaries, version); err != nil {
		return nil, fmt.Errorf("build image %s: %w", recipe.Name, err)
	}
	files, err := recipe.files(binaries)
	if err != nil {
		return nil, fmt.Errorf("build image %s: %w", recipe.Name, err)
	}
	image, err := archive.New(archive.Spec{
		Files:       files,
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

// compile runs one go build for the whole image. With a directory for -o, it names each program after its package.
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

// files maps every path in the image to the file with its content on this machine.
func (recipe Recipe) files(binaries string) (map[string]archive.File, error) {
	files := make(map[string]archive.File, len(recipe.Programs)+1)
	for target, packagePath := range recipe.Programs {
		files[target] = archive.File{Source: filepath.Join(binaries, path.Base(packagePath)), Mode: 0o755}
	}
	if recipe.TrustedCertificates {
		authorities, err := authoritiesFile(binaries)
		if err != nil {
			return nil, err
		}
		files[authoritiesPath] = archive.File{Source: authorities, Mode: 0o644}
	}
	return files, nil
}
