package site

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"

	"github.com/harrier-ci/harrier/hack/cluster"
	"github.com/harrier-ci/harrier/hack/installation"
	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// Step runs do and shows its name and what it writes to progress.
type Step func(name string, do func(progress io.Writer) error) error

// Names of images. Those of the product and of the demonstration are built on this machine; hack/images has their
// recipes.
const (
	// LocalImage is the product's if no registry is involved.
	LocalImage = "localhost/harrier/gha-runner-scale-set-controller:dev"
	// DemoSuffix follows the product's tag in the name of the image with GitHub and runner.
	DemoSuffix = "-demo"
	// StandInImage is the image that tests of container modes run instead of the real runner's.
	StandInImage = LocalImage + "-stand-in"
	// DockerImage is the full name of the chart's image for its Docker daemon.
	DockerImage = "docker.io/library/docker:dind"
)

// Image is an image to build and to load onto the node under each of the names.
type Image struct {
	// Recipe is the name of a recipe of hack/images.
	Recipe string
	Names  []string
}

// Local starts a cluster on this machine, and the simulated GitHub as a process beside it. more are images in addition
// to those of product and demonstration. An error may come with a site that was made in part, which the caller has to
// take down.
func Local(ctx context.Context, root string, step Step, more ...Image) (*Site, error) {
	images, err := prepare(ctx, root, step, more)
	if err != nil {
		return nil, err
	}
	var started *cluster.Cluster
	err = step("cluster of one node", func(progress io.Writer) error {
		started, err = cluster.Up(ctx, cluster.Options{Root: root, Progress: progress})
		return err
	})
	if err != nil {
		return nil, err
	}
	local := &Site{
		Root: root, Tools: installation.Tools{Programs: started.ProgramDir(), Kubeconfig: started.Kubeconfig()},
		Logs:         started.LogDir(),
		ProductImage: LocalImage, DemoImage: LocalImage + DemoSuffix, PullPolicy: "Never",
		Failed: started.Err, Down: started.Down, Leave: started.Leave, AddNode: started.AddNode,
		AddStorage: func(ctx context.Context) (string, error) { return started.AddStorage(ctx, root) },
	}
	// the cluster has a Progress of its own
	err = step("images onto the node, GitHub beside it", func(io.Writer) error {
		return local.furnish(ctx, started, images)
	})
	return local, err
}

// prepare does everything that takes long the first time on a machine, before anything is started. It returns the
// directories of the images, as buildImages does.
func prepare(ctx context.Context, root string, step Step, more []Image) ([]string, error) {
	err := step("packages of this machine", func(progress io.Writer) error { return cluster.Preflight(ctx, progress) })
	if err != nil {
		return nil, err
	}
	err = step("programs of Kubernetes", func(progress io.Writer) error {
		_, err := cluster.Programs(ctx, root, progress)
		return err
	})
	if err != nil {
		return nil, err
	}
	var images []string
	err = step("images of this tree", func(progress io.Writer) error {
		images, err = buildImages(ctx, root, progress, more)
		return err
	})
	return images, err
}

// buildImages returns the directories of the images: first the product's, then the demonstration's.
func buildImages(ctx context.Context, root string, progress io.Writer, more []Image) ([]string, error) {
	var directories []string
	for _, each := range append([]Image{{"product", []string{LocalImage}}, {"demo", []string{LocalImage + DemoSuffix}}},
		more...) {
		directory, err := cluster.Image(ctx, root, progress, each.Recipe, each.Names...)
		if err != nil {
			return nil, err
		}
		directories = append(directories, directory)
	}
	return directories, nil
}

// furnish loads the images and starts GitHub at the node's address, at which pods and this process can reach it.
func (s *Site) furnish(ctx context.Context, started *cluster.Cluster, images []string) error {
	for _, directory := range images {
		if err := started.LoadImage(ctx, filepath.Join(directory, "image.tar")); err != nil {
			return err
		}
	}
	address, err := freeAddress(started.NodeAddress())
	if err != nil {
		return err
	}
	if err := started.Start("fakegithub", filepath.Join(images[1], "fakegithub"), "-addr="+address); err != nil {
		return err
	}
	s.GitHubURL = "http://" + address
	s.Control = &fakegithub.ControlClient{BaseURL: s.GitHubURL}
	return s.AwaitGitHub(ctx)
}

// freeAddress lets the kernel choose a port. If somebody else takes it before GitHub listens, GitHub ends and its log
// says so.
func freeAddress(host string) (string, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "", fmt.Errorf("find a port for GitHub: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}

// AwaitGitHub waits until GitHub answers requests of Control.
func (s *Site) AwaitGitHub(ctx context.Context) error {
	return s.Await(ctx, "GitHub to answer", GitHubLimit, func() (string, error) {
		if err := s.Control.Healthy(ctx); err != nil {
			return err.Error(), nil
		}
		return "", nil
	})
}
