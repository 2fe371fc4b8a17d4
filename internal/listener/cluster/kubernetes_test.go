package cluster_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/listener/cluster"
	"github.com/harrier-ci/harrier/internal/listener/listenertest"
	"github.com/harrier-ci/harrier/internal/listener/reports"
)

const setPath = "/apis/actions.github.com/v1alpha1/namespaces/runners/ephemeralrunnersets/set"

// wire is a request that the API server received.
type wire struct {
	Method, Path, ContentType, Body string
}

// onServer returns a Cluster whose server notes the last request and answers with status and body.
func onServer(t *testing.T, status int, body string) (cluster.Cluster, *wire) {
	seen := new(wire)
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		content, _ := io.ReadAll(request.Body)
		*seen = wire{request.Method, request.URL.Path, request.Header.Get("Content-Type"), string(content)}
		answer.Header().Set("Content-Type", "application/json")
		answer.WriteHeader(status)
		_, _ = io.WriteString(answer, body)
	}))
	t.Cleanup(server.Close)
	made, err := cluster.New(&rest.Config{Host: server.URL}, "runners", "set")
	if err != nil {
		t.Fatal(err)
	}
	return made, seen
}

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func TestPublishedNumbersAreExplicit(t *testing.T) {
	kubernetes, seen := onServer(t, http.StatusOK, `{"spec":{"replicas":0,"patchID":8},"status":{"capacity":0}}`)
	set, err := kubernetes.Publish(t.Context(), cluster.Publication{cluster.Desired{PatchID: 8}, "abc"})
	if err != nil {
		t.Fatal(err)
	}
	want := wire{http.MethodPatch, setPath, "application/merge-patch+json",
		`{"metadata":{"annotations":{"actions.github.com/listener-session-id":"abc"}},"spec":{"replicas":0,` +
			`"patchID":8,"assignedJobs":0,"canceledJobs":0}}`}
	if diff := cmp.Diff(want, *seen); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	if set.Capacity == nil || *set.Capacity != 0 {
		t.Errorf("capacity = %v, want the 0 of the answer", set.Capacity)
	}
}

func TestReadingTheSet(t *testing.T) {
	kubernetes, _ := onServer(t, http.StatusOK,
		`{"metadata":{"uid":"1f","annotations":{"actions.github.com/listener-session-id":"abc"}},
		"spec":{"replicas":2,"patchID":8,"assignedJobs":1,"ephemeralRunnerSpec":{"spec":{"containers":[]}}},
		"status":{"pendingEphemeralRunners":3,"runningEphemeralRunners":4,"listener":{"state":"Stopped","strayRegistrations":2}}}`)
	set, err := kubernetes.RunnerSet(t.Context())
	want := &cluster.RunnerSet{
		Publication: cluster.Publication{cluster.Desired{Replicas: 2, PatchID: 8, AssignedJobs: 1}, "abc"},
		UID:         "1f",
		Runners:     cluster.RunnerCounts{Pending: 3, Running: 4},
		Listener:    &v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateStopped, StrayRegistrations: 2},
	}
	if diff := cmp.Diff(want, set); diff != "" || err != nil {
		t.Errorf("error %v, set (-want +got):\n%s", err, diff)
	}
}

