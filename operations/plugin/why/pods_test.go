package why

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/operations/finding"
)

// podsOnly forbids everything but to read the pods of one namespace.
func podsOnly(object any, namespace string) bool {
	switch object.(type) {
	case *corev1.Pod, *corev1.PodList:
		return namespace != "runners"
	}
	return true
}

// Whoever may read pods only, in one namespace, is told what these know, and what could not be read.
func TestOfPodsAlone(t *testing.T) {
	objects := []client.Object{runnerWith(nil), podWith(nil)}
	for _, subject := range []string{"1234567890", job, runner, "https://github.com/acme/app/actions/runs/1234567890"} {
		said, stories, err := asked(t, server(podsOnly, objects...), subject)
		if err != nil || len(stories) != 1 || stories[0].State != Running || stories[0].WaitSeconds != 100 {
			t.Errorf("%s: %v, %+v", subject, err, stories)
		}
		if !strings.Contains(said, "You may not read") || !strings.Contains(said, "EphemeralRunners") ||
			!strings.Contains(said, "Events") || !strings.Contains(said, "placed  after 1m00s") {
			t.Errorf("%s: %s", subject, said)
		}
	}
}

// A pod of container hooks stands for its runner's, and the cause of a lost job is known by the way a container ended.
func TestWhatAPodAloneTells(t *testing.T) {
	hooks := podWith(func(p *corev1.Pod) {
		p.Name, p.Labels, p.Annotations = runner+"-workflow", map[string]string{v1alpha1.LabelRunnerPod: runner}, nil
	})
	if _, stories, err := asked(t, server(podsOnly, podWith(nil), hooks), hooks.Name); err != nil ||
		len(stories) != 1 || stories[0].Runner != runner || stories[0].Job.ID != job {
		t.Errorf("of a pod of hooks: %v, %+v", err, stories)
	}
	oom := podWith(func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodFailed
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled", StartedAt: *after(94),
				FinishedAt: *after(300)}}
	})
	if said, stories, err := asked(t, server(podsOnly, oom), job); !errors.Is(err, finding.ErrProblems) ||
		len(stories) != 1 || stories[0].State != Lost || stories[0].Reason != "OOMKilled" {
		t.Errorf("a lost job: %v, %+v\n%s", err, stories, said)
	}
}
