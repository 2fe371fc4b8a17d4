package ledger_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/feedback"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/finding"
	"github.com/harrier-ci/harrier/operations/history/databasetest"
	history "github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/page"
	"github.com/harrier-ci/harrier/operations/history/watch"
	"github.com/harrier-ci/harrier/operations/plugin/top"
	"github.com/harrier-ci/harrier/operations/plugin/why"
)

// full is a cluster with one scale set that is limited, and a job that waits for it.
type full struct {
	reason string
	job    v1alpha1.WaitingJob
}

func (f full) Waiting() map[types.NamespacedName][]v1alpha1.WaitingJob {
	return map[types.NamespacedName][]v1alpha1.WaitingJob{{Namespace: "n", Name: "linux"}: {f.job}}
}

func (f full) Sets() []history.Sample {
	return []history.Sample{{Cluster: "c", Namespace: "n", Set: "linux", At: noon, Waiting: 1, LimitedReason: f.reason}}
}

func (f full) Now(string, string) watch.Now {
	return watch.Now{Waiting: []v1alpha1.WaitingJob{f.job}, Limit: &finding.Finding{Reason: f.reason, Message: "because"}}
}

func (full) GitHub(string, string) string { return "https://github.com" }

// objects are the same as the API server has it.
func (f full) objects() []client.Object {
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "linux"}}
	set.Spec.GitHubConfigUrl, set.Spec.VaultConfig = "https://github.com/acme", &v1alpha1.VaultConfig{}
	set.Status.AssignedJobs = 1
	for _, about := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionScaleSetRegistered, v1alpha1.ConditionCredentialsValid,
		v1alpha1.ConditionListenerReady} {
		set.Status.Conditions = append(set.Status.Conditions, metav1.Condition{Type: about, Status: metav1.ConditionTrue, Reason: "Fine"})
	}
	set.Status.LimitedBy = &v1alpha1.Limit{Kind: "Maximum", Reason: f.reason, Message: "because", Since: metav1.NewTime(noon)}
	runnerSet := &v1alpha1.EphemeralRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "linux-x7k2p",
		Labels: map[string]string{v1alpha1.LabelScaleSetName: "linux", v1alpha1.LabelScaleSetNamespace: "n"}}}
	runnerSet.Status.Listener = &v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateListening, Waiting: []v1alpha1.WaitingJob{f.job}}
	return []client.Object{set, runnerSet}
}

// surfaces returns what page, top, why and check run say of the job that waits.
func (f full) surfaces(t *testing.T) map[string]string {
	t.Helper()
	l, err := history.Open(t.Context(), databasetest.SQLite(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	pages := httptest.NewServer(page.Handler(page.Options{Ledger: l, Cluster: f, Name: "c", Clock: clocktesting.NewFakeClock(noon),
		Log: logr.Discard()}))
	t.Cleanup(pages.Close)
	read := func(path string) string {
		read := html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(string(body(t, pages.URL+path)), " "))
		return strings.Join(strings.Fields(read), " ")
	}
	var screen, told bytes.Buffer
	if err := top.Run(t.Context(), objectsOf(f.objects()...), top.Options{Once: true, Format: output.Text}, &screen); err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithObjects(f.objects()...).
		WithIndex(&corev1.Event{}, "type", func(o client.Object) []string { return []string{o.(*corev1.Event).Type} }).
		WithIndex(&corev1.Event{}, "involvedObject.name", func(o client.Object) []string {
			return []string{o.(*corev1.Event).InvolvedObject.Name}
		}).Build()
	err = why.Run(t.Context(), snapshot.Cluster{Host: "https://kubernetes", Reader: api}, "",
		why.Options{Longest: true, Everywhere: true, Format: output.JSON}, &told)
	if err != nil && !errors.Is(err, finding.ErrProblems) {
		t.Fatal(err)
	}
	var document any
	if err := json.Unmarshal(told.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	checks := (&feedback.Story{ScaleSet: "linux", Why: f.reason, Waiting: []v1alpha1.WaitingJob{f.job}}).Checks()
	if len(checks) != 1 {
		t.Fatalf("there are checks %+v", checks)
	}
	return map[string]string{"page": read("/"), "page of the run": read("/run?run=41"), "page of the set": read("/set?cluster=c&namespace=n&set=linux"),
		"top": screen.String(), "why": fmt.Sprint(document), "check run": checks[0].Title + "\n" + checks[0].Summary}
}

// TestAWaitingJobHasTheSameWordsEverywhere: job, run and what keeps it, in the words that are written here. Authors are told
// what concerns them, with the word by which everybody else finds the rest.
func TestAWaitingJobHasTheSameWordsEverywhere(t *testing.T) {
	for reason, words := range map[string]struct{ few, actor, author string }{
		"MaxRunnersReached": {"at maxRunners", "whoever installs the scale set", "all runners that the scale set may have are at work"},
		"MaxRunnersZero":    {"maxRunners is 0", "whoever installs the scale set", ""},
		"Unschedulable":     {"no node with room", "the cluster's administrator", ""},
		"QuotaExceeded":     {"quota used up", "the cluster's administrator", ""},
	} {
		says := full{reason, v1alpha1.WaitingJob{Repository: "acme/app", RunID: 41, JobID: "j", Name: "build (linux)",
			WorkflowRef: "acme/app/.github/workflows/ci.yml@refs/heads/topic", AssignedAt: metav1.NewTime(noon.Add(-10 * time.Minute))}}.surfaces(t)
		for surface, parts := range map[string][]string{
			"page":            {"1 job waits", "build (linux)", "run 41", words.few, words.actor, "ci.yml", "topic"},
			"page of the run": {"1 of its jobs waits", "build (linux)", words.few, words.actor},
			"page of the set": {"build (linux)", "41", words.few},
			"top":             {"build (linux)", "41", words.few},
			"why":             {"build (linux)", "41", reason, words.actor},
			"check run":       {"build (linux)", "(" + reason + ")", words.author},
		} {
			for _, part := range parts {
				if !strings.Contains(says[surface], part) {
					t.Errorf("%s: %s lacks %q:\n%s", reason, surface, part, says[surface])
				}
			}
		}
	}
}