func TestAStateReplacesTheLastAsAWhole(t *testing.T) {
	kubernetes, seen := onServer(t, http.StatusOK, `{}`)
	since := metav1.NewTime(noon)
	if err := kubernetes.WriteStatus(t.Context(), v1alpha1.ListenerStatus{
		State: v1alpha1.ListenerStateListening,
		Since: &since,
	}); err != nil {
		t.Fatal(err)
	}
	want := wire{http.MethodPatch, setPath + "/status", "application/merge-patch+json",
		`{"status":{"listener":{"availableJobs":0,"gaveUp":null,"message":"","reason":"","since":"2026-07-01T12:00:00Z","state":"Listening",` +
			`"strayRegistrations":0,"unknownRunnerJobs":null,"waiting":null}}}`}
	if diff := cmp.Diff(want, *seen); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestAJobReportHasTheJobsFieldsOnly(t *testing.T) {
	kubernetes, seen := onServer(t, http.StatusOK, `{}`)
	job := reports.Of(listenertest.Message(1, 0, "complete 7 runner-a"), 12, noon)[0]
	if err := kubernetes.ReportJob(t.Context(), job.Runner, job.Status); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"status": map[string]any{
		"jobRequestId": 7.0, "jobId": "job-7", "jobRepositoryName": "org/repo", "workflowRunId": 47.0,
		"jobDisplayName": "build",
		"jobWorkflowRef": "org/repo/.github/workflows/ci.yml@refs/heads/main", "jobResult": "succeeded",
		"jobPatchID": 12.0,
		"finishedAt": noon.Format(time.RFC3339),
	}}
	var got map[string]any
	if err := json.Unmarshal([]byte(seen.Body), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("patch (-want +got):\n%s", diff)
	}
	const path = "/apis/actions.github.com/v1alpha1/namespaces/runners/ephemeralrunners/runner-a/status"
	if seen.Path != path {
		t.Errorf("path = %s, want %s", seen.Path, path)
	}
}

// An error keeps its kind and the text of the API server, such as the missing permission or the reason of a webhook.
func TestErrorsAreTheAPIServers(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		body   string
		is     func(error) bool
		says   string
	}{
		"not found": {404, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound",` +
			`"message":"\"a\" not found","code":404}`,
			apierrors.IsNotFound, `"a" not found`},
		"forbidden": {403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden",` +
			`"message":"cannot patch","code":403}`,
			apierrors.IsForbidden, "cannot patch"},
		"denied": {400, `{"kind":"Status","apiVersion":"v1","status":"Failure",` +
			`"message":"admission webhook \"w\" denied the request: frozen","code":400}`,
			func(err error) bool { return err != nil }, `webhook "w" denied the request: frozen`},
		"from a gateway": {
			502, `<html>`, func(err error) bool { return err != nil && !apierrors.IsNotFound(err) }, "server",
		},
	} {
		t.Run(name, func(t *testing.T) {
			kubernetes, _ := onServer(t, test.status, test.body)
			_, publication := kubernetes.Publish(t.Context(), cluster.Publication{})
			_, reading := kubernetes.RunnerSet(t.Context())
			report := kubernetes.ReportJob(t.Context(), "a", v1alpha1.EphemeralRunnerStatus{})
			for request, err := range map[string]error{
				"publication": publication,
				"reading":     reading,
				"report":      report,
			} {
				if !test.is(err) || !strings.Contains(err.Error(), test.says) {
					t.Errorf("%s: %v", request, err)
				}
			}
		})
	}
}

// GitHub's name of a runner may not be a valid name in Kubernetes: no request is ever sent for it.
func TestAReportThatNoRequestCanCarryIsDroppedAtOnce(t *testing.T) {
	for _, name := range []string{"../../x", "..", "a%2fb"} {
		kubernetes, seen := onServer(t, http.StatusOK, `{}`)
		synctest.Test(t, func(t *testing.T) {
			var lines, reasons []string
			log := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
			r := reports.New(kubernetes, clock.RealClock{}, log, func(reason string) {
				reasons = append(reasons, reason)
			})
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if !r.Deliver(ctx, []reports.Report{{Runner: name}})() {
				t.Error("the message is not to be deleted")
			}
			if took := time.Since(begun); took != 0 || len(reasons) != 1 || len(lines) != 1 {
				t.Errorf(
					"%q: after %s dropped for %v with the log %v, want it at once and one line",
					name, took, reasons, lines,
				)
			}
		})
		if err := kubernetes.ReportJob(
			t.Context(), name, v1alpha1.EphemeralRunnerStatus{},
		); !apierrors.IsBadRequest(err) || *seen != (wire{}) {
			t.Errorf("%q: got %v and request %v, want BadRequest and none", name, err, seen)
		}
	}
}
