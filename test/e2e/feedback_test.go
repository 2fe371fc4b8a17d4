package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// A lost job has its next attempt within rerunLimit: its run is left alone for a minute, and checked every half minute.
const rerunLimit = 2*limit + time.Minute

// The runner calls the chart's hooks in a container with limits, in which only the job's folder is writable. Their
// lines are in the job's log, and the data for programs is on the pod. Run again with debug logging, the job is held
// for whoever looks into its pod.
func TestJobReadsInItsLog(t *testing.T) {
	t.Parallel()
	s := prepare(t, serve(t, fakegithub.Options{}), "job-log", 0, 1)
	s.values["feedback"] = site.Values{"jobLog": true, "debugHold": "30m"}
	s.giveShell()
	s.container()["securityContext"] = site.Values{"readOnlyRootFilesystem": true}
	s.container()["resources"] = site.Values{"limits": site.Values{"memory": "256Mi", "cpu": "500m"}}
	s.makeNamespace()
	pods := recordPods(t, s.namespace)
	s.install()

	ids := s.queue(1, longJob)
	first := s.awaitJobs(ids, state.Running)[0]
	pod := s.podNamed(first.Runner)
	s.await(t.Context(), "the pod to be told of the job's phases", func() (string, error) { // within a minute or two
		told, err := place.Kubectl(t.Context(), "exec", "--namespace="+s.namespace, pod.Name, "-c", "runner",
			"--", "sh", "-c", `while read -r line; do echo "$line"; done </opt/job-hooks/phases; echo "$line"`)
		if err != nil || !strings.Contains(told, "queued=") {
			return fmt.Sprintf("they are %q", told), err
		}
		return "", nil
	})
	s.endJobs()
	s.awaitSuccess(ids)
	job := s.awaitJobs(ids, state.Completed)[0]
	s.expectStep(job, "Set up runner", false,
		"Scale set: "+s.namespace+"/job-log", "Pod: "+pod.Name, "Node: "+pod.Spec.NodeName,
		`Wait: \d+ s( since the runner was created)?: .*registered \d+ s`)
	s.expectStep(job, "Complete runner", true,
		// This runner may have its job before the kubelet reports the container's start.
		`Wait: \d+ s: assigned \d+ s, created \d+ s, registered \d+ s, placed \d+ s, (imagePulled \d+ s, containerUp \d+ s, )?started \d+ s`,
		`Memory: peak \d+\.\d MiB of 256\.0 MiB`, `OOM kills: 0`,
		`CPU: \d+\.\d s used, throttled for \d+\.\d s, in \d+ % of the periods`,
		`Network: \d+\.\d [KMG]iB received, .* sent`, `Disk: .*\d GiB free in /home/runner/_work/repository`)
	s.await(t.Context(), "the pod's last words", func() (string, error) { return pods.untold(1) })
	ended := statusOf(pods.all()[0].Status.ContainerStatuses, "runner").State.Terminated
	var usage struct{ Usage, PeakMemoryBytes, MemoryLimitBytes int64 }
	if ended == nil || json.Unmarshal([]byte(ended.Message), &usage) != nil || usage.Usage != 1 ||
		usage.MemoryLimitBytes != 256<<20 ||
		usage.PeakMemoryBytes <= 0 || usage.PeakMemoryBytes > usage.MemoryLimitBytes {
		t.Errorf("the runner's container has left %+v", ended)
	}
	s.lookIntoHeldJob(job)
}

// lookIntoHeldJob runs a job again with debug logging, looks into its pod with the command that its log has, and ends
// the hold.
func (s *scaleSet) lookIntoHeldJob(job fakegithub.Job) {
	s.t.Helper()
	s.runAgain(job, true)
	again := s.awaitAttempt(job, 2, state.Running, limit)
	s.endJobs()
	pod := s.podNamed(again.Runner)
	var command, end string
	s.await(s.t.Context(), "the command in the log of the job that is held", func() (string, error) {
		output, err := place.Kubectl(s.t.Context(), "logs", "--namespace="+s.namespace, pod.Name, "-c", "runner")
		if found := regexp.MustCompile(`(?m)^  kubectl (exec .*)$`).FindStringSubmatch(output); found != nil {
			command = found[1]
		}
		if found := regexp.MustCompile(`(?m)^To end it earlier: touch (\S+) `).
			FindStringSubmatch(output); found != nil {
			end = found[1]
		}
		if command == "" || end == "" {
			return "its log is\n" + output, err
		}
		return "", err
	})
	// The listener reports the start of the job.
	s.await(s.t.Context(), "the pod to be marked as busy", func() (string, error) {
		if pod = s.podNamed(again.Runner); pod.Labels["actions.github.com/runner-busy"] != "true" {
			return fmt.Sprintf("its labels are %v", pod.Labels), nil
		}
		return "", nil
	})
	if err := s.tryToEvict(&pod); !apierrors.IsTooManyRequests(err) {
		s.t.Errorf("the pod of a job that is held may be evicted: %v", err)
	}
	s.awaitAttempt(job, 2, state.Running, limit)
	shell := place.Command(s.t.Context(), "kubectl", strings.Fields(command)...)
	shell.Stdin = strings.NewReader("echo I am in $HOSTNAME\n: >" + end + "\n")
	if output, err := shell.CombinedOutput(); err != nil || !strings.Contains(string(output), "I am in ") {
		s.t.Errorf("kubectl %s: %v\n%s", command, err, output)
	}
	if ended := s.awaitAttempt(job, 2, state.Completed, limit); ended.Result != state.ResultSucceeded {
		s.t.Errorf("a job that was held has ended with %+v", ended)
	}
}

