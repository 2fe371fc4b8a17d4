package feedback_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/github/rest"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/feedback"
)

var appKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func app() actions.Credentials {
	return actions.Credentials{App: &actions.AppCredentials{ID: "12", InstallationID: 7,
		PrivateKey: string(pem.EncodeToMemory(
			&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(appKey())},
		))}}
}

// startGitHub returns a fake GitHub with a workflow run that waits, and a client of it.
func startGitHub(
	t *testing.T, credentials actions.Credentials, options fakegithub.Options,
) (*fakegithub.Server, *rest.Client) {
	t.Helper()
	clock := options.Clock
	if clock == nil {
		clock = clocktesting.NewFakeClock(time.Now())
	}
	options.Clock, options.Apps = clock, []fakegithub.App{{ID: "12", PublicKey: &appKey().PublicKey}}
	github := fakegithub.New(options)
	t.Cleanup(github.Close)
	base, err := github.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	client, err := actions.NewClient(base+"/acme", credentials, actions.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CreateRunnerScaleSet(t.Context(),
		&actions.RunnerScaleSet{Name: "linux", RunnerGroupID: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := github.QueueJobs(fakegithub.JobRequest{ScaleSet: "linux", Owner: "acme", Repository: "app"}); err != nil {
		t.Fatal(err)
	}
	return github, rest.New(client)
}

var linux = types.NamespacedName{Namespace: "runners", Name: "linux"}

func waitingFor(cause string, over bool) *feedback.Check {
	return &feedback.Check{
		CheckRecord: v1alpha1.CheckRecord{Repository: "acme/app", RunID: 1, About: feedback.AboutWaiting, Cause: cause,
			Over: over},
		Title: "why, over: " + map[bool]string{false: "no", true: "yes"}[over], Summary: "because",
	}
}

// Whoever tells again, after a lost answer or as another process, finds the check run that is there.
func TestOneCheckRunWhateverIsForgotten(t *testing.T) {
	github, client := startGitHub(t, app(), fakegithub.Options{})
	if _, err := github.AddFault(fakegithub.Fault{Endpoint: "create-check-run", Drop: fakegithub.DropAfter,
		Count: 1}); err != nil {
		t.Fatal(err)
	}
	budget := &feedback.Budget{}
	if _, err := feedback.Tell(t.Context(), client, budget, linux, waitingFor("Unschedulable", false),
		feedback.Told{}); err == nil {
		t.Fatal("the lost answer is no error")
	}
	for _, over := range []bool{false, true} {
		if _, err := feedback.Tell(t.Context(), client, budget, linux, waitingFor("Unschedulable", over),
			feedback.Told{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := feedback.Tell(t.Context(), client, budget, linux, waitingFor("QuotaExceeded", true),
		feedback.Told{}); err != nil {
		t.Fatal(err)
	}
	runs := github.CheckRuns()
	if len(runs) != 1 || runs[0].Conclusion != "neutral" || runs[0].Status != "completed" ||
		runs[0].Output.Title != "why, over: yes" || runs[0].HeadSHA == "" {
		t.Errorf("check runs %+v, want the first, brought to its end, and none about what was over before", runs)
	}
}

// Two workflows of one push wait for the same, and so do two runs of one of them: GitHub shows one check run of a name.
func TestEachRunOfACommitHasACheckRunOfItsOwnName(t *testing.T) {
	github, client := startGitHub(t, app(), fakegithub.Options{})
	for _, workflow := range []string{"lint", "build", "build"} {
		if _, err := github.QueueJobs(fakegithub.JobRequest{ScaleSet: "linux", Owner: "acme", Repository: "app", Commit: "abc",
			WorkflowRef: "acme/app/.github/workflows/" + workflow + ".yml@refs/heads/main"}); err != nil {
			t.Fatal(err)
		}
	}
	for run := int64(2); run <= 4; run++ {
		check := waitingFor("Unschedulable", false)
		check.RunID, check.Job = run, "unit (1)"
		if _, err := feedback.Tell(t.Context(), client, &feedback.Budget{}, linux, check, feedback.Told{}); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for _, run := range github.CheckRuns() {
		names = append(names, run.Name)
	}
	want := []string{"Runners linux: waiting (Unschedulable), lint #2 / unit (1)",
		"Runners linux: waiting (Unschedulable), build #3 / unit (1)",
		"Runners linux: waiting (Unschedulable), build #4 / unit (1)"}
	if !slices.Equal(names, want) {
		t.Errorf("names %q, want %q", names, want)
	}
}

// A check run is found again after a restart, however many of its name the commit has: those of an earlier version
// have no run in their names.
func TestACheckRunIsFoundAmongMany(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	github, client := startGitHub(t, app(), fakegithub.Options{Clock: clock})
	const runs = 75
	for range runs {
		if _, err := github.QueueJobs(fakegithub.JobRequest{ScaleSet: "linux", Owner: "acme", Repository: "app",
			Commit: "abc"}); err != nil {
			t.Fatal(err)
		}
	}
	budget := &feedback.Budget{}
	for range 2 { // the second time as another process
		for run := int64(2); run < 2+runs; run++ {
			check := waitingFor("Unschedulable", false)
			check.RunID = run
			told, err := feedback.Tell(t.Context(), client, budget, linux, check, feedback.Told{})
			clock.Step(2 * time.Second)
			if err != nil || told.ID == 0 {
				t.Fatalf("run %d: %+v, %v", run, told, err)
			}
		}
	}
	if made := len(github.CheckRuns()); made != runs {
		t.Errorf("%d check runs for %d runs", made, runs)
	}
}

// What is read before a check run is written, the run and whether there is one, comes out of the budget of reads.
func TestReadsBeforeACheckRunCount(t *testing.T) {
	_, client := startGitHub(t, app(), fakegithub.Options{})
	budget := &feedback.Budget{}
	told, err := feedback.Tell(t.Context(), client, budget, linux, waitingFor("Unschedulable", false), feedback.Told{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := feedback.Tell(t.Context(), client, budget, linux, waitingFor("Unschedulable", true), told); err != nil {
		t.Fatal(err)
	}
	account := client.Account()
	account.Owner = "another" // the namespace has paid only until GitHub had accepted the credential
	left := 0
	for budget.SpendRead(account, client.Now()) == nil {
		left++
	}
	if left != 998 {
		t.Errorf("%d of 1000 reads are left, want all but two", left)
	}
	_, err = feedback.Tell(t.Context(), client, budget, linux, waitingFor("QuotaExceeded", false), feedback.Told{})
	if _, spent := errors.AsType[*feedback.SpentError](err); !spent {
		t.Errorf("got %v, want that the budget is spent", err)
	}
}

func TestWhoMayNotWriteChecksIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		credentials actions.Credentials
		options     fakegithub.Options
	}{
		"an App without the permission": {app(), fakegithub.Options{Permissions: map[string]string{"actions": "write"}}},
		"an App that may only read":     {app(), fakegithub.Options{Permissions: map[string]string{"actions": "write", "checks": "read"}}},
		"a token":                       {actions.Credentials{Token: "pat"}, fakegithub.Options{}},
	} {
		github, client := startGitHub(t, test.credentials, test.options)
		_, err := feedback.Tell(t.Context(), client, &feedback.Budget{}, linux, waitingFor("Unschedulable", false),
			feedback.Told{})
		if !feedback.LacksPermission(err) || len(github.CheckRuns()) != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A rerun while the run goes on is refused with 403, as without the permission; that is told apart.
func TestARefusalOfARerunIsUnderstood(t *testing.T) {
	for name, test := range map[string]struct {
		permissions map[string]string
		ended       bool
		refused     bool
	}{
		"it goes on":             {map[string]string{"actions": "write"}, false, false},
		"it has ended":           {map[string]string{"actions": "write"}, true, false},
		"without the permission": {map[string]string{"actions": "read"}, true, true},
	} {
		github, client := startGitHub(t, app(), fakegithub.Options{Permissions: test.permissions})
		if test.ended {
			if err := github.CancelJob(github.Jobs("")[0].RequestID); err != nil {
				t.Fatal(err)
			}
		}
		lost := []*feedback.Lost{{Runner: "", Cause: v1alpha1.LostCauseEvicted,
			Run:   feedback.Run{Repository: "acme/app", ID: 1},
			Rerun: v1alpha1.RerunStatus{State: v1alpha1.RerunAsked, Attempt: 1}}}
		seen, err := (&feedback.Policy{Overtakes: true}).Visit(t.Context(), client, &feedback.Budget{},
			&feedback.Question{Run: lost[0].Run, Lost: lost})
		if feedback.LacksPermission(err) != test.refused || feedback.IsFinal(err) != test.refused {
			t.Errorf("%s: %v", name, err)
		}
		if want := map[bool]int{false: 1, true: 2}[test.ended]; !test.refused && (err != nil || seen.Run.Attempt != want) {
			t.Errorf("%s: %+v, %v, want attempt %d", name, seen, err, want)
		}
	}
}
