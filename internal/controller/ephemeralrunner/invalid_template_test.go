package ephemeralrunner_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// What Events tell a user who wrote an impossible template: which object, why, and what to do.

func TestImpossibleTemplatesAreExplained(t *testing.T) {
	badImage := field.ErrorList{field.Required(field.NewPath("spec", "containers").Index(0).Child("image"), "")}
	policy := errors.New(`violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true)`)
	for title, test := range map[string]struct {
		template func(*v1alpha1.EphemeralRunner)
		refuse   error
		kubelet  func(*corev1.Pod)
		reason   string
		phase    v1alpha1.EphemeralRunnerPhase
		says     []string
	}{
		"no container is the runner": {
			template: func(r *v1alpha1.EphemeralRunner) { r.Spec.PodSpec.Containers[0].Name = "main" },
			reason:   v1alpha1.ReasonInvalidPod, phase: v1alpha1.EphemeralRunnerPhaseFailed,
			says: []string{"no container named runner", "spec.template"},
		},
		"a field is not accepted": {
			refuse: apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, name, badImage),
			reason: v1alpha1.ReasonInvalidPod, phase: v1alpha1.EphemeralRunnerPhaseFailed,
			says: []string{name, "spec.containers[0].image", "correct spec.template"},
		},
		"a field is forbidden": {
			refuse: apierrors.NewForbidden(pods, name, policy),
			reason: "PodForbidden", phase: v1alpha1.EphemeralRunnerPhasePending,
			says: []string{name, "hostNetwork", "change spec.template", "namespace " + namespace},
		},
		"the image has no name": {
			kubelet: cannotStart("InvalidImageName"),
			reason:  "InvalidImageName", phase: v1alpha1.EphemeralRunnerPhasePending,
			says: []string{"attempt 1 of 6", "why"},
		},
	} {
		t.Run(title, func(t *testing.T) {
			runner := newRunner()
			if test.template != nil {
				test.template(runner)
			}
			inBubble(t, func(f *fixture) {
				if test.refuse != nil {
					f.api.refuse = map[string]error{"create Pod": test.refuse}
				}
				f.settle()
				if test.kubelet != nil {
					f.setPod(test.kubelet)
					f.settle()
				}
				if status := f.runner().Status; status.Phase != test.phase || status.Reason != test.reason ||
					len(status.Failures) > 1 {
					t.Errorf("status %+v, want %s for %s", status, test.phase, test.reason)
				}
				recorded := controllertest.Events(f.recorder)
				if len(recorded) != 1 {
					t.Fatalf("Events %q, want one", recorded)
				}
				for _, words := range test.says {
					if !strings.Contains(recorded[0], words) {
						t.Errorf("Event %q does not say %q", recorded[0], words)
					}
				}
			}, runner)
		})
	}
}

// A template that can't become a pod is not registered, and GitHub is not asked about it afterwards.
func TestTemplateWithoutARunnerCostsGitHubNothing(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		f.elapse(2 * time.Minute)
		f.create(newRunner(func(r *v1alpha1.EphemeralRunner) { r.Spec.PodSpec.Containers[0].Name = "main" }))
		f.settle()
		f.delete()
		f.settle()
		f.wantCalls()
		f.wantGone()
	})
}
