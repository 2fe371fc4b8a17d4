package failpoints

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/internal/listener"
	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listener/github"
	"github.com/harrier-ci/harrier/internal/manager"
	"github.com/harrier-ci/harrier/internal/testkube/fakenode"
	"github.com/harrier-ci/harrier/test/arc"
	"github.com/harrier-ci/harrier/test/failpoints/apiserver"
)

const (
	system    = "arc-systems"
	runners   = "arc-runners"
	leaseName = "manager"
	// gitHubHost is where GitHub is.
	gitHubHost = "github.invalid"
	gitHubURL  = "http://" + gitHubHost
	// mostLag is how late a watch may be, as on a busy API server: what was written a moment ago isn't seen yet.
	mostLag = 3 * time.Second
	// restartDelay is how long a node takes to start a process again.
	restartDelay = time.Second
)

// world is all that a scenario has: an API server, a node, GitHub, a manager, and the listeners that this one starts.
type world struct {
	t        *testing.T
	scenario scenario
	effects  *effects
	server   *apiserver.Server
	github   *fakegithub.Server
	// user is a client that nobody counts.
	user client.Client
	log  logr.Logger

	context context.Context //nolint:containedctx // the world ends with it
	stop    context.CancelFunc
	node    *fakenode.Node
	// managers and ledgers are those that serve now.
	managers, ledgers service
	// apiServer is what it is like, nil as ever.
	apiServer atomic.Pointer[weather]
	// drainedAt is the second in which all pods left node, 0 before that: later pods are for another one.
	drainedAt atomic.Int64
	// crashes is how many runners end before they have reached GitHub, and hooks are those of the others.
	crashes atomic.Int32
	hooks   func(pod *corev1.Pod) fakegithub.JobHook
	// ledger is the file of the ledger's database, and arc the scale set that ARC has left.
	ledger string
	arc    *arc.Set

	// credentials are those of the scale set.
	credentials map[string][]byte
	begun       time.Time
	judge
}

// inWorld runs a scenario in a bubble, with these faults, and returns what came of it.
func inWorld(t *testing.T, s scenario, faults ...fault) (found result) {
	t.Helper()
	judged := false
	defer func() {
		// Everything is judged and asked to end. A queue of controller-runtime may miss that it is shut down, and so
		// may a filter of a watch that is stopped with an event in hand: both wait for ever, which ends a bubble with
		// a panic.
		if left := recover(); left != nil && !judged {
			panic(left)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, s, faults)
		s.run(w)
		w.rest()
		found, judged = w.result(), true
		w.end()
	})
	return found
}

func newWorld(t *testing.T, s scenario, faults []fault) *world {
	server := apiserver.New()
	w := &world{t: t, scenario: s, effects: newEffects(server.Version, faults), server: server, log: logTo(t), begun: time.Now()}
	w.server.Lag = lagOf(faults)
	options := s.github
	w.credentials = map[string][]byte{"github_token": []byte("token")}
	if s.app {
		options.Apps, w.credentials = appOf(appKey())
	}
	w.github = fakegithub.New(options)
	w.judge.begin(w)
	var err error
	w.user, err = client.New(w.server.Config(w.server), client.Options{Scheme: kinds.Scheme(), Mapper: kinds.Mapper()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	w.context, w.stop = ctx, stop
	w.node, err = fakenode.Launch(ctx, w.server.Config(w.server), fakenode.Options{
		StartLatency: time.Second,
		Runners:      w.containers(),
		Accepts:      w.stays,
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.before != nil {
		s.before(w)
	}
	w.effects.begin()
	w.effects.try(s.installs)
	w.managers.begin(w, max(s.managers, 1), w.runManagers)
	if s.ledger {
		w.ledger = ledgerFile(t)
		w.ledgers.begin(w, 1, w.runLedgers)
	}
	return w
}

// service is a Deployment: processes that a user can begin and end.
type service struct {
	stop    context.CancelFunc
	running sync.WaitGroup
}

func (s *service) begin(w *world, replicas int, run func(context.Context)) {
	ctx, stop := context.WithCancel(w.context)
	s.stop = stop
	for range replicas {
		s.running.Go(func() { run(ctx) })
	}
}

// end ends the processes and waits for that.
func (s *service) end() {
	s.stop()
	s.running.Wait()
}

// lagOf returns how late the watches of each resource are, some early, some late: of all that was written, each run sees
// another part first. What a resource has follows from the faults and the seed.
func lagOf(faults []fault) func(resource string) time.Duration {
	return func(resource string) time.Duration {
		hash := fnv.New32a()
		fmt.Fprint(hash, *seed, resource, faults)
		return mostLag * time.Duration(hash.Sum32()%4) / 3
	}
}

// appKey is the key of a GitHub App, made a single time: that takes as long as a whole play.
var appKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err) // the machine has no random numbers
	}
	return key
})

// appOf returns an App as GitHub knows it, and as a scale set names it.
func appOf(key *rsa.PrivateKey) ([]fakegithub.App, map[string][]byte) {
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return []fakegithub.App{{ID: "12", PublicKey: &key.PublicKey}}, map[string][]byte{
		"github_app_id": []byte("12"), "github_app_installation_id": []byte("34"), "github_app_private_key": text,
	}
}

