package launch_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
)

// holder is a registration of the runner's name in its scale set.
func holder(id int) *actions.RunnerReference {
	return &actions.RunnerReference{ID: id, Name: name, RunnerScaleSetID: 5}
}

// newPod returns a pod of the runner with an id in its annotation, empty for none.
func newPod(id string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID, pod.OwnerReferences = namespace, name, "pod-uid", ownerOfRunner()
	if id != "" {
		pod.Annotations = map[string]string{v1alpha1.AnnotationRunnerID: id}
	}
	return pod
}

// another returns somebody else's pod, with the id of the runner in its annotation.
func another() *corev1.Pod {
	pod := newPod("7")
	pod.OwnerReferences[0].UID = "another"
	return pod
}

// GitHub has a runner of the name already, with the id 7. The registration that the runner's pod uses is kept. Any
// other of its scale set goes, if GitHub agrees, and the runner is registered again, as 42.
func TestANameThatIsTaken(t *testing.T) {
	failure := func(kind rules.Kind, reason, message string) *rules.Failure {
		return &rules.Failure{Kind: kind, Reason: reason, Message: message}
	}
	for rule, test := range map[string]struct {
		pod      *corev1.Pod
		deleting bool   // the pod is
		id       int    // of the registration that the launch has brought
		then     string // what GitHub is asked after who has the name
		want     *rules.Failure
	}{
		"without a pod there is no job":        {nil, false, 42, "remove 7, register", nil},
		"its pod uses it":                      {newPod("7"), false, 7, "", nil},
		"a pod that doesn't say uses it":       {newPod(""), false, 7, "", nil},
		"its pod uses another one":             {newPod("6"), false, 42, "remove 7, register", nil},
		"a pod that is being deleted does not": {newPod("7"), true, 42, "remove 7, register", failure(rules.Temporary, v1alpha1.ReasonPodTerminating, "is still being deleted")},
		"somebody's pod does not":              {another(), false, 42, "remove 7, register", failure(rules.NameTaken, v1alpha1.ReasonPodNameTaken, "that is not the runner's")},
	} {
		t.Run(rule, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.github.holder = holder(7)
				switch {
				case test.deleting:
					f.deleting(test.pod)
				case test.pod != nil:
					controllertest.Create(t, f.api, test.pod)
				}
				wantFailure(t, f.launch(newRunner(), 0), test.want)
				if _, id := f.memory.Launched(); id != test.id {
					t.Errorf("registration %d, want %d", id, test.id)
				}
				want := strings.TrimSuffix("register, find set-runner-abcde, "+test.then, ", ")
				if got := strings.Join(f.github.calls, ", "); got != want {
					t.Errorf("calls to GitHub: %s, want %s", got, want)
				}
			})
		})
	}
}

// The pod takes its JIT config from the Secret, which nobody knows any more.
func TestTheSecretOfAPodThatUsesItsRegistrationStays(t *testing.T) {
	inBubble(t, func(f *fixture) {
		controllertest.Create(t, f.api, newSecret(), newPod("7"))
		f.github.holder = holder(7)
		wantFailure(t, f.launch(newRunner(), 0), nil)
		if got := string(f.secret().Data["jitToken"]); got != "config-7" {
			t.Errorf("JIT config %q, want the one of before", got)
		}
	})
}

// A name that can't be freed, and nothing is created for the runner then.
func TestANameThatStaysTaken(t *testing.T) {
	inScaleSet6 := holder(7)
	inScaleSet6.RunnerScaleSetID = 6
	failure := func(kind rules.Kind, reason, message string) *rules.Failure {
		return &rules.Failure{Kind: kind, Reason: reason, Message: message}
	}
	for rule, test := range map[string]struct {
		github github
		live   error // of reading the pod
		want   *rules.Failure
		then   string
	}{
		"another scale set's runner has it": {github{holder: inScaleSet6}, nil, failure(rules.NameTaken, v1alpha1.ReasonRunnerNameTaken, "in scale set 6"), ""},
		"GitHub finds nobody of the name":   {github{refuse: actions.ErrRunnerExists}, nil, failure(rules.Temporary, v1alpha1.ReasonRunnerNameTaken, "yet GitHub finds no runner"), ""},
		"GitHub doesn't say who has it":     {github{holder: holder(7), hide: errGitHubAway}, nil, failure(rules.Temporary, v1alpha1.ReasonRegistrationFailed, "GitHub is away; it is tried again"), ""},
		"there may be a pod that uses it":   {github{holder: holder(7)}, errNoAnswer, failure(rules.Away, v1alpha1.ReasonAPIServerUnavailable, "read pod set-runner-abcde"), ""},
		"whose pod it is, is a secret":      {github{holder: holder(7)}, errForbidden, failure(rules.Temporary, "PodUnreadable", "read pod set-runner-abcde"), ""},
		"it has a job without a pod":        {github{holder: holder(7), keep: actions.ErrJobStillRunning}, nil, failure(rules.Busy, "JobRunning", "while it runs a job"), ", remove 7"},
		"GitHub doesn't remove it":          {github{holder: holder(7), keep: errGitHubAway}, nil, failure(rules.Temporary, v1alpha1.ReasonRegistrationFailed, "remove the registration: GitHub is away"), ", remove 7"},
	} {
		t.Run(rule, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				*f.github = test.github
				f.fails["live Pod"] = test.live
				wantFailure(t, f.launch(newRunner(), 0), test.want)
				if _, id := f.memory.Launched(); id != 0 || f.hasPod() || f.hasSecret() {
					t.Errorf("registration %d, pod: %t, Secret: %t", id, f.hasPod(), f.hasSecret())
				}
				if got := strings.Join(f.github.calls, ", "); got != "register, find set-runner-abcde"+test.then {
					t.Errorf("calls to GitHub: %s, want to find the runner%s", got, test.then)
				}
			})
		})
	}
}

// A proxy may have said that there is nothing to remove: the next registration shows whether that is so.
func TestANameWhoseHolderIsNotFoundMayBeFree(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.holder, f.github.keep = holder(7), actions.ErrRunnerNotFound
		wantFailure(t, f.launch(newRunner(), 0), nil)
		if _, id := f.memory.Launched(); id != 42 {
			t.Errorf("registration %d, want 42", id)
		}
	})
}
