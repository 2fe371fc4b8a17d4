package ephemeralrunner

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/mark"
)

// useUpAllowance leaves the next pod to be one of many.
func (f *fixture) useUpAllowance() {
	for range mark.SmallBurst {
		f.controller.marker.Untrack(f.Context(), newPod(newRunner(), 1, "dev"))
	}
}

func TestOneOfManyPodsLosesManagedFieldsAtOnce(t *testing.T) {
	withoutMetadata := func(f *fixture) {
		f.configure(func(o *Options) { o.JobMetadata = false })
		f.useUpAllowance()
	}
	for title, test := range map[string]struct {
		given func(f *fixture)
		want  string
	}{
		"one of few":                  {func(*fixture) {}, "create Secret, create Pod"},
		"one of many":                 {(*fixture).useUpAllowance, "create Secret, create Pod, patch Pod"},
		"one of many, not configured": {withoutMetadata, "create Secret, create Pod"},
	} {
		t.Run(title, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				test.given(f)
				f.reconcile()
				if got := f.api.sent(); got != test.want {
					t.Errorf("requests %s, want %s", got, test.want)
				}
				f.settle()
				if got := f.api.sent(); got != "" {
					t.Errorf("later requests %s, want none", got)
				}
			}, newRunner())
		})
	}
}

// The patch only makes the pod cheaper, so whatever becomes of it, the pod counts as created.
func TestPodThatKeepsManagedFieldsRunsAllTheSame(t *testing.T) {
	for title, failure := range map[string]error{
		"refused":   deniedBy("policy", 400),
		"gone":      apierrors.NewNotFound(pods, name),
		"no answer": errors.New("connection refused"),
	} {
		t.Run(title, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.useUpAllowance()
				f.api.refuse = map[string]error{"patch Pod": failure}
				f.settle()
				f.wantCalls("jit")
				if got := f.api.sent(); got != "create Secret, create Pod, patch Pod" {
					t.Errorf("requests %s, want each once", got)
				}
				f.api.refuse = nil
				f.setPod(runs)
				f.settle()
				if status := f.runner().Status; status.RunnerID == 0 || status.Reason != "" {
					t.Errorf("status %+v, want a running runner", status)
				}
			}, newRunner())
		})
	}
}