// end stops everything, as the end of a bubble requires.
func (w *world) end() {
	w.stop()
	w.managers.running.Wait()
	w.ledgers.running.Wait()
	w.node.Stop()
	w.github.Close()
}

// containers are what the containers of pods do.
func (w *world) containers() map[string]fakenode.Runner {
	return map[string]fakenode.Runner{
		v1alpha1.ListenerContainerName: fakenode.RunnerFunc(w.runListener),
		v1alpha1.RunnerContainerName:   fakenode.RunnerFunc(w.runRunner),
	}
}

// stays reports whether a pod is for the node that may be drained.
func (w *world) stays(pod *corev1.Pod) bool {
	drained := w.drainedAt.Load()
	return drained == 0 || pod.CreationTimestamp.Unix() < drained
}

// runManagers runs one manager after the other.
func (w *world) runManagers(ctx context.Context) {
	for ctx.Err() == nil {
		p := w.newProcess(ctx, "manager")
		options, err := manager.ParseOptions(
			[]string{"--leader-election-id=" + leaseName, "--metrics-addr=0"}, func(name string) string {
				return map[string]string{
					"CONTROLLER_MANAGER_POD_NAMESPACE":   system,
					"CONTROLLER_MANAGER_CONTAINER_IMAGE": "registry.invalid/manager:1",
				}[name]
			}, io.Discard,
		)
		if err != nil {
			panic(err)
		}
		err = manager.RunWithoutNetwork(p.context, w.server.Config(w.kubernetes(p)), w.gitHub(p), options, w.log)
		p.die()
		if err != nil {
			w.log.Info("The manager has ended", "error", err.Error())
		}
		pause(ctx, restartDelay)
	}
}

// runListener is the listener's container. The node starts it again, but not that of ARC's listener: ARC's controller,
// which nobody plays here, makes the pod again, and so its process starts again in the same one.
func (w *world) runListener(ctx context.Context, c *fakenode.Container) int {
	for {
		code := w.listen(ctx, c)
		if code == 0 || c.Pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
			return code
		}
		select {
		case <-time.After(restartDelay):
		case <-ctx.Done():
			return code
		case <-c.Killed():
			return code
		}
	}
}

// listen runs one process of a listener.
func (w *world) listen(ctx context.Context, c *fakenode.Container) int {
	p := w.newProcess(ctx, "listener")
	defer p.die()
	killed := make(chan struct{})
	defer close(killed)
	go func() {
		select {
		case <-c.Killed():
			p.die()
		case <-killed:
		}
	}()
	err := listener.Run(p.context, listener.Options{
		Read: func() (*config.Config, error) { return w.listenerConfig(c.Pod) }, Owner: c.Pod.Name,
		Kubernetes: w.server.Config(w.kubernetes(p)), Connect: w.connect(p), LogTo: w.logWriter(),
	})
	if err != nil || p.dead.Load() {
		return fakegithub.ExitKilled
	}
	return 0
}

// listenerConfig reads the configuration that is mounted into a listener's pod.
func (w *world) listenerConfig(pod *corev1.Pod) (*config.Config, error) {
	for _, volume := range pod.Spec.Volumes {
		if volume.Secret == nil {
			continue
		}
		secret := &corev1.Secret{}
		err := w.user.Get(w.t.Context(), client.ObjectKey{Namespace: pod.Namespace, Name: volume.Secret.SecretName}, secret)
		if err != nil {
			return nil, err
		}
		return config.Parse(secret.Data[config.FileName])
	}
	return nil, fmt.Errorf("pod %s mounts no configuration", pod.Name)
}

// gitHubClient is the client of the Actions service as the listener uses it.
type gitHubClient struct{ *actions.Client }

func (c gitHubClient) CreateSession(ctx context.Context, scaleSet int, owner string) (github.Session, error) {
	session, err := c.Client.CreateSession(ctx, scaleSet, owner)
	if err != nil {
		return nil, err
	}
	return session, nil
}

func (w *world) connect(p *process) github.Connector {
	return func(c *config.Config, observe func(actions.RequestInfo)) (github.Client, error) {
		made, err := actions.NewClient(c.ConfigureURL, c.ForActions(), actions.Options{
			RoundTripper: w.gitHub(p), OnRequest: observe,
		})
		if err != nil {
			return nil, err
		}
		return gitHubClient{made}, nil
	}
}

// runRunner is the runner's container.
func (w *world) runRunner(ctx context.Context, c *fakenode.Container) int {
	if w.crashes.Add(-1) >= 0 {
		return 1
	}
	options := fakegithub.RunnerOptions{Client: &http.Client{Transport: w.github.Transport()}, Kill: c.Killed()}
	if w.hooks != nil {
		options.Started = w.hooks(c.Pod)
	}
	code, err := fakegithub.RunRunner(ctx, c.Environment["ACTIONS_RUNNER_INPUT_JITCONFIG"], options)
	if err != nil {
		w.log.Info("A runner has ended without a job", "pod", c.Pod.Name, "error", err.Error())
	}
	return code
}

// pause waits unless ctx ends before.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// until lets time pass until something is so, and notes a violation if it isn't in time.
func (w *world) until(what string, limit time.Duration, so func() bool) bool {
	for begun := time.Now(); ; {
		if so() {
			return true
		}
		if time.Since(begun) > limit {
			w.violate("after %s: not %s", limit, what)
			return false
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
	}
}
