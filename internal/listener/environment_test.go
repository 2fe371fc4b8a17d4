package listener_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/listener"
	"github.com/harrier-ci/harrier/internal/listener/config"
)

// environment is a listener between a fake GitHub, reached over HTTP, and a simulatedCluster.
type environment struct {
	t       *testing.T
	github  *fakegithub.Server
	client  *actions.Client
	cluster *simulatedCluster
	file    string
	config  config.Config

	process *process
	log     *safeBuffer
	// stop asks the listener to stop.
	stop  context.CancelFunc
	ended chan struct{}
}

func newEnvironment(t *testing.T, options fakegithub.Options) *environment {
	options.PollLength = time.Second
	github := fakegithub.New(options)
	t.Cleanup(github.Close)
	url, err := github.Start("127.0.0.1:0")
	check(t, err)
	client, err := actions.NewClient(url+"/org", actions.Credentials{Token: "second"}, actions.Options{})
	check(t, err)
	set, err := client.CreateRunnerScaleSet(t.Context(), &actions.RunnerScaleSet{Name: "set", RunnerGroupID: 1})
	check(t, err)
	e := &environment{
		t: t, github: github, client: client, file: filepath.Join(t.TempDir(), config.FileName),
		cluster: newSimulatedCluster(t, client, set.ID),
		config: config.Config{
			ConfigureURL: url + "/org", RunnerScaleSetID: set.ID, MaxRunners: 40, MetricsAddr: ":1", LogLevel: "debug",
			EphemeralRunnerSetNamespace: "runners", EphemeralRunnerSetName: "set",
			Credentials: &config.Credentials{Token: "first"},
		},
	}
	e.write(func(*config.Config) {})
	return e
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write changes the configuration file as a mounted Secret changes: by a rename.
func (e *environment) write(change func(*config.Config)) {
	e.t.Helper()
	change(&e.config)
	content, err := e.config.Encode()
	check(e.t, err)
	check(e.t, os.WriteFile(e.file+".next", content, 0o600))
	check(e.t, os.Rename(e.file+".next", e.file))
}

// start runs the listener and waits for its session, unless a session is open already.
func (e *environment) start(change ...func(*listener.Options)) {
	e.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	e.stop, e.process, e.log, e.ended = stop, &process{Cluster: e.cluster}, new(safeBuffer), make(chan struct{})
	log, ended := e.log, e.ended
	options := listener.Options{
		ConfigPath: e.file, Cluster: e.process, Connect: e.process.connect, LogTo: log, Owner: "pod",
		HealthAddress: "127.0.0.1:0", MetricsAddress: "127.0.0.1:0",
	}
	for _, change := range change {
		change(&options)
	}
	go func() {
		defer close(ended)
		if err := listener.Run(ctx, options); err != nil {
			e.t.Error(err)
		}
	}()
	e.t.Cleanup(func() {
		stop()
		<-ended
		if e.t.Failed() {
			e.t.Log(log.String())
		}
	})
	e.until(func(g Gomega) { g.Expect(e.github.Snapshot().Sessions).ToNot(BeEmpty()) })
}

// shutDown asks the listener to stop and waits until it has.
func (e *environment) shutDown() {
	e.stop()
	<-e.ended
}

// kill ends the listener; its shutdown has no effect.
func (e *environment) kill() {
	e.process.killed.Store(true)
	e.shutDown()
}

func (e *environment) session() string {
	if sessions := e.github.Snapshot().Sessions; len(sessions) > 0 {
		return sessions[0].ID
	}
	return ""
}

func (e *environment) openForeignSession() {
	_, err := e.client.CreateSession(e.t.Context(), e.config.RunnerScaleSetID, "somebody else")
	check(e.t, err)
}

func (e *environment) queue(count int) {
	e.t.Helper()
	_, err := e.github.QueueJobs(fakegithub.JobRequest{
		Count: count, ScaleSet: "set",
		MinDuration: fakegithub.Duration(50 * time.Millisecond),
		MaxDuration: fakegithub.Duration(500 * time.Millisecond),
	})
	check(e.t, err)
}

func (e *environment) fault(f fakegithub.Fault) {
	_, err := e.github.AddFault(f)
	check(e.t, err)
}

func (e *environment) until(assert func(g Gomega)) {
	e.t.Helper()
	NewWithT(e.t).Eventually(assert).WithTimeout(3 * time.Minute).WithPolling(20 * time.Millisecond).Should(Succeed())
}

// allDone waits until every job has run, every end is reported, every message is deleted and replicas is 0.
func (e *environment) allDone(jobs int) {
	e.t.Helper()
	e.until(func(g Gomega) {
		g.Expect(e.github.Jobs("completed")).To(HaveLen(jobs))
		g.Expect(e.cluster.completed()).To(Equal(jobs))
		view := e.github.Snapshot().ScaleSets[0]
		g.Expect(view.PendingEvents + view.UnacknowledgedMessages).To(BeZero())
		g.Expect(e.cluster.replicas()).To(BeZero())
	})
	if got := e.github.Anomalies(); len(got) != 0 {
		e.t.Errorf("anomalies: %v", got)
	}
}

// get sends a request to one of the listener's servers, health or metrics. It finds the address in the log.
func (e *environment) get(server, path string) string {
	listening := regexp.MustCompile(`"server": "` + server +
		`", "address": "([^"]+)"`).FindStringSubmatch(e.log.String())
	if listening == nil {
		return "no server for " + server
	}
	answer, err := http.Get(fmt.Sprintf("http://%s%s", listening[1], path))
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	return fmt.Sprintf("%d %s", answer.StatusCode, body)
}

// safeBuffer is a buffer that can be read while it is written.
type safeBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *safeBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(line)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
