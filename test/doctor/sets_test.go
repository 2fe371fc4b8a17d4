package doctor

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/internal/testkube/fakenode"
	"github.com/harrier-ci/harrier/operations/finding"
	"github.com/harrier-ci/harrier/test/rig"
)

// symptom has the signs that a fault has to show.
type symptom struct {
	// about, status and reason are a condition's. column is the cell of kubectl get under Reason; empty means reason.
	about  string
	status metav1.ConditionStatus
	reason string
	column string
	// event is the reason of an Event about the AutoscalingRunnerSet; empty means the condition's.
	event string
	// finding is the reason of the doctor's first finding; empty means the condition's. code is its exit code.
	finding string
	code    int
	// Everything shows within patience; zero means rig.Patience.
	patience time.Duration
	// words are somewhere in the doctor's first finding: the object, the cause, the next step.
	words []string
	// alerts are the chart's alerts whose expressions are true of the set; they fire after their time. A fault with a
	// condition also has a series of its own, by condition and reason. series is an expression that has to find more.
	alerts []string
	series string
}

// broken are scale sets with one thing wrong each, by name.
var broken = map[string]struct {
	values rig.Values
	symptom
}{
	"wrong-token": {rig.Values{"githubConfigSecret": rig.Values{"github_token": "ghp_wrong"}}, symptom{
		about: v1alpha1.ConditionCredentialsValid, status: no, reason: v1alpha1.ReasonUnauthorized, code: 1,
		words:  []string{"401", "expired", "the Secret is read again"},
		alerts: []string{"HarrierScaleSetNotReady", "HarrierScaleSetTrouble"},
	}},
	"no-secret": {rig.Values{"githubConfigSecret": "absent"}, symptom{
		about: v1alpha1.ConditionCredentialsValid, status: no, reason: v1alpha1.ReasonCredentialsMissing, code: 1,
		words:  []string{"absent does not exist", "create what the message names"},
		alerts: []string{"HarrierScaleSetNotReady", "HarrierScaleSetTrouble"},
	}},
	"wrong-group": {rig.Values{"runnerGroup": "nobody"}, symptom{
		about: v1alpha1.ConditionScaleSetRegistered, status: no, reason: v1alpha1.ReasonRunnerGroupNotFound, code: 1,
		words:  []string{`"nobody"`, "correct runnerGroup"},
		alerts: []string{"HarrierScaleSetNotReady", "HarrierScaleSetTrouble"},
	}},
	// Nothing listens on port 1.
	"wrong-host": {rig.Values{"githubConfigUrl": "http://127.0.0.1:1/org"}, symptom{
		about: v1alpha1.ConditionScaleSetRegistered, status: no, reason: v1alpha1.ReasonGitHubUnavailable, code: 1,
		words:  []string{"http://127.0.0.1:1/org", "connection refused", "proxy"},
		alerts: []string{"HarrierScaleSetNotReady", "HarrierScaleSetTrouble"},
	}},
	"wrong-image": {rig.Values{"minRunners": 2}, symptom{
		about: v1alpha1.ConditionRunnersPending, status: yes, reason: "ImagePullBackOff", code: 1,
		words:  []string{"wrong-image-", "Back-off pulling image", "imagePullSecrets"},
		alerts: []string{"HarrierPodsPending"},
	}},
	"no-node": {rig.Values{"minRunners": 2}, symptom{
		about: v1alpha1.ConditionRunnersPending, status: yes, reason: "Unschedulable", code: 1,
		words:  []string{"2 runners wait", "Insufficient cpu", "add nodes"},
		alerts: []string{"HarrierPodsPending"},
	}},
	"forbidden": {rig.Values{"template": rig.Values{"spec": rig.Values{"priorityClassName": "nobody"}}}, symptom{
		about: v1alpha1.ConditionPodTemplateRefused, status: yes, reason: v1alpha1.ReasonPodForbidden, code: 1,
		words: []string{"no PriorityClass with name nobody was found", "spec.template",
			"correct what the message names"},
		alerts: []string{"HarrierScaleSetNotReady", "HarrierScaleSetTrouble"},
	}},
	// The manager reads the hook template by the chart's Role, and tries what the hooks would make of it.
	"forbidden-jobs": {rig.Values{"containerMode": rig.Values{"type": "kubernetes-novolume", "kubernetesModeHookTemplate": rig.Values{
		"spec": rig.Values{"priorityClassName": "nobody"}}}}, symptom{
		about: v1alpha1.ConditionJobPodRefused, status: yes, reason: v1alpha1.ReasonPodForbidden, code: 1,
		words:  []string{"no PriorityClass with name nobody was found", "kubernetesModeHookTemplate"},
		alerts: []string{"HarrierScaleSetNotReady", "HarrierScaleSetTrouble"},
	}},
	"outdated": {rig.Values{"minRunners": 2, "template": runnerWith("RUNNER_VERSION", "2.334.0")}, symptom{
		about: v1alpha1.ConditionRunnerOutdated, status: yes, reason: "RunnerVersionRefused", code: 1,
		words:  []string{"rig.invalid/runner:test", "newer"},
		alerts: []string{"HarrierScaleSetNotReady", "HarrierScaleSetTrouble"},
	}},
	"full": {rig.Values{"maxRunners": 1}, symptom{
		about: v1alpha1.ConditionReady, status: yes, reason: "MaxRunnersReached", event: "ScaledUp",
		words:  []string{"maxRunners of 1", "raise maxRunners"},
		alerts: []string{"HarrierMaxRunnersReached"},
	}},
	"closed": {rig.Values{"maxRunners": 0}, symptom{
		about: v1alpha1.ConditionReady, status: yes, reason: "MaxRunnersZero", event: "ScaleSetRegistered", code: 1,
		words:  []string{"raise maxRunners"},
		series: "gha_max_runners == 0", // on purpose, mostly: no alert
	}},
	// Somebody else holds the session. A conflict is no news before two minutes: a killed listener's session lives 90
	// s.
	"taken": {rig.Values{}, symptom{
		about: v1alpha1.ConditionListenerReady, status: no, reason: v1alpha1.ReasonSessionConflict, code: 1,
		patience: 4 * time.Minute,
		words:    []string{"already has an active session for owner somebody", "second installation"},
		alerts:   []string{"HarrierScaleSetNotReady", "HarrierListenerDeaf"},
	}},
	"listener-image": {rig.Values{}, symptom{
		about: v1alpha1.ConditionListenerReady, status: no, reason: "ImagePullBackOff", code: 1,
		words:  []string{"container listener", "describe autoscalinglistener,pod listener-image-"},
		alerts: []string{"HarrierScaleSetNotReady", "HarrierListenerDown"},
	}},
}

