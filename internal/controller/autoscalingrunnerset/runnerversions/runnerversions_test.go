package runnerversions_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/github/rest"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/runnerversions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/feedback"
	"github.com/harrier-ci/harrier/internal/pool"
)

// github answers from texts, by endpoint.
type github struct {
	mu      sync.Mutex
	url     string
	answers map[string]string
	fails   error
	asked   []string
}

func (g *github) CallREST(_ context.Context, r actions.RESTRequest, result any) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, strings.Join(r.Path, "/"))
	if g.fails != nil && r.Endpoint == actions.EndpointRunnerDownloads {
		return g.fails
	}
	return json.Unmarshal([]byte(g.answers[r.Endpoint]), result)
}

func (g *github) ConfigURL() *actions.ConfigURL {
	config, err := actions.ParseConfigURL(g.url)
	if err != nil {
		panic(err)
	}
	return config
}

func (g *github) Account() actions.Account { return actions.Account{Name: "a token's"} }
func (g *github) Now() time.Time           { return time.Now() }

const downloads = `[{"filename": "actions-runner-linux-x64-2.400.0.tar.gz"}, {"filename": "actions-runner-win-x64-2.399.0.zip"}]`

// look has several sets of one namespace observed for a day and a half, and returns what the first one knows then.
func look(t *testing.T, g *github, image string) *v1alpha1.AutoscalingRunnerSet {
	t.Helper()
	calls := pool.New(pool.Limit, clock.RealClock{})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = calls.Start(ctx) }()
	defer func() { stop(); <-ended }()
	watcher := runnerversions.New(runnerversions.Options{
		REST:   func(context.Context, credentials.Reference) (*rest.Client, error) { return rest.New(g), nil },
		Budget: &feedback.Budget{},
	}, calls, clock.RealClock{}, func(types.NamespacedName) {})
	var sets []*v1alpha1.AutoscalingRunnerSet
	for _, name := range []string{"a", "b", "c"} {
		set := &v1alpha1.AutoscalingRunnerSet{}
		set.Namespace, set.Name, set.Spec.GitHubConfigUrl = "team", name, g.url
		set.Spec.Template.Spec.Containers = []corev1.Container{{Name: v1alpha1.RunnerContainerName, Image: image}}
		set.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionCredentialsValid, Status: metav1.ConditionTrue}}
		sets = append(sets, set)
	}
	for range 36 {
		for range 2 {
			for _, set := range sets {
				known, condition := watcher.Observe(set, time.Now(), func(time.Time) {})
				if set.Status.RunnerVersion = known; condition != nil {
					set.Status.Conditions = append(set.Status.Conditions[:1], *condition)
				}
			}
			synctest.Wait()
		}
		controllertest.Elapse(time.Hour)
	}
	return sets[0]
}

// A scope is asked once in twelve hours, with its own credentials, and about releases on github.com only.
func TestWhatIsAsked(t *testing.T) {
	releases := `[{"tag_name": "v2.400.0", "published_at": "1999-12-15T00:00:00Z"}, {"tag_name": "v2.401.0", "draft": true}]`
	for name, test := range map[string]struct {
		url    string
		fails  error
		asked  []string
		newest string
		says   string
	}{
		"github.com": {"https://github.com/acme", nil, []string{"orgs/acme/actions/runners/downloads",
			"repos/actions/runner/releases"}, "2.400.0", "on 2000-01-14 GitHub stops giving jobs to runner version 2.338.0 in image runner:2.338.0, 30 days after the release of 2.400.0: "},
		"a repository of it": {"https://github.com/acme/app", nil, []string{"repos/acme/app/actions/runners/downloads",
			"repos/actions/runner/releases"}, "2.400.0", "on 2000-01-14"},
		"data residency":    {"https://acme.ghe.com/acme", nil, []string{"orgs/acme/actions/runners/downloads"}, "2.400.0", ""},
		"Enterprise Server": {"https://ghes.example.com/enterprises/acme", nil, []string{"enterprises/acme/actions/runners/downloads"}, "2.400.0", ""},
		"without the right": {"https://github.com/acme", &actions.Error{StatusCode: http.StatusForbidden},
			[]string{"orgs/acme/actions/runners/downloads", "repos/actions/runner/releases"}, "", "on 2000-01-14"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &github{url: test.url, fails: test.fails, answers: map[string]string{
					actions.EndpointRunnerDownloads: downloads, actions.EndpointRunnerReleases: releases}}
				set := look(t, g, "runner:2.338.0")
				want := slices.Repeat(test.asked, 3) // at the beginning, after 12 and after 24 hours
				if !slices.Equal(g.asked, want) {
					t.Errorf("asked %q, want %q", g.asked, want)
				}
				if known := set.Status.RunnerVersion; known == nil || known.Newest != test.newest {
					t.Errorf("known %+v", known)
				}
				said := set.Status.Conditions[len(set.Status.Conditions)-1].Message
				if !strings.HasPrefix(said, test.says) {
					t.Errorf("says %q, want %q", said, test.says)
				}
			})
		})
	}
}

