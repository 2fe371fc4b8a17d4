package kube

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestRefusalsComeWithAdvice(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"no permission": {apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("no Role")), "if the manager lacks the permission, grant it: "},
		"not let in":    {apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("violates PodSecurity")), "if Pod Security, a quota or a policy forbids the object"},
		"invalid":       {apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "a", nil), "; correct what it names in the AutoscalingRunnerSet"},
		"malformed":     {apierrors.NewBadRequest("no number"), "; correct what it names in the AutoscalingRunnerSet"},
		"other":         {errors.New("away"), "create it: away"},
	} {
		if refused := name != "other"; IsRefused(test.err) != refused {
			t.Errorf("%s: refused %t, want %t", name, !refused, refused)
		}
		if got := WithAdvice(fmt.Errorf("create it: %w", test.err)); !strings.HasPrefix(got, "create it: ") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q in it", name, got, test.want)
		}
	}
}