const no, yes = metav1.ConditionFalse, metav1.ConditionTrue

// runnerWith returns a template whose runner has an environment variable.
func runnerWith(name, value string) rig.Values {
	return rig.Values{"spec": rig.Values{"containers": []rig.Values{{
		"name": "runner", "image": "rig.invalid/runner:test", "command": []string{"/home/runner/run.sh"},
		"env": []rig.Values{{"name": name, "value": value}},
	}}}}
}

// faultOf returns the fault of a pod on the node.
func faultOf(pod *corev1.Pod) fakenode.Fault {
	listener := pod.Labels[v1alpha1.LabelComponent] == v1alpha1.ComponentListener
	switch set := pod.Labels[v1alpha1.LabelScaleSetName]; {
	case set == "wrong-image" && !listener, set == "listener-image" && listener:
		return fakenode.Fault{ImagePull: true}
	case set == "no-node" && !listener:
		return fakenode.Fault{Unschedulable: "0/3 nodes are available: 3 Insufficient cpu."}
	}
	return fakenode.Fault{}
}

// Whatever is wrong with a scale set, kubectl get, its conditions, its Events, metrics and the doctor say so, beside
// sets that work.
func TestBrokenSetsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	r := rig.Start(t, testkube.Start(t, rig.ClusterOptions()), rig.Options{
		GitHub:           fakegithub.Options{Rules: fakegithub.Rules{SessionLifetime: time.Hour}},
		AllowedAddresses: []string{"http://127.0.0.1:1"},
	})
	r.Node.OnStart(faultOf)
	release := takeSession(t, r, "taken")
	defer release()
	r.GitHub.DeprecateRunnerVersion("2.334.0", true)
	for name, trouble := range broken {
		r.InstallSet(name, trouble.values)
	}
	metrics := observe(t, r)
	r.AwaitListening("full")
	ids := r.QueueJobsFor("full", 3, time.Hour)
	patient := func(a, b string) int { return cmp.Compare(broken[a].patience, broken[b].patience) }
	// what others show goes while one is waited for
	for _, name := range slices.SortedFunc(maps.Keys(broken), patient) {
		t.Run(name, func(t *testing.T) { trouble := broken[name]; trouble.await(t, r, metrics, name) })
	}
	for _, id := range ids {
		if err := r.GitHub.CancelJob(id); err != nil {
			t.Error(err)
		}
	}
}

// takeSession makes a scale set on GitHub and holds its session, as another installation would. release ends that.
func takeSession(t *testing.T, r *rig.Rig, set string) (release func()) {
	t.Helper()
	other, err := actions.NewClient(r.GitHubURL+"/org", actions.Credentials{Token: rig.PAT}, actions.Options{})
	if err != nil {
		t.Fatal(err)
	}
	made, err := other.CreateRunnerScaleSet(t.Context(), &actions.RunnerScaleSet{Name: set, RunnerGroupID: 1})
	if err != nil {
		t.Fatal(err)
	}
	session, err := other.CreateSession(t.Context(), made.ID, "somebody")
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := session.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
}

// await waits until all signs of the set's fault show.
func (s *symptom) await(t *testing.T, r *rig.Rig, metrics *observer, name string) {
	t.Helper()
	NewWithT(t).Eventually(func() (string, error) {
		seen, err := look(t.Context(), r, metrics, name)
		if err != nil {
			return "", err
		}
		return s.missing(seen), nil
	}, cmp.Or(s.patience, rig.Patience), time.Second).Should(BeEmpty(), "what %s has to show and does not", name)
}

// missing lists the signs that don't show, with all that is seen.
func (s *symptom) missing(seen *sight) string {
	first := finding.Finding{}
	if len(seen.report.Findings) > 0 {
		first = seen.report.Findings[0]
	}
	missing := ""
	for what, there := range map[string]bool{
		"condition " + s.about + " " + s.reason:  seen.has(s.about, s.status, s.reason),
		"column Reason":                          seen.columns["Reason"] == cmp.Or(s.column, s.reason),
		"Event " + cmp.Or(s.event, s.reason):     seen.told(cmp.Or(s.event, s.reason)),
		"finding " + cmp.Or(s.finding, s.reason): first.Reason == cmp.Or(s.finding, s.reason),
		"exit code":                              seen.code == s.code,
		"words":                                  holds(first, s.words),
		"a next step":                            first.Fix != "",
		"alerts " + strings.Join(s.alerts, ", "): seen.alert(s.alerts),
		"series " + s.series:                     seen.measures(s.series),
		"series of the trouble":                  s.about == v1alpha1.ConditionReady || seen.troubled(s.about, s.reason),
	} {
		if !there {
			missing += what + "; "
		}
	}
	if missing != "" {
		missing += "\n" + seen.String()
	}
	return missing
}
