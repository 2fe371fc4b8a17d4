package kube_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// Whatever stands in a config URL, the labels made from it are accepted by the API server.
func FuzzLabelValue(f *testing.F) {
	for _, seed := range []string{
		"acme", "Acme_1.x", "-a-", "", strings.Repeat("a", 64), strings.Repeat("-", 70) + "a", "a b", "ü", "a/b",
		"\xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		value := kube.LabelValue(text)
		if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
			t.Errorf("%q becomes %q: %v", text, value, problems)
		}
		if len(text) <= maxName && len(validation.IsValidLabelValue(text)) == 0 && value != text {
			t.Errorf("%q is valid and becomes %q", text, value)
		}
	})
}

// Names made from a set's valid name are valid host names, whatever its length, group and URL.
func FuzzNames(f *testing.F) {
	f.Add("runners", "Default", "https://github.com/acme")
	f.Add(strings.Repeat("a", 253), "", "")
	f.Add("a."+strings.Repeat("b-", 60)+"c", "gröup", "://")
	f.Add(strings.Repeat("a.", 40)+"a", "g", "u")
	f.Fuzz(func(t *testing.T, name, group, address string) {
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			return // the API server has no set of this name
		}
		set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: name}}
		set.Spec.RunnerGroup, set.Spec.GitHubConfigUrl = group, address
		for _, made := range append(kube.ListenerNames(set), kube.ARCListenerName(set), kube.RunnerName(name)) {
			if problems := validation.IsDNS1123Subdomain(made); len(problems) > 0 || len(made) > maxName {
				t.Errorf("set %q: %q: %v", name, made, problems)
			}
		}
	})
}
