package kube_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// maxName is the longest label value, and the longest part of a host name.
const maxName = 63

// What ARC has named stays findable under the name it has given.
func TestNameHashIsARCs(t *testing.T) {
	for text, want := range map[string]string{
		"arc-runners@@https://github.com/owner/repo":    "66b44686",
		"arc-runners@default@https://github.com/my-org": "bb9db77b",
		"arc-runners": "754b578d",
	} {
		if got := kube.NameHash(text); got != want {
			t.Errorf("NameHash(%q) = %s, want %s", text, got, want)
		}
	}
}

func TestListenerNameOfARC(t *testing.T) {
	set := &v1alpha1.AutoscalingRunnerSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "arc-runners", Name: "linux"},
		Spec:       v1alpha1.AutoscalingRunnerSetSpec{GitHubConfigUrl: "https://github.com/owner/repo"},
	}
	if got := kube.ARCListenerName(set); got != "linux-66b44686-listener" {
		t.Errorf("ARCListenerName() = %s", got)
	}
	set.Name = strings.Repeat("long-", 20)
	if got := kube.ARCListenerName(set); len(validation.IsDNS1123Label(got)) != 0 {
		t.Errorf("ARCListenerName() = %s: %v", got, validation.IsDNS1123Label(got))
	}
}

// named returns a set with all that its listener's name depends on.
func named(namespace, name, group, address string) *v1alpha1.AutoscalingRunnerSet {
	return &v1alpha1.AutoscalingRunnerSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.AutoscalingRunnerSetSpec{RunnerGroup: group, GitHubConfigUrl: address},
	}
}

func TestListenerNames(t *testing.T) {
	long := strings.Repeat("a", 40)
	for _, test := range []struct {
		set  *v1alpha1.AutoscalingRunnerSet
		want []string
	}{
		{named("arc-runners", "linux", "", "https://github.com/owner/repo"),
			[]string{"linux-WORD16-listener", "linux-WORD32-listener"}},
		{named("arc-runners", long, "", "https://github.com/owner/repo"),
			[]string{long[:37] + "-WORD16-listener", long[:21] + "-WORD32-listener"}},
	} {
		names := kube.ListenerNames(test.set)
		for i, name := range names {
			pattern := regexp.MustCompile("^" +
				strings.NewReplacer("WORD16", "[0-9a-f]{16}", "WORD32", "[0-9a-f]{32}").Replace(test.want[i]) + "$")
			if !pattern.MatchString(name) {
				t.Errorf("name %d is %s, want %s", i, name, pattern)
			}
		}
	}
}

// A tenant that tries addresses until its listener gets the name of another tenant's needs half a minute for the eight
// digits of ARC. This is one of the pairs that it finds.
func TestListenerNamesOfAFoundPairDiffer(t *testing.T) {
	one := named("team-a", "runners", "", "https://github.com/my-org")
	other := named("team-b", "runners", "", "https://ghes.example.com/o26290805")
	if kube.ARCListenerName(one) != kube.ARCListenerName(other) {
		t.Fatalf("%s and %s: this pair shows nothing", kube.ARCListenerName(one), kube.ARCListenerName(other))
	}
	for i, name := range kube.ListenerNames(one) {
		if name == kube.ListenerNames(other)[i] {
			t.Errorf("both are named %s", name)
		}
	}
}

// Different sets have different listeners, also if one's namespace, name, group and address run on as the other's do:
// whatever is drawn, from few letters, so that many look alike. Names are valid for a pod.
func TestListenerNamesAreOfOneSet(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	draw := func(letters string) string {
		text := make([]byte, random.IntN(6))
		for i := range text {
			text[i] = letters[random.IntN(len(letters))]
		}
		return "a" + string(text)
	}
	seen := map[string][4]string{}
	for range 20_000 {
		namespace, name := draw("ab"), draw("ab")+strings.Repeat("c", random.IntN(2)*50)
		parts := [4]string{namespace, name, draw("ab@:1"), draw("ab@:1")}
		for i, made := range kube.ListenerNames(named(parts[0], parts[1], parts[2], parts[3])) {
			if problems := validation.IsDNS1123Label(made); len(problems) > 0 {
				t.Fatalf("%q: %s: %v", parts, made, problems)
			}
			key := fmt.Sprint(i, made)
			if former, known := seen[key]; known && former != parts {
				t.Fatalf("%q and %q are both named %s", former, parts, made)
			}
			seen[key] = parts
		}
	}
}

// jobPodName is the name that container hooks 0.1 to 0.8 give the pod of a job (runner-container-hooks, packages/k8s,
// getJobPodName).
func jobPodName(runner string) string { return runner[:min(len(runner), 54)] + "-workflow" }

// Two hundred runners of a set have two hundred names, and their jobs as many pods, however long the set's name is. One
// that ARC made has six characters more than the scale set, of which ARC's chart takes up to 45; by hand it may be as
// long as the API server takes.
func TestRunnersAndTheirJobPodsHaveNamesOfTheirOwn(t *testing.T) {
	sets := []string{
		"linux", strings.Repeat("a-", 40), strings.Repeat("b", 46) + "." + strings.Repeat("c", 30),
		strings.Repeat("x", 253),
	}
	for length := 1; length <= 63; length++ {
		sets = append(sets, strings.Repeat("a", length), strings.Repeat("b", length)+"-k7x2m")
	}
	for _, set := range sets {
		runners, pods := map[string]bool{}, map[string]bool{}
		for len(runners) < 200 {
			name := kube.RunnerName(set)
			if problems := validation.IsDNS1123Subdomain(name); len(name) > maxName || len(problems) > 0 {
				t.Fatalf("RunnerName(%q) = %s: %v", set, name, problems)
			}
			if !kube.IsRunnerName(set, name) {
				t.Fatalf("%s is not known as a runner of %s", name, set)
			}
			runners[name], pods[jobPodName(name)] = true, true
		}
		if len(pods) != len(runners) {
			t.Errorf(
				"%d names of job pods for %d runners of set %s of %d characters",
				len(pods), len(runners), set, len(set),
			)
		}
	}
}

