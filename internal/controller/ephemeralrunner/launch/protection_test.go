package launch_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/launch"
)

// label is a protection that gives pods a label, unless it is told off.
type label struct {
	off     bool
	refused error
}

func (l *label) Protect(_ context.Context, _ *v1alpha1.AutoscalingRunnerSet, pod *corev1.Pod) bool {
	if !l.off {
		pod.Labels["protected"] = "true"
	}
	return !l.off
}

func (l *label) Refused(_ context.Context, _ *v1alpha1.EphemeralRunner, refusal error) {
	l.refused = refusal
}

// A policy against the protection of new pods costs one more request, and no runner. What else is refused costs none.
func TestAPodIsCreatedWithoutProtectionIfItMustBe(t *testing.T) {
	for rule, test := range map[string]struct {
		refusal   error
		off       bool
		creations int
		protected bool
	}{
		"nothing is refused": {nil, false, 1, true},
		"a policy":           {errForbidden, false, 2, false},
		"a validation":       {errInvalid, false, 2, false},
		"a webhook":          {errBadRequest, false, 2, false},
		"known before":       {nil, true, 1, false},
	} {
		t.Run(rule, func(t *testing.T) {
			protection := &label{off: test.off}
			inBubble(t, func(f *fixture) {
				f.fails["create Pod"] = test.refusal
				f.meanwhile["create Pod"] = func() {
					if strings.Count(strings.Join(f.requests, " "), "create Pod") > 1 {
						f.fails["create Pod"] = nil
					}
				}
				if progress := f.launch(newRunner(), 0); progress.Failure != nil {
					t.Fatal(progress.Failure)
				}
				if got := strings.Count(strings.Join(f.requests, " "), "create Pod"); got != test.creations {
					t.Errorf("%d creations, want %d", got, test.creations)
				}
				if got := f.pod().Labels["protected"] != ""; got != test.protected {
					t.Errorf("protected: %t, want %t", got, test.protected)
				}
				if (protection.refused != nil) != (test.creations > 1) {
					t.Errorf("told of %v", protection.refused)
				}
			}, func(o *launch.Options) { o.Protection = protection })
		})
	}
	for rule, refusal := range map[string]error{"a quota": errQuota, "a namespace that is going": errNamespace,
		"no answer": errNoAnswer, "a webhook's failure": errInternal} {
		protection := &label{}
		inBubble(t, func(f *fixture) {
			f.fails["create Pod"] = refusal
			f.launch(newRunner(), 0)
			if got := strings.Count(strings.Join(f.requests, " "), "create Pod"); got != 1 || protection.refused != nil {
				t.Errorf("%s: %d creations, told of %v", rule, got, protection.refused)
			}
		}, func(o *launch.Options) { o.Protection = protection })
	}
}