// A pod is evicted while its job runs: the loss is told, the job runs again to its end when its run has ended, and its
// commit says both.
func TestLostJobsRunAgain(t *testing.T) {
	t.Parallel()
	s := prepareWithApp(t, "lost-again", nil)
	s.install()
	ids := s.queue(1, longJob)
	job := s.awaitJobs(ids, state.Running)[0]
	s.evict(job.Runner)
	s.awaitEvent("JobLost", "Evicted")
	again := s.awaitAttempt(job, 2, state.Running, rerunLimit)
	if again.Runner == job.Runner {
		t.Errorf("runner %s had both attempts", again.Runner)
	}
	s.awaitEvent("JobRerun", "runs again in attempt 2")
	s.endJobs()
	if ended := s.awaitAttempt(job, 2, state.Completed, limit); ended.Result != state.ResultSucceeded {
		t.Errorf("the second attempt has ended with %+v", ended)
	}
	s.await(t.Context(), "the commit to say what was lost", func() (string, error) {
		checks, err := s.github.CheckRuns(t.Context())
		if len(checks) == 1 && strings.HasPrefix(checks[0].Name, "Runners lost-again: lost (Evicted), ") &&
			checks[0].Conclusion == "neutral" &&
			strings.Contains(checks[0].Output.Summary, "it runs again in attempt 2") {
			return "", err
		}
		return fmt.Sprintf("it says %+v", checks), err
	})
}

// The App may only register runners: scale set and doctor name the permissions that it lacks, nobody runs a job again,
// and everything else works.
func TestFeedbackWithoutPermission(t *testing.T) {
	t.Parallel()
	s := prepareWithApp(t, "no-permission", map[string]string{"organization_self_hosted_runners": "write"})
	s.install()
	job := s.awaitJobs(s.queue(1, longJob), state.Running)[0]
	s.evict(job.Runner)
	s.awaitEvent("JobLost", "Evicted")
	s.await(t.Context(), "the scale set to say what its App lacks", func() (string, error) {
		set, err := s.object(t.Context())
		if err != nil {
			return "", err
		}
		c := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionFeedbackPermitted)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonPermissionMissing {
			return fmt.Sprintf("FeedbackPermitted is %+v", c), nil
		}
		if ready := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionReady); ready == nil ||
			ready.Status != metav1.ConditionTrue {
			return fmt.Sprintf("Ready is %+v", ready), nil
		}
		return s.diagnosed(v1alpha1.ReasonPermissionMissing, "feedback")
	})
	s.awaitSuccess(s.queue(1, time.Second))
	jobs, err := s.github.Jobs(t.Context(), "")
	if err != nil || len(jobs) != 2 {
		t.Errorf("%d jobs, want the lost one and the next: %v", len(jobs), err)
	}
	if checks, err := s.github.CheckRuns(t.Context()); err != nil || len(checks) > 0 {
		t.Errorf("check runs %+v: %v", checks, err)
	}
}

// prepareWithApp prepares a scale set that reports on its jobs and runs lost ones again, with an App that has the
// permissions; nil is all. Its pods may be evicted while they work.
func prepareWithApp(t *testing.T, name string, permissions map[string]string) *scaleSet {
	t.Helper()
	app, credentials := newApp(t)
	s := prepare(t, serve(t, fakegithub.Options{Apps: []fakegithub.App{app}, Permissions: permissions}), name, 0, 2)
	s.values["githubConfigSecret"] = credentials
	s.values["protectRunners"] = "None"
	s.values["feedback"] = site.Values{"checks": true, "rerunLostJobs": site.Values{"ifNewerRun": "Rerun"}}
	s.caused = []state.AnomalyKind{state.RunnerStoppedBusy}
	return s
}

