package scaling_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
	"github.com/harrier-ci/harrier/internal/registrations"
	"github.com/harrier-ci/harrier/internal/runnerversion"
)

// onHosted lets the set register at github.com on a day on which 2.330.0 and 2.334.0 are refused and 2.336.0 is not.
func onHosted(s *scenario, image string) {
	s.now = time.Date(2026, time.August, 1, 0, 0, 0, 0, time.UTC)
	s.versions.Known.Hosted = true
	s.versions.Image, _ = runnerversion.OfImage(image)
}

// A runner that exits with 0 without a job was refused if its version is one that GitHub refuses, and can't tell so by
// its exit code. In doubt it is what it was: one without a job.
func TestRefusedVersionThatExitsWithZero(t *testing.T) {
	for name, test := range map[string]struct {
		image, recorded string
		want            registrations.Answer
	}{
		"the image says so":                 {"runner:2.330.0", "", registrations.VersionRefused},
		"the record says so":                {"runner:latest", "2.330.0", registrations.VersionRefused},
		"the record knows better":           {"runner:2.330.0", "2.336.0", registrations.NoJob},
		"the image is newer than it says":   {"runner:2.336.0", "2.330.0", registrations.VersionRefused},
		"nobody says":                       {"runner:latest", "", registrations.NoJob},
		"the record makes no sense":         {"runner:latest", "2.330.0 or so", registrations.NoJob},
		"GitHub takes it":                   {"runner:2.336.0", "", registrations.NoJob},
		"it would tell":                     {"runner:2.334.0", "", registrations.NoJob},
		"it had connected, and was refused": {"runner:latest", "2.334.0", registrations.VersionRefused},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScenario(1)
			onHosted(s, test.image)
			r := s.add(1, exited)
			s.versions.Recorded = func(registrations.Registration) string { return test.recorded }
			s.pass()
			s.later(settleGrace).publish(1)
			ended, p := s.now, s.pass()
			for exitOutcome(p) == "ask" || exitOutcome(p) == "wait" {
				if s.now.Sub(ended) > 2*time.Minute {
					t.Fatal("not known after two minutes")
				}
				if exitOutcome(p) == "ask" {
					s.answer(r, registrations.Registered)
				}
				p = s.later(askExitedInterval / 2).pass()
			}
			if got := s.ExitedIdleVerdict(r); exitOutcome(p) != "fail" || got != test.want {
				t.Errorf("%s, verdict %d, want %d", exitOutcome(p), got, test.want)
			}
		})
	}
}

// A burst of jobs for an image that GitHub refuses costs one runner until it shows that the rule is not in force.
func TestImageThatGitHubRefusesIsTriedByOneRunner(t *testing.T) {
	s := newScenario(30)
	onHosted(s, "runner:2.330.0")
	if p := s.pass(); p.create != 1 {
		t.Errorf("create %d, want one", p.create)
	}
	s.add(1, starting)
	if p := s.pass(); p.create != 0 {
		t.Errorf("create %d beside the first, want none", p.create)
	}
	s.runners[0].Phase, s.runners[0].RegistrationID = exited.Phase, exited.RegistrationID
	s.pass()
	if p := s.later(settleGrace).publish(30).pass(); p.create != 0 || len(p.With(scaling.LookUp)) != 1 {
		t.Errorf("create %d, ask %v, want to know first why it ended", p.create, names(p.With(scaling.LookUp)))
	}
	s.runners[0].HadJob = true // GitHub takes it all the same
	if p := s.pass(); p.create != 30 {
		t.Errorf("create %d after one had a job, want all", p.create)
	}
}

// What GitHub Enterprise Server takes is not known before it says what it offers: a few runners show it.
func TestImageThatEnterpriseServerMayRefuseIsTriedByAFew(t *testing.T) {
	s := newScenario(30)
	onHosted(s, "runner:2.330.0")
	s.versions.Known.Hosted = false
	if p := s.pass(); p.create != 8 {
		t.Errorf("create %d, want eight", p.create)
	}
	s.add(8, exited)
	s.pass()
	if p := s.later(settleGrace).publish(30).pass(); p.create != 0 {
		t.Errorf("create %d more before it is known why those ended", p.create)
	}
	if p := s.later(time.Minute).pass(); p.create != 0 {
		t.Errorf("create %d more a minute later", p.create)
	}
}

// The condition says what the runner said, and nothing is Degraded for it.
func TestRefusalIsInTheRunnersWords(t *testing.T) {
	s := newScenario(10)
	words := "GitHub refuses runner version 2.330.0 in image runner:2.330.0"
	s.add(3, with(outdated, func(r *roster.Runner) { r.Message = words }))
	p := s.pass()
	got := meta.FindStatusCondition(s.status(p).Conditions, v1alpha1.ConditionRunnerOutdated)
	if got.Status != "True" || !strings.HasPrefix(got.Message, words+": use a newer image") || s.degraded(p) ||
		p.create != 0 {
		t.Errorf("condition %+v, degraded %t, create %d", got, s.degraded(p), p.create)
	}
}
