package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/hack/site"
)

// TestMain makes these for all tests.
var (
	place *site.Site
	kube  client.WithWatch
)

// takeDownLimit bounds the cleanup, which also runs when tests were cut short.
const takeDownLimit = 3 * time.Minute

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	flag.Parse() // the testing package does it in Run, and the cluster is made before that
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

// runAll runs the tests between installation and uninstallation of the controller. The last test is that nothing is
// left then.
func runAll(m *testing.M) (code int, err error) {
	ctx := context.Background()
	root, err := filepath.Abs("../..")
	if err != nil {
		return 1, err
	}
	place, err = site.Local(ctx, root, tell, site.Image{
		Recipe: "stand-in", Names: []string{site.StandInImage, site.DockerImage},
	})
	defer func() {
		if place == nil {
			return
		}
		ending, cancel := context.WithTimeout(ctx, takeDownLimit)
		defer cancel()
		err = errors.Join(err, place.Down(ending))
	}()
	if err != nil {
		return 1, err
	}
	if _, kube, err = place.Client(); err != nil {
		return 1, err
	}
	if *storage {
		if folders, err = place.AddStorage(ctx); err != nil {
			return 1, err
		}
	}
	if err := restrictSystemNamespace(ctx); err != nil {
		return 1, err
	}
	if err := installController(ctx); err != nil {
		return 1, err
	}
	code = m.Run()
	if err := place.Uninstall(ctx, site.ControllerName, site.SystemNamespace); err != nil {
		return 1, err
	}
	return code, place.AwaitUninstalled(ctx, kube, site.SystemNamespace)
}

// podSecurity is the label with the Pod Security Standard that a namespace enforces.
const podSecurity = "pod-security.kubernetes.io/enforce"

// restrictSystemNamespace makes the cluster refuse pods of manager, listeners and hooks that don't satisfy the Pod
// Security Standard "restricted".
func restrictSystemNamespace(ctx context.Context) error {
	if _, err := place.Kubectl(ctx, "create", "namespace", site.SystemNamespace); err != nil {
		return err
	}
	_, err := place.Kubectl(ctx, "label", "namespace", site.SystemNamespace, podSecurity+"=restricted")
	return err
}

// tell shows the progress before the first test.
func tell(name string, do func(io.Writer) error) error {
	begin := time.Now()
	fmt.Println("e2e:", name)
	err := do(os.Stdout)
	fmt.Printf("e2e: %s: %.1f s\n", name, time.Since(begin).Seconds())
	return err
}
