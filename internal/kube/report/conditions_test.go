package report_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// maxMessage is the longest message of a condition, in bytes.
const maxMessage = 1024

func TestConditions(t *testing.T) {
	var conditions []metav1.Condition
	now := time.Unix(100, 0)
	steps := []struct {
		set     metav1.Condition
		changed bool
		since   time.Time
	}{
		{report.True("Ready", "Fine", "all is well"), true, now},
		{report.True("Ready", "Fine", "all is well"), false, now},
		{report.True("Ready", "Better", "even better"), true, now}, // the time is that of the status
		{report.False("Ready", "Broken", "not well"), true, now.Add(3 * time.Second)},
		{report.Unknown("Ready", "Lost", "who knows"), true, now.Add(4 * time.Second)},
	}
	for i, step := range steps {
		changed := report.SetConditions(&conditions, int64(i), now.Add(time.Duration(i)*time.Second), step.set)
		got := conditions[0]
		if changed != step.changed || !got.LastTransitionTime.Time.Equal(step.since) ||
			got.ObservedGeneration != int64(i) || got.Reason != step.set.Reason {
			t.Errorf("step %d: changed %t, condition %+v", i, changed, got)
		}
	}
}

func TestLongMessagesAreCutAtACharacter(t *testing.T) {
	var conditions []metav1.Condition
	long := strings.Repeat("ä", 5000)
	report.SetConditions(&conditions, 1, time.Unix(1, 0), report.True("Ready", "Long", long))
	if got := conditions[0].Message; !utf8.ValidString(got) || len(got) > maxMessage ||
		len(got) < maxMessage-utf8.UTFMax {
		t.Errorf("message of %d bytes, valid %t", len(got), utf8.ValidString(got))
	}
	if report.SetConditions(&conditions, 1, time.Unix(2, 0), report.True("Ready", "Long", long)) {
		t.Error("the same long message counts as another one")
	}
}

func TestReasonsFromElsewhereAreMadeValid(t *testing.T) {
	for given, want := range map[string]string{
		"ImagePullBackOff":       "ImagePullBackOff",
		"":                       "Unknown",
		"Not enough resources":   "Notenoughresources",
		"2 nodes: full:":         "nodes:full",
		"größe":                  "gre",
		strings.Repeat("x", 200): strings.Repeat("x", 128),
	} {
		var conditions []metav1.Condition
		report.SetConditions(&conditions, 1, time.Unix(1, 0), report.False("Ready", given, ""))
		if got := conditions[0].Reason; got != want {
			t.Errorf("reason %q became %q, want %q", given, got, want)
		}
		if report.SetConditions(&conditions, 1, time.Unix(2, 0), report.False("Ready", given, "")) {
			t.Errorf("the same reason %q counts as another one", given)
		}
	}
}

func TestRefusal(t *testing.T) {
	forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("no"))
	terminating := apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("terminating"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	before := &metav1.Condition{Reason: v1alpha1.ReasonReconcileFailed, Message: "before"}
	for name, test := range map[string]struct {
		failure  error
		cutShort bool
		previous *metav1.Condition
		want     string
	}{
		"no failure":          {},
		"no failure any more": {previous: before},
		"refused":             {failure: forbidden, cutShort: true, want: report.WithAdvice(forbidden)},
		"refused for another reason": {
			failure:  forbidden,
			cutShort: true,
			previous: before,
			want:     report.WithAdvice(forbidden),
		},
		"namespace terminating": {failure: terminating, cutShort: true, previous: before},
		"failure that passes":   {failure: errors.New("timeout"), cutShort: true},
		"cut short before the refused": {
			failure:  errors.New("timeout"),
			cutShort: true,
			previous: before,
			want:     "before",
		},
		"cut short by a cache": {cutShort: true, previous: before, want: "before"},
		"cut short after another problem": {
			cutShort: true,
			previous: &metav1.Condition{Reason: "Other", Message: "other"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := report.Refusal(test.failure, test.cutShort, test.previous); got != test.want {
				t.Errorf("Refusal() = %q, want %q", got, test.want)
			}
		})
	}
}

func TestRefusalsComeWithAdvice(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"no permission": {
			apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("no Role")),
			"if the manager lacks the permission, grant it: ",
		},
		"not let in": {
			apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("violates PodSecurity")),
			"if Pod Security, a quota or a policy forbids the object",
		},
		"invalid": {
			apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "a", nil),
			"; correct what it names in the AutoscalingRunnerSet",
		},
		"malformed": {apierrors.NewBadRequest("no number"), "; correct what it names in the AutoscalingRunnerSet"},
		"other":     {errors.New("away"), "create it: away"},
	} {
		if refused := name != "other"; kube.IsRefused(test.err) != refused {
			t.Errorf("%s: refused %t, want %t", name, !refused, refused)
		}
		if got := report.WithAdvice(fmt.Errorf("create it: %w", test.err)); !strings.HasPrefix(got, "create it: ") ||
			!strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q in it", name, got, test.want)
		}
	}
}
