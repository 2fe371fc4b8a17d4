// Command images builds the project's container images without a container engine, and pushes them. hack/images.sh
// compiles and runs it in the project's root:
//
//	hack/images.sh build [-arch A] DIRECTORY   writes product.tar and demo.tar, archives for "ctr images import" or "docker load"
//	hack/images.sh keep RECIPE NAME…           makes one image under these names and prints the directory where it is kept
//	hack/images.sh push [-arch A,B] IMAGE      pushes the product as IMAGE, and GitHub and runner of the demonstration as IMAGE-demo
//	hack/images.sh release VERSION DIRECTORY   writes everything that a release has, with -arch A,B for these and Linux only: see release.go
//	hack/images.sh publish DIRECTORY REGISTRY  pushes the image of a release, such as to registry.example.com/team
//	hack/images.sh registry DIRECTORY          plays registry and downloads on loopback, and prints its address
//	hack/images.sh certificates                writes the public authorities that the images trust to standard output
//
// Architectures are amd64 and arm64: by default build and keep are for this machine's, and push pushes both under one
// name. Credentials are those of "docker login". An image is built a single time for the same inputs (see kept).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

var errUsage = errors.New("usage: hack/images.sh build [-arch A] DIRECTORY | keep RECIPE NAME… " +
	"| push [-arch A,B] IMAGE (such as registry.example.com/team/harrier:test) | release VERSION DIRECTORY | " +
	"publish DIRECTORY REGISTRY | registry DIRECTORY | certificates")

// commands have limits for the arguments and the architectures that each takes.
var commands = map[string]struct {
	least, most, architectures int

	run func(ctx context.Context, arguments, architectures []string) error
}{
	"build": {least: 1, most: 1, architectures: 1, run: func(
		ctx context.Context, arguments, architectures []string,
	) error {
		return buildAll(ctx, arguments[0], append(architectures, runtime.GOARCH)[0])
	}},
	"keep": {least: 2, most: unlimited, architectures: unlimited, run: func(
		ctx context.Context, arguments, _ []string,
	) error {
		return keepOne(ctx, arguments[0], arguments[1:])
	}},
	"push": {least: 1, most: 1, architectures: unlimited, run: func(
		ctx context.Context, arguments, architectures []string,
	) error {
		if len(architectures) == 0 {
			architectures = supported
		}
		return pushAll(ctx, arguments[0], architectures)
	}},
	"release": {least: 2, most: 2, architectures: unlimited, run: func(
		ctx context.Context, arguments, architectures []string,
	) error {
		made := platforms{pluginSystems, supported}
		if len(architectures) > 0 {
			made = platforms{[]string{"linux"}, architectures}
		}
		return release(ctx, arguments[0], arguments[1], made)
	}},
	"publish": {least: 2, most: 2, run: func(ctx context.Context, arguments, _ []string) error {
		return publish(ctx, arguments[0], arguments[1])
	}},
	"registry": {least: 1, most: 1, run: func(ctx context.Context, arguments, _ []string) error {
		return serveRegistry(ctx, arguments[0], os.Stdout)
	}},
	"certificates": {architectures: unlimited, run: func(context.Context, []string, []string) error {
		return writeAuthorities(os.Stdout)
	}},
}

const unlimited = math.MaxInt

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	if len(arguments) == 0 {
		return errUsage
	}
	name, flags := arguments[0], flag.NewFlagSet(arguments[0], flag.ContinueOnError)
	architectures := flags.String("arch", "", "architectures, separated by commas")
	if err := flags.Parse(arguments[1:]); err != nil {
		return err
	}
	chosen, err := parseArchitectures(*architectures)
	if err != nil {
		return err
	}
	rest := flags.Args()
	command, known := commands[name]
	if !known || len(rest) < command.least || len(rest) > command.most || len(chosen) > command.architectures {
		return errUsage
	}
	return command.run(ctx, rest, chosen)
}

func keepOne(ctx context.Context, name string, names []string) error {
	chosen, known := recipes[name]
	if !known {
		return fmt.Errorf("there is no recipe %q", name)
	}
	image, err := keep(ctx, chosen, runtime.GOARCH, names)
	if err == nil {
		fmt.Println(image.directory)
	}
	return err
}

// supported are the architectures for which there are images.
var supported = []string{"amd64", "arm64"}

func parseArchitectures(list string) ([]string, error) {
	if list == "" {
		return nil, nil
	}
	chosen := strings.Split(list, ",")
	for _, architecture := range chosen {
		if !slices.Contains(supported, architecture) {
			return nil, fmt.Errorf("architecture %q: there are images for %s", architecture,
				strings.Join(supported, " and "))
		}
	}
	return chosen, nil
}

// shipped are the images for users, in order. The suffix follows the tag in the image's name.
var shipped = []struct{ recipe, suffix string }{{"product", ""}, {"demo", "-demo"}}

// localName is the name of the product's image if no registry is involved; package hack/site says the same.
const localName = "localhost/harrier/gha-runner-scale-set-controller:dev"

func buildAll(ctx context.Context, directory, architecture string) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return fmt.Errorf("make directory for images: %w", err)
	}
	for _, each := range shipped {
		image, err := keep(ctx, recipes[each.recipe], architecture, []string{localName + each.suffix})
		if err != nil {
			return err
		}
		file := filepath.Join(directory, each.recipe+".tar")
		if err := image.copyArchive(file); err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
		fmt.Println(file)
	}
	return nil
}
