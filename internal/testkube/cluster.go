package testkube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/harrier-ci/harrier/internal/testkube/identity"
	"github.com/harrier-ci/harrier/internal/testkube/process"
)

const (
	// readyTimeout bounds the start of one program. It takes 3 s on an idle machine and much longer beside seven builds
	// on two cores.
	readyTimeout  = 2 * time.Minute
	readyInterval = 50 * time.Millisecond
	// A start is tried launchAttempts times. It fails if another process takes a port between its choice and its use,
	// which package ports can't prevent on machines whose kernel chooses ports from the same range.
	launchAttempts = 2
	// garbage lets the heaps of the control plane's programs grow to five times what they hold before it is collected: an
	// API server without objects has 630 MB instead of 400, and needs a fifth less of CPU.
	garbage = "GOGC=400"
)

// Cluster is a running control plane. Its methods may be called from several goroutines.
type Cluster struct {
	controlPlane
	programs  string
	asShipped bool
	config    *rest.Config
	client    client.WithWatch

	mu        sync.Mutex
	processes map[string]*process.Process
}

// Launch starts a cluster and returns when the API server is ready, the CRDs are served and the controller manager, if
// there is one, works. The caller has to stop it. If it fails, the error contains the end of the failed program's log.
// Tests call Start or Shared instead.
func Launch(ctx context.Context, options Options) (*Cluster, error) {
	directory, err := Programs()
	if err != nil {
		return nil, err
	}
	var failures []error
	for range launchAttempts {
		cluster, err := launch(ctx, directory, options)
		if err == nil {
			return cluster, nil
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}

func launch(ctx context.Context, programs string, options Options) (*Cluster, error) {
	directory, err := os.MkdirTemp("", "testkube-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the cluster: %w", err)
	}
	cluster := &Cluster{
		programs: programs, asShipped: options.AsShipped, processes: map[string]*process.Process{},
	}
	cluster.directory, cluster.apiServerFlags = directory, options.APIServerFlags
	cluster.audit, cluster.auditObjects, cluster.ipv6 = options.AuditLog, options.AuditObjects, options.IPv6
	if err := cluster.start(ctx, options); err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	return cluster, nil
}

func (c *Cluster) start(ctx context.Context, options Options) error {
	if err := c.prepare(); err != nil {
		return err
	}
	if err := c.connect(options); err != nil {
		return err
	}
	if err := c.run("etcd", c.etcdArguments()); err != nil {
		return err
	}
	if err := c.StartAPIServer(ctx); err != nil {
		return err
	}
	if err := c.installCRDs(options); err != nil {
		return err
	}
	if !options.ControllerManager {
		return nil
	}
	// Last, because the garbage collector looks only every 30 s for kinds that it does not know from its start.
	if err := c.run("kube-controller-manager", c.controllerManagerArguments()); err != nil {
		return err
	}
	return c.awaitDefaultServiceAccount(ctx, "default")
}

// connect makes the administrator's configuration, kubeconfig and client. The API server need not be running yet.
func (c *Cluster) connect(options Options) error {
	c.config = &rest.Config{
		Host: c.url(), BearerToken: c.adminToken, TLSClientConfig: rest.TLSClientConfig{CAData: []byte(c.certificate)},
		QPS: -1, // no limit of the client's: tests are to meet those of the API server
	}
	if err := identity.WriteKubeconfig(c.path(adminKubeconfig), c.config, ""); err != nil {
		return err
	}
	scheme, err := options.scheme()
	if err != nil {
		return err
	}
	c.client, err = client.NewWithWatch(c.config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("make the cluster's client: %w", err)
	}
	return nil
}

// installCRDs installs the CRDs and returns when the API server serves their kinds.
func (c *Cluster) installCRDs(options Options) error {
	paths, err := options.crdPaths()
	if err != nil || len(paths) == 0 {
		return err
	}
	_, err = envtest.InstallCRDs(c.config,
		envtest.CRDInstallOptions{Paths: paths, ErrorIfPathMissing: true, MaxTime: readyTimeout})
	if err != nil {
		return fmt.Errorf("install the CRDs of %s: %w", strings.Join(paths, ", "), err)
	}
	return nil
}

// run starts a program of the control plane. Its output goes to its log file.
func (c *Cluster) run(program string, arguments []string) error {
	log, err := os.OpenFile(c.logPath(program), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", program, err)
	}
	defer log.Close()
	command := exec.Command(filepath.Join(c.programs, program), arguments...)
	command.Stdout, command.Stderr, command.Dir = log, log, c.directory
	if !c.asShipped {
		command.Env = append(os.Environ(), garbage)
	}
	started, err := process.Start(command)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes[program] = started
	return nil
}

func (c *Cluster) logPath(program string) string { return c.path(program + ".log") }

// apiServerReady asks for /readyz, which also covers what the API server does after its start, such as creating the
// default Roles.
func (c *Cluster) apiServerReady(ctx context.Context) bool {
	httpClient, err := rest.HTTPClientFor(c.config)
	if err != nil {
		return false
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url()+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := httpClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// awaitDefaultServiceAccount waits until the controller manager has created what every pod of the namespace needs.
func (c *Cluster) awaitDefaultServiceAccount(ctx context.Context, namespace string) error {
	key := client.ObjectKey{Namespace: namespace, Name: "default"}
	return c.await(ctx, "kube-controller-manager", func(ctx context.Context) (bool, error) {
		err := c.client.Get(ctx, key, &corev1.ServiceAccount{})
		return err == nil, client.IgnoreNotFound(err)
	})
}

// await waits until the condition holds. It gives up if a program of the control plane ends or readyTimeout has passed.
func (c *Cluster) await(ctx context.Context, program string, condition wait.ConditionWithContextFunc) error {
	err := wait.PollUntilContextTimeout(ctx, readyInterval, readyTimeout, true,
		func(ctx context.Context) (bool, error) {
			if ended := c.ended(); ended != "" {
				program = ended
				return false, errors.New("it has ended")
			}
			return condition(ctx)
		})
	if err != nil {
		return fmt.Errorf("wait for %s: %w; the end of its log:\n%s", program, err, tail(c.logPath(program)))
	}
	return nil
}

// ended returns the name of a program that should be running but isn't, empty if there is none.
func (c *Cluster) ended() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for program, running := range c.processes {
		if !running.Running() {
			return program
		}
	}
	return ""
}

// Stop kills the control plane and removes its files.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var failures []error
	for program, running := range c.processes {
		failures = append(failures, running.Stop(0))
		delete(c.processes, program)
	}
	failures = append(failures, os.RemoveAll(c.directory))
	return errors.Join(failures...)
}

// tail returns the last lines of a log.
func tail(path string) string {
	const lines = 20
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// alreadyThere returns err unless it says that the object to be created exists.
func alreadyThere(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
