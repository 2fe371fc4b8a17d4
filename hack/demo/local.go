package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"

	"github.com/harrier-ci/harrier/hack/cache"
	"github.com/harrier-ci/harrier/hack/cluster"
	"github.com/harrier-ci/harrier/hack/images/recipe"
	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// built is where the images and the programs in them are on this machine.
type built struct {
	archives   []string
	fakeGitHub string
}

// localSite starts a cluster on this machine, and GitHub as a process beside it.
func localSite(ctx context.Context, s *screen, set settings) (*site, error) {
	err := s.step("packages of this machine", func(progress io.Writer) error { return cluster.Preflight(ctx, progress) })
	if err != nil {
		return nil, err
	}
	err = s.step("programs of Kubernetes", func(progress io.Writer) error {
		_, err := cluster.Programs(ctx, set.root, progress)
		return err
	})
	if err != nil {
		return nil, err
	}
	var images built
	err = s.step("images of this tree", func(progress io.Writer) error {
		images, err = buildImages(ctx, set.root, progress)
		return err
	})
	if err != nil {
		return nil, err
	}
	var started *cluster.Cluster
	err = s.step("cluster of one node", func(progress io.Writer) error {
		started, err = cluster.Up(ctx, cluster.Options{Root: set.root, Progress: progress})
		return err
	})
	if err != nil {
		return nil, err
	}
	local := &site{
		programs: started.ProgramDir(), kubeconfig: started.Kubeconfig(), logs: started.LogDir(),
		productImage: recipe.LocalName, demoImage: recipe.LocalName + recipe.DemoSuffix, pullPolicy: "Never",
		failed: started.Err, down: started.Down, leave: started.Leave,
	}
	err = s.step("images onto the node, GitHub beside it", func(io.Writer) error {
		return furnish(ctx, started, local, images)
	})
	return local, err // with the error, so that the caller can take it down
}

func buildImages(ctx context.Context, root string, progress io.Writer) (built, error) {
	work, err := cache.Dir("images")
	if err != nil {
		return built{}, err
	}
	version, err := recipe.VersionOf(ctx, root)
	if err != nil {
		return built{}, err
	}
	result := built{fakeGitHub: filepath.Join(work, recipe.Demo().Name, "fakegithub")}
	for _, each := range []struct {
		recipe recipe.Recipe
		name   string
	}{{recipe.Product(), recipe.LocalName}, {recipe.Demo(), recipe.LocalName + recipe.DemoSuffix}} {
		_, _ = fmt.Fprintf(progress, "building the image %s\n", each.recipe.Name)
		image, err := each.recipe.Build(ctx, root, work, version)
		if err != nil {
			return built{}, err
		}
		archive := filepath.Join(work, each.recipe.Name+".tar")
		if err := image.Save(archive, each.name); err != nil {
			return built{}, err
		}
		result.archives = append(result.archives, archive)
	}
	return result, nil
}

// furnish loads the images and starts GitHub at the node's address, where pods and we can reach it.
func furnish(ctx context.Context, started *cluster.Cluster, local *site, images built) error {
	for _, archive := range images.archives {
		if err := started.LoadImage(ctx, archive); err != nil {
			return err
		}
	}
	address, err := freeAddress(started.NodeAddress())
	if err != nil {
		return err
	}
	if err := started.Start("fakegithub", images.fakeGitHub, "-addr="+address); err != nil {
		return err
	}
	local.githubURL = "http://" + address
	local.control = &fakegithub.ControlClient{BaseURL: local.githubURL}
	return awaitGitHub(ctx, local)
}

// freeAddress asks the kernel for a port. Somebody else could take it before GitHub does, which then ends with that message.
func freeAddress(host string) (string, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "", fmt.Errorf("find a port for GitHub: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}

func awaitGitHub(ctx context.Context, s *site) error {
	return s.await(ctx, "GitHub to answer", githubLimit, func() (string, error) {
		if err := s.control.Healthy(ctx); err != nil {
			return err.Error(), nil
		}
		return "", nil
	})
}

// removeLocal is "demo down" for a cluster on this machine.
func removeLocal(ctx context.Context, s *screen) error {
	err := s.step("removing the cluster on this machine", func(progress io.Writer) error {
		return cluster.Remove(ctx, cluster.Options{Progress: progress})
	})
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted; make demo-down again removes the rest")
	}
	return err
}
