package rest_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/github/rest"
	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// world is a fake GitHub with one scale set, and a client of it.
type world struct {
	*testing.T
	github *fakegithub.Server
	base   string
	clock  *clocktesting.FakeClock
	client *actions.Client
	rest   *rest.Client
	acme   rest.Repository
	set    int
}

var appKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func app() actions.Credentials {
	return actions.Credentials{
		App: &actions.AppCredentials{ID: "12", InstallationID: 7, PrivateKey: string(pem.EncodeToMemory(
			&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(appKey())},
		))},
	}
}

func newWorld(t *testing.T, credentials actions.Credentials, options fakegithub.Options) *world {
	t.Helper()
	w := &world{T: t, clock: clocktesting.NewFakeClock(time.Now())}
	options.Clock = w.clock
	options.Apps = []fakegithub.App{{ID: "12", PublicKey: &appKey().PublicKey}}
	w.github = fakegithub.New(options)
	t.Cleanup(w.github.Close)
	base, err := w.github.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.base = base
	w.client, err = actions.NewClient(base+"/acme", credentials, actions.Options{Clock: w.clock})
	if err != nil {
		t.Fatal(err)
	}
	w.rest = rest.New(w.client)
	if w.acme, err = w.rest.Repository("acme/app"); err != nil {
		t.Fatal(err)
	}
	set, err := w.client.CreateRunnerScaleSet(t.Context(), &actions.RunnerScaleSet{Name: "linux", RunnerGroupID: 1})
	if err != nil {
		t.Fatal(err)
	}
	w.set = set.ID
	return w
}

// run queues jobs of one run, and returns their request ids. Without a session nobody runs them: cancelled, they have
// ended.
func (w *world) run(jobs int) []int64 {
	w.Helper()
	ids, err := w.github.QueueJobs(fakegithub.JobRequest{
		ScaleSet:   "linux",
		Owner:      "acme",
		Repository: "app",
		Count:      jobs,
	})
	if err != nil {
		w.Fatal(err)
	}
	return ids
}

