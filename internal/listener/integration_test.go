package listener_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/listener"
	"github.com/harrier-ci/harrier/internal/listener/config"
)

func TestABurstRunsToItsEnd(t *testing.T) {
	for _, flow := range []fakegithub.Flow{fakegithub.AutoAssign, fakegithub.Acquire} {
		t.Run(string(flow), func(t *testing.T) {
			s := newEnvironment(t, fakegithub.Options{Rules: fakegithub.Rules{Flow: flow}})
			s.start()
			s.queue(100)
			s.allDone(100)
			if most := s.cluster.most(); most > 40 {
				t.Errorf("%d runners at once, want maxRunners at most", most)
			}
			if made := s.cluster.made(); made > 105 {
				t.Errorf("%d runners were made for 100 jobs", made)
			}
		})
	}
}

func TestNothingThatGitHubDoesLosesAJob(t *testing.T) {
	for name, disturb := range map[string]func(s *environment){
		"queue token expires": func(s *environment) { s.github.ExpireQueueTokens() },
		"admin token expires": func(s *environment) { s.github.ExpireAdminTokens(); s.github.ExpireQueueTokens() },
		"session evicted":     func(s *environment) { s.github.EvictSessions(0) },
		"500 on polls": func(s *environment) {
			s.fault(fakegithub.Fault{Endpoint: "get-message", Status: 500, Count: 2})
		},
		"429 on polls": func(s *environment) {
			s.fault(fakegithub.Fault{
				Endpoint: "get-message",
				Status:   429,
				Headers:  map[string]string{"Retry-After": "1"},
				Count:    2,
			})
		},
		"polls cut short": func(s *environment) {
			s.fault(fakegithub.Fault{Endpoint: "get-message", Truncate: true, Count: 2})
		},
		"polls dropped": func(s *environment) {
			s.fault(fakegithub.Fault{Endpoint: "get-message", Drop: fakegithub.DropAfter, Count: 2})
		},
		"deletions lost": func(s *environment) {
			s.fault(fakegithub.Fault{Endpoint: "delete-message", Drop: fakegithub.DropAfter, Count: 3})
		},
		"statistics can't be read": func(s *environment) {
			s.fault(fakegithub.Fault{Endpoint: "get-scale-set", Status: 500, Count: 3})
		},
		"the service moves": func(s *environment) {
			// No runner may register between the two calls: it would get 404.
			s.until(func(g Gomega) {
				jobs := s.github.Snapshot().JobsByState
				g.Expect(jobs["running"] + jobs["completed"]).To(Equal(10))
			})
			s.github.MoveService()
			s.github.ExpireAdminTokens()
		},
		"the API server goes away": func(s *environment) { s.cluster.away(2 * time.Second) },
		"a new session is refused": func(s *environment) {
			s.fault(fakegithub.Fault{Endpoint: "create-session", Status: 500, Count: 1})
			s.github.EvictSessions(0)
		},
		"acquisitions can't be made": func(s *environment) {
			s.fault(fakegithub.Fault{Endpoint: "acquire-jobs", Drop: fakegithub.DropAfter, Count: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newEnvironment(t, fakegithub.Options{Rules: fakegithub.Rules{
				Flow:        fakegithub.Acquire,
				OfferRepeat: 2 * time.Second,
			}})
			s.start()
			s.queue(10)
			s.until(func(g Gomega) { g.Expect(s.github.Jobs("completed")).ToNot(BeEmpty()) })
			disturb(s)
			s.queue(10)
			s.allDone(20)
		})
	}
}

func TestARestartLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	s := newEnvironment(t, fakegithub.Options{})
	s.start()
	// Otherwise the next listener does not know which session to close, and must wait until GitHub ends it.
	s.until(func(g Gomega) { g.Expect(s.cluster.session()).To(Equal(s.session())) })
	s.cluster.away(time.Hour)
	s.queue(20)
	s.until(func(g Gomega) { g.Expect(s.github.Snapshot().ScaleSets[0].Statistics.Assigned).To(Equal(20)) })
	s.kill()
	s.cluster.away(0)
	s.start()
	s.allDone(20)
}

func TestAKilledListenersSessionIsClosedByTheNext(t *testing.T) {
	t.Parallel()
	s := newEnvironment(t, fakegithub.Options{Rules: fakegithub.Rules{SessionLifetime: time.Hour}})
	s.start()
	first := s.session()
	s.until(func(g Gomega) { g.Expect(s.cluster.session()).To(Equal(first)) })
	s.kill()
	s.start()
	s.until(func(g Gomega) { g.Expect(s.session()).ToNot(BeElementOf(first, "")) })
	s.queue(1)
	s.allDone(1)
}

func TestStoppingFreesTheSession(t *testing.T) {
	t.Parallel()
	s := newEnvironment(t, fakegithub.Options{})
	s.start()
	s.shutDown()
	if got := s.github.Snapshot().Sessions; len(got) != 0 {
		t.Errorf("sessions left: %+v", got)
	}
	if got := s.cluster.state(); got != "Stopped" {
		t.Errorf("state = %s", got)
	}
}

func TestASessionConflictEndsWhenTheOtherGoes(t *testing.T) {
	t.Parallel()
	s := newEnvironment(t, fakegithub.Options{Rules: fakegithub.Rules{SessionLifetime: 3 * time.Second}})
	s.openForeignSession()
	s.start()
	s.queue(2)
	s.allDone(2)
}