// giveShell gives the runners this machine's shells and tools, because the image has none, and a work folder.
func (s *scaleSet) giveShell() {
	mounts := []site.Values{{"name": "work", "mountPath": "/home/runner/_work"}}
	volumes := []site.Values{{"name": "work", "emptyDir": site.Values{}}}
	for _, folder := range []string{"bin", "lib", "lib64"} {
		mounts = append(mounts, site.Values{"name": folder, "mountPath": "/" + folder, "readOnly": true})
		volumes = append(volumes,
			site.Values{"name": folder, "hostPath": site.Values{"path": "/usr/" + folder, "type": "Directory"}})
	}
	s.podSpec()["volumes"] = volumes
	s.container()["volumeMounts"] = mounts
	s.setEnv("PATH", "/bin")
}

func (s *scaleSet) podNamed(name string) (pod corev1.Pod) {
	s.t.Helper()
	if err := kube.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, &pod); err != nil {
		s.t.Fatal(err)
	}
	return pod
}

// evict evicts a runner's pod by the API, as kubectl drain does.
func (s *scaleSet) evict(runner string) {
	s.t.Helper()
	pod := s.podNamed(runner)
	if err := s.tryToEvict(&pod); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scaleSet) tryToEvict(pod *corev1.Pod) error {
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	return kube.SubResource("eviction").Create(s.t.Context(), pod, eviction)
}

// expectStep compares a step that the runner has added to the job with patterns of whole lines, in any order.
func (s *scaleSet) expectStep(job fakegithub.Job, name string, hasSummary bool, patterns ...string) {
	s.t.Helper()
	i := slices.IndexFunc(job.Steps, func(step fakegithub.Step) bool { return step.Name == name })
	if i < 0 {
		s.t.Errorf("job %d has no step %q: %+v", job.RequestID, name, job.Steps)
		return
	}
	step := job.Steps[i]
	for _, pattern := range patterns {
		if !regexp.MustCompile(`(?m)^` + pattern + `$`).MatchString(step.Log) {
			s.t.Errorf("no line of step %q is %s:\n%s", name, pattern, step.Log)
		}
	}
	if step.Failed || hasSummary != strings.Contains(step.Summary, "| Memory | ") {
		s.t.Errorf("step %q: failed %t, summary\n%s", name, step.Failed, step.Summary)
	}
}

// awaitEvent waits for an Event about the set with the reason and the words.
func (s *scaleSet) awaitEvent(reason, words string) {
	s.t.Helper()
	s.await(s.t.Context(), "the Event "+reason, func() (string, error) {
		var events corev1.EventList
		err := kube.List(s.t.Context(), &events, client.InNamespace(s.namespace))
		if slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.Reason == reason && e.InvolvedObject.Name == s.name && strings.Contains(e.Message, words)
		}) {
			return "", err
		}
		return fmt.Sprintf("none of %d Events is", len(events.Items)), err
	})
}

// awaitAttempt waits until the job of another attempt of its run is in the state.
func (s *scaleSet) awaitAttempt(
	of fakegithub.Job, attempt int, in fakegithub.JobState, limit time.Duration,
) (found fakegithub.Job) {
	s.t.Helper()
	err := place.Await(s.t.Context(), fmt.Sprintf("attempt %d to be %s", attempt, in), limit, func() (string, error) {
		jobs, err := s.github.Jobs(s.t.Context(), in)
		i := slices.IndexFunc(jobs, func(j fakegithub.Job) bool {
			return j.RunID == of.RunID && j.RunAttempt == attempt
		})
		if err != nil || i < 0 {
			return fmt.Sprintf("there are %d such jobs, none of them is", len(jobs)), err
		}
		found = jobs[i]
		return "", nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

// runAgain runs a job again as a person does on GitHub.
func (s *scaleSet) runAgain(job fakegithub.Job, debug bool) {
	s.t.Helper()
	var listed struct {
		Jobs []struct{ ID int64 }
	}
	s.callREST(http.MethodGet, fmt.Sprintf("runs/%d/jobs", job.RunID), nil, &listed)
	if len(listed.Jobs) != 1 {
		s.t.Fatalf("run %d has jobs %+v", job.RunID, listed.Jobs)
	}
	s.callREST(http.MethodPost, fmt.Sprintf("jobs/%d/rerun", listed.Jobs[0].ID),
		map[string]bool{"enable_debug_logging": debug}, nil)
}

// callREST makes a call of the REST API about workflow runs of the repository whose jobs are queued, with a person's
// token.
func (s *scaleSet) callREST(method, path string, in, out any) {
	s.t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		s.t.Fatal(err)
	}
	address := s.github.BaseURL + "/api/v3/repos/" + site.Organization + "/demo/actions/" + path
	request, err := http.NewRequestWithContext(s.t.Context(), method, address, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer ghp_of-a-person")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= http.StatusMultipleChoices {
		s.t.Fatalf("%s %s: %s %s: %v", method, address, response.Status, answer, err)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(answer, out); err != nil {
		s.t.Fatal(err)
	}
}
