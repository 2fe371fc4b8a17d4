package scaling_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/versions"
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

// What is in force may change: a proof from before it is none, and a burst on the Monday after it costs one runner.
func TestProofEndsWhenGitHubBeginsToRefuse(t *testing.T) {
	s := newScenario(30)
	onHosted(s, "runner:2.331.0")
	s.now = time.Date(2026, time.March, 26, 12, 0, 0, 0, time.UTC) // the day before its end
	s.add(30, busyOne)
	s.pass()
	for _, r := range s.runners {
		r.Completed, r.Phase = true, exited.Phase
	}
	s.later(time.Hour).publish(0).pass()
	s.runners = nil
	if p := s.publish(30).pass(); p.create != 30 {
		t.Errorf("create %d on the day before, want 30", p.create)
	}
	if p := s.later(24 * time.Hour).publish(30).pass(); p.create != 1 {
		t.Errorf("create %d on the day, want 1", p.create)
	}
}

// of returns what is known of the versions of a template with that image, of a set at github.com.
func of(image string, pull corev1.PullPolicy) versions.Seen {
	spec := &v1alpha1.EphemeralRunnerSpec{GitHubConfigUrl: "https://github.com/acme"}
	spec.PodSpec.Containers = []corev1.Container{{Name: v1alpha1.RunnerContainerName, Image: image, ImagePullPolicy: pull}}
	return versions.Of(spec, &v1alpha1.AutoscalingRunnerSet{}, nil)
}

// If nothing names the version of an image, its first few runners show whether GitHub takes it. GitHub's own newest
// image needs no proof, and neither does a version that GitHub takes.
func TestImageOfUnknownVersionIsTriedByAFew(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("a", 64)
	for image, want := range map[string]int{
		"registry.example.com/ci/runner:stable":                8,
		"registry.example.com/ci/actions-runner:latest":        8,
		"ghcr.io/actions/actions-runner" + digest:              8,
		"ghcr.io/actions/actions-runner:2.336.0" + digest:      100,
		"registry.example.com/ci/runner:2.336.0-ubuntu-24.04":  100,
		"registry.example.com/ci/runner:2.330.0-ubuntu-24.04":  1,
		"ghcr.io/actions/actions-runner:latest":                100,
		"ghcr.io/actions/actions-runner":                       100,
		"ghcr.io/actions/actions-runner:latest IfNotPresent":   8,
		"ghcr.io/actions/actions-runner:latest Always":         100,
		"ghcr.io/actions/actions-runner:ubuntu-24.04":          8,
		"registry.example.com/ghcr.io/actions/actions-runner:": 8,
	} {
		s := newScenario(100)
		s.now = time.Date(2026, time.August, 1, 0, 0, 0, 0, time.UTC)
		name, pull, _ := strings.Cut(image, " ")
		s.versions = of(name, corev1.PullPolicy(pull))
		if p := s.pass(); p.create != want {
			t.Errorf("%s: create %d, want %d", image, p.create, want)
		}
	}
}

// The first job proves the template, and so does a runner that is up for longer than GitHub needs to refuse it. The
// proof outlives the manager, and all runners; it is good for its template alone.
func TestWhatProvesATemplate(t *testing.T) {
	s := newScenario(100)
	s.now = time.Date(2026, time.August, 1, 0, 0, 0, 0, time.UTC)
	s.versions = of("registry.example.com/ci/runner:stable", "")
	s.add(8, starting)
	if p := s.pass(); p.create != 0 {
		t.Errorf("create %d beside the first eight", p.create)
	}
	for _, r := range s.runners {
		r.Phase = idle.Phase
	}
	s.pass()
	if p := s.later(provenGrace - time.Second).pass(); p.create != 0 {
		t.Errorf("create %d before they are proven", p.create)
	}
	if p := s.later(time.Second).pass(); p.create != 92 {
		t.Errorf("create %d after they have been up for 10 s, want all", p.create)
	}
	if proof := s.status(s.pass()).ProvenTemplate; proof != nil {
		t.Errorf("idle runners left the proof %+v", proof)
	}
	s.runners[0].HadJob = true
	proof := s.status(s.pass()).ProvenTemplate
	if proof == nil || !proof.At.Time.Equal(s.runners[0].CreatedAt) {
		t.Fatalf("the first job left the proof %+v", proof)
	}

	after := func(at time.Time, hash string) int {
		s := newScenario(100)
		s.now, s.versions = at, of("registry.example.com/ci/runner:stable", "")
		s.proven = &v1alpha1.ProvenTemplate{Hash: hash, At: proof.At}
		return s.pass().create
	}
	if n := after(s.now.Add(time.Hour), proof.Hash); n != 100 {
		t.Errorf("create %d after a restart, want all", n)
	}
	if n := after(s.now.Add(time.Hour), "another"); n != 8 {
		t.Errorf("create %d of another template, want eight", n)
	}
	if n := after(time.Date(2026, time.August, 20, 0, 0, 0, 0, time.UTC), proof.Hash); n != 8 {
		t.Errorf("create %d after GitHub has begun to refuse another release, want eight", n)
	}
	if n := after(s.now.Add(-time.Hour), proof.Hash); n != 8 {
		t.Errorf("create %d by a proof of the future, want eight", n)
	}
}

// An image that GitHub refuses costs eight runners, with either exit code, and it is Outdated in two minutes.
func TestRefusedImageOfUnknownVersionCostsEight(t *testing.T) {
	for code, shape := range map[int]roster.Runner{7: outdated, 0: exited} {
		s := newScenario(100)
		s.now = time.Date(2026, time.August, 1, 0, 0, 0, 0, time.UTC)
		s.versions = of("registry.example.com/ci/runner:stable", "")
		s.versions.Recorded = func(registrations.Registration) string { return "2.330.0" }
		created := 0
		for began := s.now; s.now.Sub(began) < 2*time.Minute; s.later(time.Second).publish(100) {
			p := s.pass()
			for _, r := range s.runners {
				if p.decided(r) == scaling.LookUp {
					s.answer(r, registrations.Registered)
				}
				if p.decided(r) == scaling.MarkFailed && s.ExitedIdleVerdict(r) == registrations.VersionRefused {
					r.Phase, r.Message = outdated.Phase, outdated.Message
				}
			}
			if created += p.create; p.create > 0 {
				s.add(p.create, shape)
			}
		}
		outdated := meta.FindStatusCondition(s.status(s.pass()).Conditions, v1alpha1.ConditionRunnerOutdated)
		if created > 8 || outdated.Status != "True" || s.degraded(s.pass()) {
			t.Errorf("exit %d: created %d, Outdated %s", code, created, outdated.Status)
		}
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

// A server takes the version that it offers, so the condition gives its number where it is known.
func TestRefusalNamesTheVersionThatAServerOffers(t *testing.T) {
	offered, _ := runnerversion.Parse("2.331.0")
	for name, test := range map[string]struct {
		known runnerversion.Known
		names bool
	}{
		"it offers one":    {runnerversion.Known{Offered: offered}, true},
		"it is not known":  {runnerversion.Known{}, false},
		"it is github.com": {runnerversion.Known{Hosted: true, Offered: offered}, false},
	} {
		s := newScenario(10)
		s.versions.Known = test.known
		s.add(3, outdated)
		got := meta.FindStatusCondition(s.status(s.pass()).Conditions, v1alpha1.ConditionRunnerOutdated)
		if got.Status != "True" || strings.Contains(got.Message, "with runner version 2.331.0 or later") != test.names {
			t.Errorf("%s: %s", name, got.Message)
		}
	}
}
