package site

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"

	"github.com/harrier-ci/harrier/hack/cache"
	"github.com/harrier-ci/harrier/hack/cluster"
	"github.com/harrier-ci/harrier/hack/images/recipe"
	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// Step runs do and shows its name and what it writes to progress.
type Step func(name string, do func(progress io.Writer) error) error

// built has the paths of the images' archives and of the simulated GitHub's program.
type built struct {
	archives   []string
	fakeGitHub string
}

// Image is an image to build and to load onto the node under each of the names.
type Image struct {
	Recipe recipe.Recipe
	Names  []string
}

// Local starts a cluster on this machine, and the simulated GitHub as a process beside it. more are images in addition to those
// of product and demonstration. An error may come with a site that was made in part, which the caller has to take down.
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
		Root: root, Programs: started.ProgramDir(), Kubeconfig: started.Kubeconfig(), Logs: started.LogDir(),
		ProductImage: recipe.LocalName, DemoImage: recipe.LocalName + recipe.DemoSuffix, PullPolicy: "Never",
		Failed: started.Err, Down: started.Down, Leave: started.Leave, AddNode: started.AddNode,
	}
	err = step("images onto the node, GitHub beside it", func(io.Writer) error { // the cluster has a Progress of its own
		return local.furnish(ctx, started, images)
	})
	return local, err
}

// prepare does everything that takes long the first time on a machine, before anything is started.
func prepare(ctx context.Context, root string, step Step, more []Image) (built, error) {
	err := step("packages of this machine", func(progress io.Writer) error { return cluster.Preflight(ctx, progress) })
	if err != nil {
		return built{}, err
	}
	err = step("programs of Kubernetes", func(progress io.Writer) error {
		_, err := cluster.Programs(ctx, root, progress)
		return err
	})
	if err != nil {
		return built{}, err
	}
	var images built
	err = step("images of this tree", func(progress io.Writer) error {
		images, err = buildImages(ctx, root, progress, more)
		return err
	})
	return images, err
}

func buildImages(ctx context.Context, root string, progress io.Writer, more []Image) (built, error) {
	work, err := cache.Dir("images")
	if err != nil {
		return built{}, err
	}
	version, err := recipe.VersionOf(ctx, root)
	if err != nil {
		return built{}, err
	}
	result := built{fakeGitHub: filepath.Join(work, recipe.Demo().Name, "fakegithub")}
	images := append([]Image{
		{recipe.Product(), []string{recipe.LocalName}}, {recipe.Demo(), []string{recipe.LocalName + recipe.DemoSuffix}},
	}, more...)
	for _, each := range images {
		_, _ = fmt.Fprintf(progress, "building the image %s\n", each.Recipe.Name)
		image, err := each.Recipe.Build(ctx, root, work, version)
		if err != nil {
			return built{}, err
		}
		for i, name := range each.Names {
			archive := filepath.Join(work, fmt.Sprintf("%s-%d.tar", each.Recipe.Name, i))
			if err := image.Save(archive, name); err != nil {
				return built{}, err
			}
			result.archives = append(result.archives, archive)
		}
	}
	return result, nil
}

// furnish loads the images and starts GitHub at the node's address, at which pods and this process can reach it.
func (s *Site) furnish(ctx context.Context, started *cluster.Cluster, images built) error {
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
	s.GitHubURL = "http://" + address
	s.Control = &fakegithub.ControlClient{BaseURL: s.GitHubURL}
	return s.AwaitGitHub(ctx)
}

// freeAddress lets the kernel choose a port. If somebody else takes it before GitHub listens, GitHub ends and its log says so.
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
