package page_test

import (
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/page"
	"github.com/harrier-ci/harrier/operations/history/page/pagetest"
	"github.com/harrier-ci/harrier/operations/history/watch"
)

// matrix is the invented cluster while jobs of a matrix wait that have one name.
type matrix struct{ pagetest.Cluster }

func (matrix) jobs() (jobs []v1alpha1.WaitingJob) {
	for _, job := range []struct{ name, id string }{{"e2e", "0b0bd3c5-1111"}, {"e2e", "7f00aa12-2222"}, {"lint", "99999999-3333"}} {
		jobs = append(jobs, v1alpha1.WaitingJob{Repository: "acme/web", RunID: 42, Name: job.name, JobID: job.id,
			AssignedAt: metav1.NewTime(noon.Add(-time.Minute))})
	}
	return jobs
}

func (m matrix) Now(namespace, set string) (now watch.Now) {
	now = m.Cluster.Now(namespace, set)
	now.Waiting = m.jobs()
	return now
}

func (m matrix) Waiting() map[types.NamespacedName][]v1alpha1.WaitingJob {
	return map[types.NamespacedName][]v1alpha1.WaitingJob{{Namespace: "team-web", Name: "linux"}: m.jobs()}
}

// Jobs of a matrix that have one name are told apart wherever they wait; one whose name is its own is left as it is.
func TestWaitingJobsOfAMatrixAreToldApart(t *testing.T) {
	s := invented(t)
	with := httptest.NewServer(page.Handler(page.Options{Ledger: s.ledger, Cluster: matrix{pagetest.Cluster{At: noon}},
		Name: pagetest.Name, Clock: s.clock, Log: logr.Discard()}))
	t.Cleanup(with.Close)
	s.Server = with
	for _, path := range []string{"/", "/set?cluster=" + pagetest.Name + "&namespace=team-web&set=linux", "/run?run=42"} {
		_, body := s.get(t, path)
		for _, want := range []string{"e2e job 0b0bd3c5 ", "e2e job 7f00aa12 "} {
			if !strings.Contains(text(body), want) {
				t.Errorf("%s does not say %q", path, want)
			}
		}
		if strings.Contains(text(body), "job 99999999") {
			t.Errorf("%s has the id of a job whose name says enough", path)
		}
	}
}

// What a lost job says of its rerun, by what was decided.
func TestALostJobSaysWhyItRunsAgainOrNot(t *testing.T) {
	for _, test := range []struct{ state, reason, want string }{
		{"", "", "Nobody has asked GitHub to run it again: feedback.rerunLostJobs of its scale set says for which causes that is done."},
		{"Wanted", "", "It is run again when the workflow run has ended"},
		{"GivenUp", "NewerRun", "It is not run again by itself: there is a newer run of the same workflow, branch and event"},
		{"GivenUp", "PermissionMissing", "give the App or token the repository permission Actions: read and write: that is for an owner on GitHub."},
		{"GivenUp", "", "It is not run again by itself; its author can do that on the page of the workflow run."},
	} {
		s := empty(t)
		if err := s.ledger.Put(t.Context(), []ledger.Job{{RunnerUID: "u", Cluster: "c", Namespace: "n", Set: "s", Name: "build", At: noon,
			Started: noon, Finished: noon, LostCause: "Evicted", Rerun: test.state, RerunReason: test.reason}}); err != nil {
			t.Fatal(err)
		}
		if _, body := s.get(t, "/job?runnerUID=u"); !strings.Contains(text(body), test.want) {
			t.Errorf("%s %s: %q is not in %s", test.state, test.reason, test.want, text(body))
		}
	}
}

// A limit is told in words; the word that programs know stands in the title.
func TestWaitsSayLimitsInWords(t *testing.T) {
	s := empty(t)
	job := ledger.Job{RunnerUID: "u", Cluster: "c", Namespace: "n", Set: "s", Name: "build", At: noon, Result: "succeeded",
		Queued: noon.Add(-time.Hour), Assigned: noon.Add(-time.Minute), Created: noon, Started: noon, Finished: noon,
		LimitedReason: "MaxRunnersReached", LimitNumber: new(int64(3)), LimitedAssigned: new(int64(1800))}
	if err := s.ledger.Put(t.Context(), []ledger.Job{job}); err != nil {
		t.Fatal(err)
	}
	if err := s.ledger.AddUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.clock.SetTime(noon.Add(time.Hour))
	named := regexp.MustCompile(`<b title="([^"]*)">([^<]*)</b>`)
	for _, path := range []string{"/", "/usage", "/job?runnerUID=u"} {
		_, body := s.get(t, path)
		if got := named.FindStringSubmatch(body); !slices.Equal(got[min(1, len(got)):], []string{"MaxRunnersReached", "at maxRunners (3)"}) {
			t.Errorf("%s says %q", path, got)
		}
		if strings.Contains(text(body), "MaxRunnersReached") {
			t.Errorf("%s has a word for programs", path)
		}
	}
}