// Up to 41 characters nothing changes. From there on, sets that begin alike have runners that don't.
func TestRunnersOfAShortSetHaveItsWholeName(t *testing.T) {
	whole := strings.Repeat("a", 41)
	for set, want := range map[string]string{"linux": "linux-runner-", whole: whole + "-runner-"} {
		if got := kube.RunnerPrefix(set); got != want {
			t.Errorf("RunnerPrefix(%s) = %s, want %s", set, got, want)
		}
	}
	one, other := kube.RunnerPrefix(whole+"1"), kube.RunnerPrefix(whole+"2")
	if one == other || !strings.HasPrefix(one, whole[:32]+"-") {
		t.Errorf("%s and %s, want two prefixes that show what the set is called", one, other)
	}
	if !kube.IsRunnerName(whole+"1", whole+"1-runner-abcde") || kube.IsRunnerName("linux", "linux-large-runner-abcde") ||
		kube.IsRunnerName(whole+"1", whole+"2-runner-abcde") {
		t.Error("want runners with names from before known as the set's, and no other set's")
	}
}

// The Secret with the runners' proxy has ARC's name where that fits.
func TestNamesOfProxySecretsFit(t *testing.T) {
	for length := 1; length <= 253; length++ {
		name := kube.RunnerProxySecretName(strings.Repeat("a", length), "runners")
		if len(name) > maxName || len(validation.IsDNS1123Subdomain(name)) > 0 {
			t.Errorf("%s has %d characters", name, len(name))
		}
	}
	if got := kube.RunnerProxySecretName("set", "arc-runners"); got != "set-754b578d-runner-proxy" {
		t.Errorf("RunnerProxySecretName() = %s, want ARC's", got)
	}
}

func TestShortenedNamesStayDifferent(t *testing.T) {
	long := strings.Repeat("a", 60)
	for what, name := range map[string]func(of string) string{
		"proxy Secret": func(of string) string { return kube.RunnerProxySecretName(of, "runners") },
		"listener":     func(of string) string { return kube.ARCListenerName(named("runners", of, "", "")) },
		"prefix":       kube.RunnerPrefix,
	} {
		one, other := name(long+"1"), name(long+"2")
		if one == other || len(one) > maxName {
			t.Errorf("%s: %s and %s", what, one, other)
		}
		if got := name("short"); !strings.HasPrefix(got, "short-") {
			t.Errorf("%s: %s", what, got)
		}
	}
}

func TestLabelsMerge(t *testing.T) {
	got := kube.Labels([]string{"argocd.", "actions.github.com/", ""},
		map[string]string{
			"a":                           "1",
			"argocd.argoproj.io/instance": "x",
			v1alpha1.LabelScaleSetName:    "template's",
			v1alpha1.LabelOrganization:    "acme",
		},
		map[string]string{"a": "2", "b": "3"},
		map[string]string{v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: "team"})
	want := map[string]string{
		"a":                             "2",
		"b":                             "3",
		v1alpha1.LabelScaleSetName:      "set",
		v1alpha1.LabelScaleSetNamespace: "team",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestLabelsOfInstallers(t *testing.T) {
	for key, want := range map[string]bool{
		"app.kubernetes.io/name": true, "argocd.argoproj.io/instance": true, "kustomize.toolkit.fluxcd.io/name": true,
		"meta.helm.sh/release-name": true, "Helm.sh/chart": true,
		"app": false, "app.kubernetes.io": false, "kubernetes.io/os": false, "example.com/helm.sh": false,
		"notapp.kubernetes.io/name": false, "": false,
	} {
		if got := kube.OfInstaller(key); got != want {
			t.Errorf("%q: %t", key, got)
		}
		if kube.ForPruning(key) {
			t.Errorf("%q: its installer leaves alone what has an owner", key)
		}
	}
	for _, key := range []string{
		"applyset.kubernetes.io/part-of", "kapp.k14s.io/app", "objectset.rio.cattle.io/hash",
		"configsync.gke.io/declared-version", "addonmanager.kubernetes.io/mode",
	} {
		if !kube.OfInstaller(key) || !kube.ForPruning(key) {
			t.Errorf("%q: its installer deletes whatever has it", key)
		}
	}
}

func TestAnnotationsMerge(t *testing.T) {
	first := map[string]string{"a": "1", "b": "2"}
	got := kube.Annotations(first, nil, map[string]string{"b": "3"})
	if diff := cmp.Diff(map[string]string{"a": "1", "b": "3"}, got); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if first["b"] != "2" {
		t.Error("a source was changed")
	}
}

func TestMetadataMayBeAbsent(t *testing.T) {
	if labels, annotations := kube.Metadata(nil); labels != nil || annotations != nil {
		t.Errorf("Metadata(nil) = %v, %v", labels, annotations)
	}
	labels, annotations := kube.Metadata(&v1alpha1.ResourceMeta{Labels: map[string]string{"a": "b"}})
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
		got := kube.LabelValue(text)
		if got != want || len(validation.IsValidLabelValue(got)) != 0 {
			t.Errorf("LabelValue(%q) = %q, want %q", text, got, want)
		}
	}
}
