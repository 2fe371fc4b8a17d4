package kube

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// What ARC has named stays findable under the name it has given.
func TestNameHashIsARCs(t *testing.T) {
	for text, want := range map[string]string{
		"arc-runners@@https://github.com/owner/repo":    "66b44686",
		"arc-runners@default@https://github.com/my-org": "bb9db77b",
		"arc-runners": "754b578d",
	} {
		if got := NameHash(text); got != want {
			t.Errorf("NameHash(%q) = %s, want %s", text, got, want)
		}
	}
}

func TestListenerNameOfARC(t *testing.T) {
	set := &v1alpha1.AutoscalingRunnerSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "arc-runners", Name: "linux"},
		Spec:       v1alpha1.AutoscalingRunnerSetSpec{GitHubConfigUrl: "https://github.com/owner/repo"},
	}
	if got := ARCListenerName(set); got != "linux-66b44686-listener" {
		t.Errorf("ARCListenerName() = %s", got)
	}
	set.Name = strings.Repeat("long-", 20)
	if got := ARCListenerName(set); len(validation.IsDNS1123Label(got)) != 0 {
		t.Errorf("ARCListenerName() = %s: %v", got, validation.IsDNS1123Label(got))
	}
}

func TestRunnerNamesAreHostNamesOfTheirSet(t *testing.T) {
	seen := map[string]bool{}
	for _, set := range []string{"linux", strings.Repeat("x", 45), strings.Repeat("a-", 40), strings.Repeat("b", 46) + "." + strings.Repeat("c", 30)} {
		for range 100 {
			name := RunnerName(set)
			if len(name) > maxName || len(validation.IsDNS1123Subdomain(name)) != 0 {
				t.Fatalf("RunnerName(%q) = %s", set, name)
			}
			seen[name] = true
		}
	}
	if len(seen) < 398 { // 1 in 14 million for two of them to be alike
		t.Errorf("%d different names of 400", len(seen))
	}
	if got := RunnerName("linux"); !strings.HasPrefix(got, "linux-runner-") {
		t.Errorf("RunnerName() = %s", got)
	}
}

func TestShortenedNamesStayDifferent(t *testing.T) {
	one, other := shortened(strings.Repeat("a", 60)+"1", 50), shortened(strings.Repeat("a", 60)+"2", 50)
	if one == other || len(one) > 50 {
		t.Errorf("%s and %s", one, other)
	}
	if got := shortened("short", 50); got != "short" {
		t.Errorf("shortened() = %s", got)
	}
}

func TestLabelsMerge(t *testing.T) {
	got := Labels([]string{"argocd.", "actions.github.com/", ""},
		map[string]string{"a": "1", "argocd.argoproj.io/instance": "x", v1alpha1.LabelScaleSetName: "template's", v1alpha1.LabelOrganization: "acme"},
		map[string]string{"a": "2", "b": "3"},
		map[string]string{v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: "team"})
	want := map[string]string{"a": "2", "b": "3", v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: "team"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestAnnotationsMerge(t *testing.T) {
	first := map[string]string{"a": "1", "b": "2"}
	got := Annotations(first, nil, map[string]string{"b": "3"})
	if diff := cmp.Diff(map[string]string{"a": "1", "b": "3"}, got); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if first["b"] != "2" {
		t.Error("a source was changed")
	}
}

func TestMetadataMayBeAbsent(t *testing.T) {
	if labels, annotations := Metadata(nil); labels != nil || annotations != nil {
		t.Errorf("Metadata(nil) = %v, %v", labels, annotations)
	}
	labels, annotations := Metadata(&v1alpha1.ResourceMeta{Labels: map[string]string{"a": "b"}})
	if labels["a"] != "b" || annotations != nil {
		t.Errorf("Metadata() = %v, %v", labels, annotations)
	}
}

func TestLabelValue(t *testing.T) {
	for text, want := range map[string]string{
		"my-org":                "my-org",
		"_my.org-":              "my.org",
		strings.Repeat("x", 63): strings.Repeat("x", 63),
		strings.Repeat("x", 64): strings.Repeat("x", 58) + "-trim",
		strings.Repeat("x", 57) + "-" + strings.Repeat("y", 9): strings.Repeat("x", 57) + "-trim",
	} {
		got := LabelValue(text)
		if got != want || len(validation.IsValidLabelValue(got)) != 0 {
			t.Errorf("LabelValue(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestScaleSetLabels(t *testing.T) {
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "set"}}
	want := map[string]string{
		v1alpha1.LabelPartOf: v1alpha1.PartOfScaleSet, v1alpha1.LabelComponent: "role",
		v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: "n",
	}
	if diff := cmp.Diff(want, ScaleSetLabels(set, "role")); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}
