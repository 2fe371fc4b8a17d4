package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

func TestNewTemplateReplacesIdleRunnersAndSparesJobs(t *testing.T) {
	s := install(t, "template", 1, 3)
	s.awaitIdle(1)
	ids := s.queue(1, 20*time.Second)
	busy := s.awaitJobs(ids, state.Running)[0].Runner
	s.awaitIdle(1)
	listener := s.podOf(v1alpha1.ComponentListener)

	s.container()["env"] = []site.Values{{"name": "GENERATION", "value": "2"}}
	s.apply()
	s.await(t.Context(), "an idle runner of the new template and only the busy one of the old", func() (string, error) {
		for _, pod := range s.runnerPods() {
			isNew := slices.ContainsFunc(pod.Spec.Containers[0].Env, func(e corev1.EnvVar) bool { return e.Name == "GENERATION" })
			if !isNew && pod.Name != busy {
				return pod.Name + " is of the old template", nil
			}
		}
		if idle := s.idle(); len(idle) != 1 {
			return "no runner is idle", nil
		}
		return "", nil
	})
	s.awaitSuccess(ids)
	if now := s.podOf(v1alpha1.ComponentListener); now.UID != listener.UID {
		t.Error("the listener was replaced although nothing about it changed")
	}
}

func TestNewMaximumTakesEffectWithoutANewListener(t *testing.T) {
	s := install(t, "maximum", 0, 0)
	listener := s.podOf(v1alpha1.ComponentListener)
	ids := s.queue(2, time.Second)
	s.values["maxRunners"] = 2
	s.apply()
	s.awaitSuccess(ids)
	if now := s.podOf(v1alpha1.ComponentListener); now.UID != listener.UID {
		t.Error("the listener was replaced although it reads the maximum from a mounted file")
	}
}

func TestFixedImageHealsABrokenScaleSet(t *testing.T) {
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
	s.apply()
	s.awaitSuccess(ids)
}