func (w *world) cancel(jobs ...int64) {
	w.Helper()
	for _, job := range jobs {
		if err := w.github.CancelJob(job); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *world) wantRun(id int64, attempt int, conclusion string) *rest.Run {
	w.Helper()
	run, err := w.rest.GetRun(w.Context(), w.acme, id)
	if err != nil {
		w.Fatal(err)
	}
	if run.Attempt != attempt || run.Conclusion != conclusion || run.Ended() != (conclusion != "") ||
		run.HeadSHA == "" {
		w.Errorf("run %+v, want attempt %d with conclusion %q", run, attempt, conclusion)
	}
	return run
}

func (w *world) jobs(run int64) []rest.Job {
	w.Helper()
	jobs, err := w.rest.ListJobs(w.Context(), w.acme, run)
	if err != nil {
		w.Fatal(err)
	}
	return jobs
}

func TestAJobIsRunAgainWhenItsRunHasEnded(t *testing.T) {
	w := newWorld(t, actions.Credentials{Token: "pat"}, fakegithub.Options{})
	ids := w.run(2)
	w.cancel(ids[0])
	w.wantRun(1, 1, "")
	first := w.jobs(1)
	if len(first) != 2 || !first[0].FailedOrCancelled() || first[1].Ended() {
		t.Fatalf("jobs %+v, want one cancelled and one that goes on", first)
	}
	for what, err := range map[string]error{
		"the job": w.rest.RerunJob(t.Context(), w.acme, 1, first[0].ID),
		"all":     w.rest.RerunFailedJobs(t.Context(), w.acme, 1),
	} {
		if !errors.Is(err, rest.ErrRunGoesOn) || errors.Is(err, actions.ErrUnauthorized) {
			t.Errorf("%s, while the run goes on: %v", what, err)
		}
	}
	w.cancel(ids[1])
	w.wantRun(1, 1, rest.ConclusionCancelled)
	if err := w.rest.RerunJob(t.Context(), w.acme, 1, first[0].ID); err != nil {
		t.Fatal(err)
	}
	w.wantRun(1, 2, "")
	second := w.jobs(1)
	if len(second) != 2 || !slices.ContainsFunc(second, func(j rest.Job) bool { return !j.Ended() }) ||
		!slices.ContainsFunc(second, func(j rest.Job) bool { return j.FailedOrCancelled() }) {
		t.Errorf("jobs of the second attempt: %+v, want one run again and one carried over", second)
	}
	w.cancel(w.github.Jobs("")[2].RequestID)
	if err := w.rest.RerunFailedJobs(t.Context(), w.acme, 1); err != nil {
		t.Fatal(err)
	}
	w.wantRun(1, 3, "")
	if jobs := w.github.Jobs(fakegithub.JobState("queued")); len(jobs) != 2 {
		t.Errorf("%d jobs are queued, want both again", len(jobs))
	}
}

func TestARunIsTooOldAfterThirtyDays(t *testing.T) {
	w := newWorld(t, actions.Credentials{Token: "pat"}, fakegithub.Options{})
	w.cancel(w.run(1)...)
	w.clock.Step(31 * 24 * time.Hour)
	if err := w.rest.RerunFailedJobs(t.Context(), w.acme, 1); !errors.Is(err, rest.ErrRunExpired) {
		t.Error(err)
	}
}

func TestJobsAreListedInPages(t *testing.T) {
	w := newWorld(t, actions.Credentials{Token: "pat"}, fakegithub.Options{})
	w.run(75)
	jobs, seen := w.jobs(1), map[int64]bool{}
	for _, job := range jobs {
		seen[job.ID] = true
	}
	if len(jobs) != 75 || len(seen) != 75 {
		t.Errorf("%d jobs with %d numbers, want 75", len(jobs), len(seen))
	}
	w.run(1050)
	if _, err := w.rest.ListJobs(t.Context(), w.acme, 2); !errors.Is(err, rest.ErrTooManyJobs) {
		t.Errorf("1,050 jobs: %v", err)
	}
}

func TestWithoutThePermissionNothingIsRunAgainUntilTheAppHasIt(t *testing.T) {
	w := newWorld(t, app(), fakegithub.Options{Permissions: map[string]string{"actions": "read"}})
	w.cancel(w.run(1)...)
	w.wantRun(1, 1, rest.ConclusionCancelled)
	err := w.rest.RerunFailedJobs(t.Context(), w.acme, 1)
	refusal, refused := actions.RefusalOf(err)
	if !refused || refusal.Class != actions.RefusedPermission || !strings.Contains(err.Error(), "actions=write") {
		t.Fatalf("without the permission: %v", err)
	}
	_, err = w.rest.CreateCheckRun(t.Context(), w.acme, rest.CheckRun{Name: "harrier", HeadSHA: "abc"})
	if !errors.Is(err, actions.ErrUnauthorized) || !strings.Contains(err.Error(), "checks=write") {
		t.Errorf("a check run without the permission: %v", err)
	}
	w.github.SetPermissions(map[string]string{"actions": "write"})
	w.clock.Step(6 * time.Minute) // the token is old enough to be doubted, and lives on
	if err := w.rest.RerunFailedJobs(t.Context(), w.acme, 1); err != nil {
		t.Errorf("with the permission: %v", err)
	}
}

// tokensMade counts the installation tokens that GitHub has made.
func (w *world) tokensMade() int {
	made := 0
	for _, counter := range w.github.Counters() {
		if counter.Endpoint == "access-token" {
			made += counter.Count
		}
	}
	return made
}

func TestCallsShareOneInstallationToken(t *testing.T) {
	w := newWorld(t, app(), fakegithub.Options{})
	w.cancel(w.run(1)...)
	for range 5 {
		w.wantRun(1, 1, rest.ConclusionCancelled)
	}
	if made := w.tokensMade(); made != 1 {
		t.Errorf("%d installation tokens were made, want the connection's only", made)
	}
	w.clock.Step(59*time.Minute + time.Second)
	w.wantRun(1, 1, rest.ConclusionCancelled)
	if made := w.tokensMade(); made != 2 {
		t.Errorf("%d installation tokens were made, want another one before the first expired", made)
	}
}

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	w := newWorld(t, actions.Credentials{Token: "pat"}, fakegithub.Options{})
	if _, err := w.rest.GetRun(t.Context(), w.acme, 99); !errors.Is(err, actions.ErrNotFound) ||
		errors.Is(err, actions.ErrUnauthorized) {
		t.Error(err)
	}
}

