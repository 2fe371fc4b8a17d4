package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/hack/cluster"
	"github.com/harrier-ci/harrier/hack/installation"
	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// githubPort is the port of the simulated GitHub's pod and Service.
const githubPort = "8080"

// currentSite uses the cluster of the current context. The simulated GitHub runs there as a pod, and the demonstration
// reaches it through a port-forward.
func currentSite(ctx context.Context, s *screen, set settings) (*site.Site, error) {
	current := &site.Site{
		Progress: noteWriter{s}, Root: set.root, ProductImage: set.image, DemoImage: set.image + site.DemoSuffix,
		PullPolicy: pullPolicy(set.image), Leave: func() {},
	}
	err := s.step("kubectl and helm", func(progress io.Writer) error {
		var err error
		current.Programs, err = findTools(ctx, set.root, progress)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = s.step("the current cluster has no other controller", func(io.Writer) error {
		return mustBeFree(ctx, current)
	})
	if err != nil {
		return nil, err
	}
	current.Down = func(ctx context.Context) error { return removeFrom(ctx, current) }
	err = s.step("GitHub as a pod", func(io.Writer) error { return deployGitHub(ctx, current) })
	return current, err // even with an error, so that the caller can remove the site
}

// pullPolicy is that of the images. A tag in a registry may have been pushed again. What is called localhost/… is in no
// registry that a node could reach: somebody has loaded it onto the nodes, as kind load does.
func pullPolicy(image string) string {
	if strings.HasPrefix(image, "localhost/") {
		return "Never"
	}
	return "Always"
}

// findTools prefers the user's kubectl and helm and returns an empty directory then. Otherwise it returns the directory
// of those that it has built.
func findTools(ctx context.Context, root string, progress io.Writer) (string, error) {
	_, kubectl := exec.LookPath("kubectl")
	_, helm := exec.LookPath("helm")
	if kubectl == nil && helm == nil {
		return "", nil
	}
	return cluster.Programs(ctx, root, progress)
}

// mustBeFree fails if the cluster has a runner controller's CRDs: removing the demonstration would delete them and
// everybody's objects of these kinds.
func mustBeFree(ctx context.Context, s *site.Site) error {
	kinds, err := s.Kubectl(ctx, "get", "customresourcedefinitions", "autoscalingrunnersets.actions.github.com",
		"--ignore-not-found", "--output=name")
	if err != nil {
		return err
	}
	if strings.TrimSpace(kinds) != "" {
		return errors.New("the current cluster has the CustomResourceDefinitions of a runner controller already; " +
			"if an earlier demonstration left them, make demo-down CLUSTER=current removes them; if another " +
			"installation uses them, choose another cluster")
	}
	return nil
}

const githubManifest = `
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: v1
kind: Pod
metadata: {name: github, namespace: %[1]s, labels: {app: github}}
spec:
  containers:
    - name: github
      image: %[2]q
      imagePullPolicy: %[4]s
      command: ["/fakegithub", "-addr=:%[3]s"]
      readinessProbe:
        httpGet: {path: /_control/healthz, port: %[3]s}
        periodSeconds: 1
---
apiVersion: v1
kind: Service
metadata: {name: github, namespace: %[1]s}
spec:
  selector: {app: github}
  ports: [{port: %[3]s}]
`

// deployGitHub waits for up to 3 minutes, longer than the installations after it, because it is the first for which the
// cluster pulls an image.
func deployGitHub(ctx context.Context, s *site.Site) error {
	command := s.Command(ctx, "kubectl", "apply", "--filename=-")
	command.Stdin = strings.NewReader(fmt.Sprintf(githubManifest, githubNamespace, s.DemoImage, githubPort,
		s.PullPolicy))
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("start GitHub in the cluster: %w: %s", err, strings.TrimSpace(string(output)))
	}
	s.Report("the cluster pulls %s and starts it, for at most 3m", s.DemoImage)
	_, err := s.Kubectl(ctx, "wait", "--namespace="+githubNamespace, "--for=condition=Ready", "pod/github",
		"--timeout=180s")
	if err != nil {
		return fmt.Errorf("the pod github in namespace %s is not ready; can the cluster pull %s? %w", githubNamespace,
			s.DemoImage, err)
	}
	// By address, for clusters without DNS.
	address, err := s.Kubectl(ctx, "get", "service", "github", "--namespace="+githubNamespace,
		"--output=jsonpath={.spec.clusterIP}")
	if err != nil {
		return err
	}
	s.GitHubURL = "http://" + address + ":" + githubPort
	if err := forward(ctx, s); err != nil {
		return err
	}
	return s.AwaitGitHub(ctx)
}

var forwarding = regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+)`)

// forward starts kubectl port-forward and reads from its output which port it uses. It ends with ctx or with this
// process.
func forward(ctx context.Context, s *site.Site) error {
	command := s.Command(ctx, "kubectl",
		"port-forward", "--namespace="+githubNamespace, "--address=127.0.0.1", "service/github", ":"+githubPort)
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("reach GitHub in the cluster: %w", err)
	}
	ended := make(chan error, 1)
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		match := forwarding.FindStringSubmatch(lines.Text())
		if match == nil {
			continue
		}
		s.Control = &fakegithub.ControlClient{BaseURL: "http://" + match[1]}
		go func() {
			_, _ = io.Copy(io.Discard, output) // it prints a line for each connection
			ended <- command.Wait()
		}()
		s.Failed = func() error { return endOf(ended) }
		return nil
	}
	return fmt.Errorf("reach GitHub in the cluster: kubectl port-forward ended: %w", command.Wait())
}

// endOf returns nil until the port-forward has ended, and the same error from then on.
func endOf(ended chan error) error {
	select {
	case err := <-ended:
		ended <- err
		return fmt.Errorf("kubectl port-forward to GitHub ended: %w",
			errors.Join(err, errors.New("the connection to the cluster was lost")))
	default:
		return nil
	}
}

// removeCurrent does what "demo down" does on the current cluster.
func removeCurrent(ctx context.Context) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	programs, err := findTools(ctx, root, io.Discard)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cleanUpLimit)
	defer cancel()
	return removeFrom(ctx, &site.Site{Tools: installation.Tools{Programs: programs}})
}

// removeFrom uninstalls whatever is installed and deletes the demonstration's namespaces. GitHub goes last, because the
// controller removes the scale set from it.
func removeFrom(ctx context.Context, s *site.Site) error {
	_, first := s.Helm(ctx, "uninstall", scaleSetName, "--namespace="+runnerNamespace, "--ignore-not-found", "--wait",
		"--timeout=60s")
	_, second := s.Helm(ctx, "uninstall", site.ControllerName, "--namespace="+site.SystemNamespace,
		"--ignore-not-found", "--wait", "--timeout=60s", "--no-hooks")
	_, third := s.Kubectl(ctx, "delete", "namespace", runnerNamespace, site.SystemNamespace, githubNamespace,
		"--ignore-not-found",
		"--timeout="+time.Minute.String())
	return errors.Join(first, second, third)
}