// Without an answer GitHub is asked again every hour, and nothing is said.
func TestAQuestionWithoutAnAnswerIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &github{url: "https://github.com/acme", fails: errors.New("away")}
		if set := look(t, g, "runner:2.338.0"); len(g.asked) < 30 || len(g.asked) > 36 || set.Status.RunnerVersion != nil {
			t.Errorf("asked %d times in 36 hours, known %+v", len(g.asked), set.Status.RunnerVersion)
		}
	})
}

// The condition warns 14 days before the end, and says when only the first sight of a release is known.
func TestCondition(t *testing.T) {
	day := func(month time.Month, day int) time.Time { return time.Date(2026, month, day, 0, 0, 0, 0, time.UTC) }
	first := &v1alpha1.RunnerVersionStatus{URL: "https://github.com/acme", Newest: "2.400.0",
		NewestSince: &metav1.Time{Time: day(time.December, 1)}}
	for name, test := range map[string]struct {
		image, url string
		known      *v1alpha1.RunnerVersionStatus
		now        time.Time
		reason     string
		says       string
	}{
		"15 days before":        {"runner:2.331.0", "https://github.com/acme", nil, day(time.March, 12), "", ""},
		"14 days before":        {"runner:2.331.0", "https://github.com/acme", nil, day(time.March, 13), "Soon", "on 2026-03-27 GitHub stops giving jobs to runner version 2.331.0"},
		"a day before":          {"runner:2.331.0", "https://github.com/acme", nil, day(time.March, 26), "Soon", "on 2026-03-27"},
		"after it":              {"runner:2.331.0", "https://github.com/acme", nil, day(time.March, 28), "Refused", "since 2026-03-27 GitHub refuses runner version 2.331.0"},
		"too old to register":   {"runner:2.328.0", "https://github.com/acme", nil, day(time.October, 1), "Refused", "since 2026-09-25"},
		"first seen":            {"runner:2.338.0", "https://github.com/acme", first, day(time.December, 20), "Soon", "on 2026-12-31"},
		"of another address":    {"runner:2.338.0", "https://github.com/other", first, day(time.December, 20), "", ""},
		"Enterprise Server":     {"runner:2.331.0", "https://ghes.example.com/acme", nil, day(time.March, 28), "", ""},
		"no version in the tag": {"runner:latest", "https://github.com/acme", nil, day(time.March, 28), "", ""},
	} {
		set := &v1alpha1.AutoscalingRunnerSet{}
		set.Spec.GitHubConfigUrl = test.url
		set.Spec.Template.Spec.Containers = []corev1.Container{{Name: v1alpha1.RunnerContainerName, Image: test.image}}
		got, _ := runnerversions.Condition(set, test.known, test.now)
		switch {
		case (got == nil) != (test.reason == ""):
			t.Errorf("%s: %+v", name, got)
		case got != nil && (got.Reason != test.reason || got.Status != metav1.ConditionTrue ||
			!strings.HasPrefix(got.Message, test.says)):
			t.Errorf("%s: %+v, want %s", name, got, test.reason)
		}
	}
}