func TestARerunWhoseAnswerIsLostIsNotRepeated(t *testing.T) {
	w := newWorld(t, actions.Credentials{Token: "pat"}, fakegithub.Options{})
	w.cancel(w.run(1)...)
	if _, err := w.github.AddFault(fakegithub.Fault{Endpoint: "rerun-*", Drop: fakegithub.DropAfter}); err != nil {
		t.Fatal(err)
	}
	err := w.rest.RerunFailedJobs(t.Context(), w.acme, 1)
	if _, lost := errors.AsType[*actions.NetworkError](err); !lost {
		t.Errorf("the lost answer: %v", err)
	}
	w.wantRun(1, 2, "")
	asked := 0
	for _, entry := range w.github.Requests() {
		if strings.HasPrefix(entry.Endpoint, "rerun-") {
			asked++
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

func TestWhatMayBeDoneAlthoughItFailed(t *testing.T) {
	answer := func(status int) error { return fmt.Errorf("acme/app: %w", &actions.Error{StatusCode: status}) }
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"nothing":        {nil, false},
		"lost":           {fmt.Errorf("acme/app: %w", &actions.NetworkError{Err: io.EOF}), true},
		"lost after 403": {&actions.NetworkError{Err: io.EOF, LastAnswer: &actions.Error{StatusCode: 403}}, true},
		"unreadable": {
			fmt.Errorf("acme/app: %w", &actions.UnexpectedResponseError{Err: errors.New("the answer has no id")}), true,
		},
		"of a gateway":     {answer(502), true},
		"500":              {answer(500), true},
		"forbidden":        {answer(403), false},
		"not there":        {answer(404), false},
		"not valid":        {answer(422), false},
		"rate limited":     {&actions.RateLimitedError{Err: answer(429)}, false},
		"goes on":          {fmt.Errorf("acme/app: %w", rest.ErrRunGoesOn), false},
		"not asked at all": {rest.ErrForeignRepository, false},
	} {
		if got := rest.MayBeDone(test.err); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

func TestSecondaryLimits(t *testing.T) {
	w := newWorld(t, app(), fakegithub.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 80 {
		if _, err := w.rest.CreateCheckRun(ctx, w.acme, rest.CheckRun{Name: "harrier", HeadSHA: "abc"}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := w.rest.CreateCheckRun(ctx, w.acme, rest.CheckRun{Name: "harrier", HeadSHA: "abc"})
	limited, ok := errors.AsType[*actions.RateLimitedError](err)
	if !ok || limited.Until.Sub(w.clock.Now()) != time.Minute || errors.Is(err, actions.ErrUnauthorized) {
		t.Errorf("the 81st within a minute: %v", err)
	}
}

func TestCheckRuns(t *testing.T) {
	w := newWorld(t, app(), fakegithub.Options{})
	check := rest.CheckRun{
		Name:       "harrier: linux",
		HeadSHA:    "abc",
		ExternalID: "run-1-Evicted",
		Title:      strings.Repeat("é", 300),
		Summary:    strings.Repeat("s", 70_000),
	}
	if id, err := w.rest.FindCheckRun(t.Context(), w.acme, check); id != 0 || err != nil {
		t.Errorf("before it is made: %d, %v", id, err)
	}
	id, err := w.rest.CreateCheckRun(t.Context(), w.acme, check)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := w.rest.FindCheckRun(t.Context(), w.acme, check); found != id || err != nil {
		t.Errorf("found %d: %v, want %d", found, err, id)
	}
	check.ID, check.Title, check.Conclusion = id, "over", rest.ConclusionNeutral
	if err := w.rest.UpdateCheckRun(t.Context(), w.acme, check); err != nil {
		t.Fatal(err)
	}
	made := w.github.CheckRuns()
	if len(made) != 1 {
		t.Fatalf("check runs %+v, want one", made)
	}
	got := made[0]
	if got.Status != "completed" || got.Conclusion != "neutral" || got.Output.Title != "over" || got.Updates != 1 ||
		len(got.Output.Summary) != 65535 {
		t.Errorf(
			"check run: %s %s %q, %d updates, %d bytes", got.Status, got.Conclusion, got.Output.Title, got.Updates,
			len(got.Output.Summary),
		)
	}
	if got.HeadSHA != "abc" {
		t.Errorf("it is on commit %q", got.HeadSHA)
	}
}

func TestWhoMayNotWriteACheckRun(t *testing.T) {
	w := newWorld(t, app(), fakegithub.Options{})
	check := rest.CheckRun{ID: 1, Name: "harrier", HeadSHA: "abc"}
	if err := w.rest.UpdateCheckRun(t.Context(), w.acme, check); !errors.Is(err, actions.ErrNotFound) {
		t.Errorf("one that is not there: %v", err)
	}
	person := newWorld(t, actions.Credentials{Token: "pat"}, fakegithub.Options{})
	if _, err := person.rest.CreateCheckRun(t.Context(), person.acme, check); !errors.Is(err, actions.ErrUnauthorized) {
		t.Errorf("with a personal access token: %v", err)
	}
}

func TestOnlyRepositoriesOfTheConfigURL(t *testing.T) {
	for address, test := range map[string]struct{ good, bad []string }{
		"https://github.com/acme": {
			[]string{"acme/app", "ACME/a.b-c_d"},
			[]string{
				"other/app", "acme", "acme/", "/app", "acme/a/b", "acme/..", "acme/.", "acme/a b", "acme/a?b",
				"acme/%2e", "",
			},
		},
		"https://github.com/acme/app": {
			[]string{"acme/app", "acme/App"},
			[]string{"acme/other", "other/app"},
		},
		"https://ghes.example.com/enterprises/big": {
			[]string{"acme/app", "other/app"},
			[]string{"../app", "acme/" + strings.Repeat("a", 101)},
		},
	} {
		github, err := actions.NewClient(address, actions.Credentials{Token: "pat"}, actions.Options{})
		if err != nil {
			t.Fatal(err)
		}
		client := rest.New(github)
		for _, name := range test.good {
			if got, err := client.Repository(name); err != nil || got.String() != name {
				t.Errorf("%s: %q: %v, %v", address, name, got, err)
			}
		}
		for _, name := range test.bad {
			if got, err := client.Repository(name); !errors.Is(err, rest.ErrForeignRepository) {
				t.Errorf("%s: %q: %v, %v", address, name, got, err)
			}
		}
	}
}
