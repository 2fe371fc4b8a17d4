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

// site is a listener between a fake GitHub, spoken to over HTTP, and a nursery in place of a cluster.
type site struct {
	t       *testing.T
	github  *fakegithub.Server
	client  *actions.Client
	cluster *nursery
	file    string
	config  config.Config

	process *process
	log     *safeBuffer
	// stop asks the listener to stop.
	stop  context.CancelFunc
	ended chan struct{}
}

func newSite(t *testing.T, options fakegithub.Options) *site {
	options.PollLength = time.Second
	github := fakegithub.New(options)
	t.Cleanup(github.Close)
	url, err := github.Start("127.0.0.1:0")
	check(t, err)
	client, err := actions.NewClient(url+"/org", actions.Credentials{Token: "second"}, actions.Options{})
	check(t, err)
	set, err := client.CreateRunnerScaleSet(t.Context(), &actions.RunnerScaleSet{Name: "set", RunnerGroupID: 1})
	check(t, err)
	s := &site{
		t: t, github: github, client: client, file: filepath.Join(t.TempDir(), config.FileName),
		cluster: newNursery(t, client, set.ID),
		config: config.Config{
			ConfigureURL: url + "/org", RunnerScaleSetID: set.ID, MaxRunners: 40, MetricsAddr: ":1", LogLevel: "debug",
			EphemeralRunnerSetNamespace: "runners", EphemeralRunnerSetName: "set",
			Credentials: &config.Credentials{Token: "first"},
		},
	}
	s.write(func(*config.Config) {})
	return s
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write changes the configuration file as a mounted Secret changes: by a rename.
func (s *site) write(change func(*config.Config)) {
	s.t.Helper()
	change(&s.config)
	content, err := s.config.Encode()
	check(s.t, err)
	check(s.t, os.WriteFile(s.file+".next", content, 0o600))
	check(s.t, os.Rename(s.file+".next", s.file))
}

// start runs the listener and waits for its session, unless one is open already.
func (s *site) start() {
	s.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.process, s.log, s.ended = stop, &process{Cluster: s.cluster}, new(safeBuffer), make(chan struct{})
	log, ended := s.log, s.ended
	options := listener.Options{
		ConfigPath: s.file, Cluster: s.process, Connect: s.process.connect, LogTo: log, Owner: "pod",
		HealthAddress: "127.0.0.1:0", MetricsAddress: "127.0.0.1:0",
	}
	go func() {
		defer close(ended)
		if err := listener.Run(ctx, options); err != nil {
			s.t.Error(err)
		}
	}()
	s.t.Cleanup(func() {
		stop()
		<-ended
		if s.t.Failed() {
			s.t.Log(log.String())
		}
	})
	s.until(func(g Gomega) { g.Expect(s.github.Snapshot().Sessions).ToNot(BeEmpty()) })
}

// shutDown asks the listener to stop and waits until it has.
func (s *site) shutDown() {
	s.stop()
	<-s.ended
}

// kill ends the listener without its farewell.
func (s *site) kill() {
	s.process.killed.Store(true)
	s.shutDown()
}

func (s *site) session() string {
	if sessions := s.github.Snapshot().Sessions; len(sessions) > 0 {
		return sessions[0].ID
	}
	return ""
}

func (s *site) openForeignSession() {
	_, err := s.client.CreateSession(s.t.Context(), s.config.RunnerScaleSetID, "somebody else")
	check(s.t, err)
}

func (s *site) queue(count int) {
	s.t.Helper()
	_, err := s.github.QueueJobs(fakegithub.JobRequest{
		Count: count, ScaleSet: "set", MinDuration: fakegithub.Duration(50 * time.Millisecond), MaxDuration: fakegithub.Duration(500 * time.Millisecond),
	})
	check(s.t, err)
}

func (s *site) fault(f fakegithub.Fault) {
	_, err := s.github.AddFault(f)
	check(s.t, err)
}

func (s *site) until(assert func(g Gomega)) {
	s.t.Helper()
	NewWithT(s.t).Eventually(assert).WithTimeout(3 * time.Minute).WithPolling(20 * time.Millisecond).Should(Succeed())
}

// allDone waits until every job ran, every end was reported, every message is gone and no runner is asked for any more.
func (s *site) allDone(jobs int) {
	s.t.Helper()
	s.until(func(g Gomega) {
		g.Expect(s.github.Jobs("completed")).To(HaveLen(jobs))
		g.Expect(s.cluster.completed()).To(Equal(jobs))
		view := s.github.Snapshot().ScaleSets[0]
		g.Expect(view.PendingEvents + view.UnacknowledgedMessages).To(BeZero())
		g.Expect(s.cluster.replicas()).To(BeZero())
	})
	if got := s.github.Anomalies(); len(got) != 0 {
		s.t.Errorf("anomalies: %v", got)
	}
}

// get asks one of the listener's servers, health or metrics, whose log says where it listens.
func (s *site) get(server, path string) string {
	listening := regexp.MustCompile(`"server": "` + server + `", "address": "([^"]+)"`).FindStringSubmatch(s.log.String())
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

// safeBuffer is a log that is read while it is written.
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