func TestARotatedTokenIsUsedWithoutARestart(t *testing.T) {
	t.Parallel()
	s := newEnvironment(t, fakegithub.Options{PATs: []string{"first", "second"}})
	s.start()
	s.github.RevokePAT("first", true)
	s.write(func(c *config.Config) { c.Credentials = &config.Credentials{Token: "second"} })
	s.github.ExpireAdminTokens()
	s.github.ExpireQueueTokens()
	s.queue(3)
	s.allDone(3)
}

func TestLimitsAreReadAgain(t *testing.T) {
	t.Parallel()
	s := newEnvironment(t, fakegithub.Options{})
	s.start()
	s.write(func(c *config.Config) { c.MinRunners = 3 })
	s.until(func(g Gomega) { g.Expect(s.cluster.alive()).To(Equal(3)) })
}

// GitHub as it has been seen: what queues while a session announces 0 is lost to the set. One job runs while maxRunners
// is 0, and three are queued.
func TestJobsQueuedWhileMaxRunnersIsZeroRunLater(t *testing.T) {
	for _, flow := range []fakegithub.Flow{fakegithub.AutoAssign, fakegithub.Acquire} {
		t.Run(string(flow), func(t *testing.T) {
			t.Parallel()
			s := newEnvironment(t, fakegithub.Options{Rules: fakegithub.Rules{Flow: flow, ZeroIsFinal: true}})
			s.start()
			s.queue(1)
			s.until(func(g Gomega) {
				jobs := s.github.Snapshot().JobsByState
				g.Expect(jobs["running"] + jobs["completed"]).To(Equal(1))
			})
			s.write(func(c *config.Config) { c.MaxRunners = 0 })
			s.until(func(g Gomega) {
				g.Expect(s.github.Snapshot().Sessions).To(BeEmpty())
				g.Expect(s.cluster.state()).To(Equal("Closed"))
				g.Expect(s.get("health", "/readyz")).To(Equal("200 ok\n"))
				g.Expect(s.get("metrics", "/metrics")).To(
					And(ContainSubstring(`gha_listener_session_wanted{name="set",namespace="runners"} 0`),
						ContainSubstring(`gha_listener_session_up{name="set",namespace="runners"} 0`)),
				)
			})
			s.queue(3)
			s.write(func(c *config.Config) { c.MaxRunners = 2 })
			s.allDone(4)
			if anomalies := s.github.Anomalies(); len(anomalies) != 0 {
				t.Errorf("anomalies: %v", anomalies)
			}
			if most := s.cluster.most(); most > 2 {
				t.Errorf("%d runners at once, want maxRunners at most", most)
			}
		})
	}
}

func TestProbesAndMetricsAreServed(t *testing.T) {
	t.Parallel()
	s := newEnvironment(t, fakegithub.Options{})
	s.start()
	s.until(func(g Gomega) {
		g.Expect(s.get("health", "/healthz")).To(Equal("200 ok\n"))
		g.Expect(s.get("health", "/readyz")).To(Equal("200 ok\n"))
		g.Expect(s.get("metrics", "/metrics")).To(ContainSubstring(
			`gha_max_runners{enterprise="",name="set",namespace="runners",organization="org",repository=""} 40`))
	})
}

func TestAHangingPollIsNoReasonToRestart(t *testing.T) {
	t.Parallel()
	s := newEnvironment(t, fakegithub.Options{})
	s.fault(fakegithub.Fault{Endpoint: "get-message", Hang: true})
	s.start()
	s.queue(2)
	s.until(func(g Gomega) { g.Expect(s.get("health", "/healthz")).To(Equal("200 ok\n")) })
	s.github.RemoveFault("")
	s.allDone(2)
}

func TestTheBeginningWaitsForTheAPIServer(t *testing.T) {
	t.Parallel()
	s := newEnvironment(t, fakegithub.Options{})
	s.cluster.away(2 * time.Second)
	s.start()
	s.queue(1)
	s.allDone(1)
}

func TestAListenerThatCannotBeginSaysWhy(t *testing.T) {
	err := listener.Run(t.Context(), listener.Options{ConfigPath: filepath.Join(t.TempDir(), config.FileName)})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error = %v", err)
	}
}

// When the administrator allows other addresses, a running listener leaves the address that it may no longer use, says
// why, and returns when it may.
func TestAnAddressThatIsNoLongerAllowedIsLeft(t *testing.T) {
	s := newEnvironment(t, fakegithub.Options{})
	own := []string{strings.TrimSuffix(s.config.ConfigureURL, "/org")}
	s.write(func(c *config.Config) { c.Addresses = &config.Addresses{AllowedGitHubURLs: own} })
	s.start()
	s.write(func(c *config.Config) { c.Addresses = &config.Addresses{} })
	s.until(func(g Gomega) {
		said := count(s.cluster, func() string {
			return s.cluster.set.Listener.Reason + ": " + s.cluster.set.Listener.Message
		})
		g.Expect(said).To(And(ContainSubstring("AddressNotAllowed"), ContainSubstring("flags.allowedGitHubURLs")))
	})
	s.write(func(c *config.Config) { c.Addresses = &config.Addresses{AllowedGitHubURLs: own} })
	s.queue(3)
	s.allDone(3)
}
