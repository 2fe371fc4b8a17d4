package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// longJob exceeds the time of upgrades, also on a busy machine. A test ends its jobs when it has seen what it needs
// them for.
const longJob = 5 * time.Minute

func TestNewTemplateReplacesIdleRunnersAndSparesJobs(t *testing.T) {
	t.Parallel()
	s := install(t, "template", 1, 3)
	s.awaitIdle(1)
	ids := s.queue(1, longJob)
	busy := s.awaitJobs(ids, state.Running)[0].Runner
	s.awaitIdle(1)
	listener := s.listenerPod()

	s.container()["env"] = []site.Values{{"name": "GENERATION", "value": "2"}}
	s.apply()
	s.await(t.Context(), "an idle runner of the new template and only the busy one of the old", func() (string, error) {
		for _, pod := range s.runnerPods() {
			isNew := slices.ContainsFunc(pod.Spec.Containers[0].Env,
				func(e corev1.EnvVar) bool { return e.Name == "GENERATION" })
			if !isNew && pod.Name != busy {
				return pod.Name + " is of the old template", nil
			}
		}
		if idle := s.idle(); len(idle) != 1 {
			return "no runner is idle", nil
		}
		return "", nil
	})
	s.endJobs()
	s.awaitSuccess(ids)
	if now := s.listenerPod(); now.UID != listener.UID {
		t.Error("the listener was replaced although nothing about it changed")
	}
}

func TestNewMaximumTakesEffectWithoutANewListener(t *testing.T) {
	t.Parallel()
	s := prepare(t, serve(t, fakegithub.Options{}), "maximum", 0, 0)
	s.apply()
	s.await(t.Context(), "a listener without a session", func() (string, error) {
		set, err := s.object(t.Context())
		if err != nil {
			return "", err
		}
		if c := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionListenerReady); c == nil ||
			c.Reason != v1alpha1.ReasonMaxRunnersZero {
			return fmt.Sprintf("it says %+v", c), nil
		}
		return "", nil
	})
	listener := s.listenerPod()
	ids := s.queue(2, time.Second)
	s.values["maxRunners"] = 2
	s.apply()
	s.awaitSuccess(ids)
	if now := s.listenerPod(); now.UID != listener.UID {
		t.Error("the listener was replaced although it reads the maximum from a mounted file")
	}
}

func TestFixedImageHealsABrokenScaleSet(t *testing.T) {
	t.Parallel()
	s := install(t, "image", 0, 2)
	good := s.container()["image"]
	s.container()["image"] = "localhost/harrier/no-such-image:1"
	s.values["pendingTimeout"] = "5s"
	s.apply()
	ids := s.queue(1, time.Second)
	s.await(t.Context(), "an Event that names the kubelet's reason", func() (string, error) {
		var events corev1.EventList
		if err := kube.List(t.Context(), &events, client.InNamespace(s.namespace)); err != nil {
			return "", err
		}
		for _, event := range events.Items {
			ours := event.InvolvedObject.GroupVersionKind().Group == v1alpha1.GroupVersion.Group
			if ours && event.Type == corev1.EventTypeWarning && strings.Contains(event.Message, "no-such-image") {
				return "", nil
			}
		}
		return "no warning about our kinds names the image", nil
	})
	s.container()["image"] = good
	delete(s.values, "pendingTimeout") // a busy machine may take longer to start the good one
	s.apply()
	s.awaitSuccess(ids)
}

// Both releases are upgraded while jobs run, with values that replace the listener and the manager, but not one runner
// pod.
func TestUpgradesWhileJobsRunKillNoRunner(t *testing.T) {
	s := install(t, "upgrade", 0, 3)
	ids := s.queue(3, longJob)
	s.awaitJobs(ids, state.Running)
	before, listener, manager := s.runnerPods(), s.listenerPod(), managers(t, 1)[0]

	s.values["listenerTemplate"] = site.Values{"spec": site.Values{"containers": []site.Values{
		{"name": "listener", "env": []site.Values{{"name": "GENERATION", "value": "2"}}},
	}}}
	s.values["maxRunners"] = 4
	s.apply()
	reconfigureController(t, func(values site.Values) { values["flags"].(site.Values)["logFormat"] = "json" })
	if managers(t, 1)[0].UID == manager.UID {
		t.Error("the manager is the same: this test tests nothing")
	}
	s.await(t.Context(), "another listener", func() (string, error) {
		pods := systemPods(t, v1alpha1.ComponentListener, client.MatchingLabels{v1alpha1.LabelScaleSetName: s.name})
		if len(pods) != 1 || pods[0].UID == listener.UID || !isReady(&pods[0]) {
			return fmt.Sprintf("there are %d", len(pods)), nil
		}
		return "", nil
	})
	if after := s.runnerPods(); !slices.EqualFunc(before, after, sameUID) {
		t.Errorf("runner pods were %v, are %v", namesOf(before), namesOf(after))
	}
	s.endJobs()
	s.awaitSuccess(ids)
	s.awaitSuccess(s.queue(1, time.Second))
}

func sameUID(a, b corev1.Pod) bool { return a.UID == b.UID }

func namesOf(pods []corev1.Pod) []string {
	names := make([]string, len(pods))
	for i := range pods {
		names[i] = pods[i].Name
	}
	return names
}
