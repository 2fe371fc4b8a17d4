// Command images builds the project's container images without a container engine, and pushes them.
//
//	go run ./hack/images build DIRECTORY   writes product.tar and demo.tar, archives for "ctr images import" or "docker load"
//	go run ./hack/images certificates      writes the public authorities that the images trust to standard output
//	go run ./hack/images push IMAGE        pushes the product as IMAGE, and GitHub and runner of the demonstration as IMAGE-demo
//
// Run it in the root of the module. Credentials are those of "docker login".
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/harrier-ci/harrier/hack/cache"
	"github.com/harrier-ci/harrier/hack/images/archive"
	"github.com/harrier-ci/harrier/hack/images/recipe"
	"github.com/harrier-ci/harrier/hack/images/registry"
)

const usage = "usage: go run ./hack/images build DIRECTORY | certificates | push IMAGE (such as registry.example.com/team/harrier:test)"

// uploadLimit bounds one request. 50 MB at 1 Mbit/s take 400 s.
const uploadLimit = 10 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	if len(arguments) == 1 && arguments[0] == "certificates" {
		return recipe.WriteAuthorities(os.Stdout)
	}
	if len(arguments) != 2 || arguments[1] == "" {
		return errors.New(usage)
	}
	switch arguments[0] {
	case "build":
		return buildAll(ctx, arguments[1])
	case "push":
		return pushAll(ctx, arguments[1])
	default:
		return errors.New(usage)
	}
}

// built is an image. suffix follows the tag in its name.
type built struct {
	recipe recipe.Recipe
	suffix string
	image  *archive.Image
}

func build(ctx context.Context) ([]built, error) {
	work, err := cache.Dir("images")
	if err != nil {
		return nil, err
	}
	version, err := recipe.VersionOf(ctx, ".")
	if err != nil {
		return nil, err
	}
	images := []built{{recipe: recipe.Product()}, {recipe: recipe.Demo(), suffix: recipe.DemoSuffix}}
	for i := range images {
		if images[i].image, err = images[i].recipe.Build(ctx, ".", work, version); err != nil {
			return nil, err
		}
	}
	return images, nil
}

func buildAll(ctx context.Context, directory string) error {
	images, err := build(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return fmt.Errorf("make directory for images: %w", err)
	}
	for _, each := range images {
		file := filepath.Join(directory, each.recipe.Name+".tar")
		if err := each.image.Save(file, recipe.LocalName+each.suffix); err != nil {
			return err
		}
		fmt.Println(file)
	}
	return nil
}

func pushAll(ctx context.Context, name string) error {
	target, err := registry.ParseReference(name)
	if err != nil {
		return err
	}
	credentials, err := registry.FindCredentials(ctx, target.Host)
	if err != nil {
		return err
	}
	images, err := build(ctx)
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: uploadLimit}
	for _, each := range images {
		destination := target
		destination.Tag += each.suffix
		digest, err := registry.Push(ctx, client, each.image, destination, credentials)
		if err != nil {
			return fmt.Errorf("push %s to %s: %w", each.recipe.Name, destination.Host, err)
		}
		fmt.Printf("%s/%s:%s@%s\n", destination.Host, destination.Repository, destination.Tag, digest)
	}
	return nil
}
