package charts

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
)

// variantsOf returns the AutoscalingRunnerSets of the variants in values.
func variantsOf(t *testing.T, values ...string) (sets []v1alpha1.AutoscalingRunnerSet) {
	t.Helper()
	for _, document := range renderSet(t, scaleSet, values...)["variants.yaml"] {
		if strings.Contains(document, "\nkind: AutoscalingRunnerSet\n") {
			sets = append(sets, decode[v1alpha1.AutoscalingRunnerSet](t, document))
		}
	}
	return sets
}

// A variant equals a release of its own with the same values and the variant's: every object, in every mode. Only the
// credentials are the first set's.
func TestAVariantIsASetLikeAnyOther(t *testing.T) {
	t.Parallel()
	const own = "\nminRunners: 1\nmaxRunners: 2\nscaleSetLabels: [big]\n"
	for _, common := range []string{
		"", mode("dind"), mode("kubernetes-novolume"), hookTemplate, "protectRunners: All", "githubConfigSecret: own",
		"githubServerTLS: {certificateFrom: {configMapKeyRef: {name: ca, key: crt}}, runnerMountPath: /ca}\nrunnerGroup: g\nlabels: {a: b}",
		"template: {spec: {serviceAccountName: own}}\nproxy: {http: {url: 'http://p:1'}}",
	} {
		alone := renderSet(t, scaleSet, common, own, "runnerScaleSetName: test-runners-big")
		rendered := renderSet(t, scaleSet, common, "scaleSetLabels: [small]",
			"variants: [{name: big"+strings.ReplaceAll(own, "\n", ", ")+"}]")
		var got, want []string
		for _, document := range rendered["variants.yaml"] {
			got = append(got, withoutOrigin(t, document))
		}
		for file, documents := range alone {
			if file != "githubsecret.yaml" {
				want = append(want, withoutOrigin(t, documents[0]))
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if difference := cmp.Diff(want, got); difference != "" {
			t.Errorf("variant, with %s (-release of its own +variant):\n%s", common, difference)
		}
	}
}

// withoutOrigin returns an object without the hash of its values and the reference to its credentials.
func withoutOrigin(t *testing.T, document string) string {
	t.Helper()
	object := decode[map[string]any](t, document)
	if annotations, ok := object["metadata"].(map[string]any)["annotations"].(map[string]any); ok {
		delete(annotations, "actions.github.com/values-hash")
		delete(annotations, "actions.github.com/cleanup-github-secret-name")
	}
	if spec, ok := object["spec"].(map[string]any); ok {
		delete(spec, "githubConfigSecret")
		delete(spec, "githubConfigSecretRevision")
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Each template that makes an object makes the objects of variants, too.
func TestVariantsHaveEveryTemplate(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(scaleSet.directory(), "templates", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const values = "protectRunners: All\nfeedback: {jobLog: true}\nprepull: {enabled: true}\nvariants: [{name: big, " +
		"template: {spec: {nodeSelector: {a: b}}}}]"
	made := map[string]int{}
	for _, common := range []string{hookTemplate, mode("none")} {
		rendered := renderSet(t, scaleSet, common, values)
		for file, documents := range rendered {
			if file != "variants.yaml" && file != "githubsecret.yaml" {
				made[file] += len(documents)
			}
		}
		check(t, "objects of the variant", len(rendered["variants.yaml"]), len(rendered)-2)
	}
	check(t, "templates", len(made), len(files)-2)
}

// The first set, which the cluster already has, is the same object with and without variants.
func TestTheFirstSetIsAsWithoutVariants(t *testing.T) {
	t.Parallel()
	const variants = "prepull: {enabled: true}\nvariants: [{name: big, maxRunners: 3, scaleSetLabels: [big]}]"
	for _, common := range []string{"", mode("dind"), hookTemplate, "maxRunners: 5\nscaleSetLabels: [linux]"} {
		without, with := renderSet(t, scaleSet, common), renderSet(t, scaleSet, common, variants)
		delete(with, "variants.yaml")
		delete(with, "prepull.yaml")
		check(t, "objects with "+common, with, without)
	}
}

func TestWhatAVariantHasInCommon(t *testing.T) {
	t.Parallel()
	first := `
runnerScaleSetName: linux_x64
minRunners: 1
maxRunners: 9
scaleSetLabels: [linux, small]
template:
  metadata: {labels: {team: ci, part: a}}
  spec:
    nodeSelector: {pool: runners, disk: ssd}
    securityContext: {runAsNonRoot: true, fsGroup: 1001}
    hostNetwork: true
    volumes: [{name: cache, emptyDir: {}}, {name: scratch, emptyDir: {}}]
    initContainers: [{name: prepare, image: busybox}]
    containers:
      - {name: runner, image: "registry.example.com/runner:1", env: [{name: A, value: a}, {name: B, value: $(A)b}, {name: C, value: $(B)c}], resources: {limits: {cpu: 1}, requests: {cpu: 1}}}
      - {name: side, image: side}
variants:
  - {name: plain}
  - name: large
    minRunners: 0
    maxRunners: null
    scaleSetLabels: [Linux, large]
    template:
      metadata: {labels: {part: b, gone: null}}
      spec:
        nodeSelector: {pool: large, disk: null}
        securityContext: {runAsNonRoot: false}
        hostNetwork: false
        volumes: [{name: cache, hostPath: {path: /cache}}, {name: more, emptyDir: {}}]
        containers:
          - {name: runner, env: [{name: D, value: $(B)d}, {name: B, value: large}], resources: {limits: {cpu: 16}}}
          - {name: extra, image: extra}
`
	sets := variantsOf(t, first)
	plain, large := sets[0], sets[1]
	check(t, "name", plain.Name+" "+plain.Spec.RunnerScaleSetName, "linux-x64-plain linux_x64-plain")
	check(t, "numbers", fmt.Sprint(*plain.Spec.MinRunners, *plain.Spec.MaxRunners), "1 9")
	check(t, "labels", plain.Spec.RunnerScaleSetLabels, []string(nil))
	check(t, "pod", plain.Spec.Template.Spec.Containers, runnerSet(t, scaleSet, first).Spec.Template.Spec.Containers)
	check(t, "Secret", plain.Spec.GitHubConfigSecret, "linux-x64-gha-rs-github-secret")
	check(t, "revision of the credentials", plain.Spec.GitHubConfigSecretRevision,
		runnerSet(t, scaleSet, first).Spec.GitHubConfigSecretRevision)

	check(t, "minimum", *large.Spec.MinRunners, 0)
	check(t, "has a maximum", large.Spec.MaxRunners != nil, false)
	check(t, "labels", large.Spec.RunnerScaleSetLabels, []string{"Linux", "large"})
	pod := large.Spec.Template
	check(t, "labels of the pod", pod.Labels, map[string]string{"team": "ci", "part": "b"})
	check(t, "nodes", pod.Spec.NodeSelector, map[string]string{"pool": "large"})
	check(t, "may be root", *pod.Spec.SecurityContext.RunAsNonRoot, false)
	check(t, "group", *pod.Spec.SecurityContext.FSGroup, int64(1001))
	check(t, "host's network", pod.Spec.HostNetwork, false)
	check(t, "volumes", names(pod.Spec.Volumes,
		func(v corev1.Volume) string { return v.Name + fmt.Sprint(v.HostPath != nil) }),
		[]string{"cachetrue", "scratchfalse", "morefalse"})
	check(t, "containers", names(pod.Spec.Containers, func(c corev1.Container) string { return c.Name }),
		[]string{"runner", "side", "extra"})
	check(t, "init containers", len(pod.Spec.InitContainers), 1)
	runner := pod.Spec.Containers[0]
	check(t, "image", runner.Image, "registry.example.com/runner:1")
	check(t, "env", runner.Env, []corev1.EnvVar{{Name: "A", Value: "a"}, {Name: "B", Value: "large"},
		{Name: "C", Value: "$(B)c"}, {Name: "D", Value: "$(B)d"}})
	check(t, "CPUs", runner.Resources.Limits.Cpu().String()+" "+runner.Resources.Requests.Cpu().String(), "16 1")
	check(t, "first set's nodes", runnerSet(t, scaleSet, first).Spec.Template.Spec.NodeSelector, map[string]string{
		"pool": "runners",
		"disk": "ssd",
	})
}

// A number that a variant gives holds while schedules are open, too: they keep the other one, and go without any.
func TestSchedulesLeaveAVariantItsNumbers(t *testing.T) {
	t.Parallel()
	const common = `
schedules:
  - {name: office, schedule: "0 7 * * 1-5", duration: 11h, timeZone: Europe/Berlin, minRunners: 20, maxRunners: 200}
  - {name: tests, schedule: "30 1 * * *", duration: 2h, minRunners: 40, maxRunners: null}
variants: [{name: plain}, {name: max, maxRunners: 5}, {name: min, minRunners: 0}, {name: unlimited, maxRunners: null}, {name: both, minRunners: 0, maxRunners: 0}]
`
	said := func(set v1alpha1.AutoscalingRunnerSet) (lines []string) {
		for _, s := range set.Spec.Schedules {
			lines = append(lines, fmt.Sprint(s.Name, " ", s.Schedule, " ", s.Duration.Duration, " ", s.TimeZone, " ",
				ptr.Deref(s.MinRunners, -1), " ", ptr.Deref(s.MaxRunners, -1)))
		}
		return lines
	}
	const office, tests = "office 0 7 * * 1-5 11h0m0s Europe/Berlin ", "tests 30 1 * * * 2h0m0s  40 -1"
	whole, withoutMax := []string{office + "20 200", tests}, []string{office + "20 -1", tests}
	check(t, "the first set's", said(runnerSet(t, scaleSet, common)), whole)
	sets := variantsOf(t, common)
	for i, want := range [][]string{whole, withoutMax, {office + "-1 200"}, withoutMax, nil} {
		check(t, sets[i].Name, said(sets[i]), want)
	}
}

func TestVariantRefusals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		values string
		want   []string
	}{
		{"variants: [{scaleSetLabels: [a]}]", []string{"name"}},
		{"variants: [{name: ''}]", []string{`variants[0].name is ""`, "test-runners-NAME"}},
		{"variants: [{name: ok}, {name: Large}]", []string{`variants[1].name is "Large"`}},
		{"variants: [{name: a_b}]", []string{`variants[0].name is "a_b"`}},
		{"variants: [{name: a.b}]", []string{`variants[0].name is "a.b"`}},
		{"variants: [{name: x}, {name: y}]", []string{"variants[1].name is true: YAML takes a bare y for true", "in quotes"}},
		{"variants: [{name: -a}]", []string{`variants[0].name is "-a"`}},
		{"variants: [{name: a}, {name: b}, {name: a}]", []string{"two entries named a"}},
		{"runnerScaleSetName: " + strings.Repeat("a", 44) + "\nvariants: [{name: b}]", []string{"variants[b]", strings.Repeat("a", 44) + "-b", "46 characters of the 45"}},
		{"variants: [{name: a, maxRuners: 1}]", []string{"maxRuners"}},
		{"minRunners: 5\nvariants: [{name: a, maxRunners: 2}]", []string{"variants[a]: maxRunners has to be greater or equal to minRunners"}},
		{"variants: [{name: a, minRunners: -1}]", []string{"variants[a]: minRunners has to be greater or equal to 0"}},
		{"variants: [{name: a, maxRunners: 9999999999}]", []string{"variants[a]: maxRunners has to be 2147483647 at most"}},
		{"variants: [{name: a, template: {spec: {containers: [{name: x, image: i}, {name: x, image: j}]}}}]", []string{"variants[a].template.spec.containers has two entries named x"}},
		{"template: {spec: {containers: [{name: x, env: [{name: V}]}]}}\nvariants: [{name: a, template: {spec: {containers: [{name: x, env: [{name: V}, {name: V}]}]}}}]", []string{"variants[a].template.spec.containers[x].env has two entries named V"}},
		{"variants: [{name: a, scaleSetLabels: ['']}]", []string{"scaleSetLabels contains an empty string"}},
		// Order, case and repetitions don't matter.
		{"scaleSetLabels: [linux, x64]\nvariants: [{name: a, scaleSetLabels: [X64, Linux, linux]}]", []string{"scale set test-runners", "scale set test-runners-a", "[linux, x64]"}},
		{"variants: [{name: a, scaleSetLabels: [gpu]}, {name: b, scaleSetLabels: [GPU]}]", []string{"scale set test-runners-a", "scale set test-runners-b"}},
		{"variants: [{name: a, scaleSetLabels: [gpu]}, {name: b, scaleSetLabels: ['gpu ']}]", []string{"scale set test-runners-a", "scale set test-runners-b"}},
		// A job for all labels of the one fits the other, too.
		{"scaleSetLabels: [linux]\nvariants: [{name: a, scaleSetLabels: [gpu, linux]}]", []string{"scale set test-runners-a has all the scaleSetLabels of scale set test-runners", "runs-on: [linux]"}},
		{"variants: [{name: a, scaleSetLabels: [7, gpu]}, {name: b, scaleSetLabels: ['7']}]", []string{"test-runners-a has all the scaleSetLabels of scale set test-runners-b"}},
		// A name is a label.
		{"runnerScaleSetName: ci\nvariants: [{name: a, scaleSetLabels: [CI, x]}]", []string{"scale set ci-a has the name of scale set ci among its scaleSetLabels"}},
		{"runnerScaleSetName: ci\nvariants: [{name: a}, {name: b, scaleSetLabels: [ci-a, y]}]", []string{"scale set ci-b has the name of scale set ci-a"}},
		{"runnerScaleSetName: ci\nscaleSetLabels: [ci-a]\nvariants: [{name: a, scaleSetLabels: [x]}]", []string{"scale set ci-a has all the scaleSetLabels of scale set ci"}},
	} {
		said := refusal(t, scaleSet, minimal, test.values)
		for _, part := range test.want {
			checkContains(t, said, part)
		}
	}
	// Sets that GitHub can tell apart.
	for _, values := range []string{
		"variants: [{name: a}, {name: b}]",
		"scaleSetLabels: [linux, small]\nvariants: [{name: a, scaleSetLabels: [linux, large]}, {name: b}, {name: 8, scaleSetLabels: [gpu]}]",
		"scaleSetLabels: [test-runners]\nvariants: [{name: a, scaleSetLabels: [test-runners-a, x]}]",
		"runnerScaleSetName: " + strings.Repeat("a", 43) + "\nvariants: [{name: b}]",
	} {
		renderSet(t, scaleSet, values)
	}
}

// Both Helms install a release, add variants to it, and take one away: the first set stays the same object, with the
// same UID and generation.
func TestVariantsComeAndGo(t *testing.T) {
	t.Parallel()
	forHelms(t, func(t *testing.T, helm installer) {
		applyCRDs(t, helm.cluster)
		namespace := helm.cluster.NewNamespace(t)
		release := []string{"set", scaleSet.directory(), "--namespace", namespace, "--set",
			"githubConfigUrl=https://github.com/actions,githubConfigSecret.github_token=t",
			"--set", "controllerServiceAccount.name=arc,controllerServiceAccount.namespace=arc-system"}
		helm.succeed(t, append([]string{"install"}, release...)...)
		before := setsIn(t, helm, namespace)["set"]
		notes := helm.succeed(t, append([]string{"upgrade"},
			append(release, "--set", "variants[0].name=a,variants[1].name=b,prepull.enabled=true")...)...)
		checkContains(t, notes, "runs-on: set-b")
		sets := setsIn(t, helm, namespace)
		check(t, "sets", sortedKeys(sets), []string{"set", "set-a", "set-b"})
		check(t, "UID and generation", fmt.Sprint(sets["set"].UID, sets["set"].Generation),
			fmt.Sprint(before.UID, before.Generation))
		var bindings rbacv1.RoleBindingList
		if err := helm.cluster.Client().List(t.Context(), &bindings, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		check(t, "bindings", len(bindings.Items), 6)
		helm.succeed(t, append([]string{"upgrade"}, append(release, "--set", "variants[0].name=b")...)...)
		check(t, "sets", sortedKeys(setsIn(t, helm, namespace)), []string{"set", "set-b"})
		helm.succeed(t, "uninstall", "set", "--namespace", namespace)
		checkGone(t, helm.cluster, namespace)
	})
}

func setsIn(t *testing.T, helm installer, namespace string) map[string]v1alpha1.AutoscalingRunnerSet {
	t.Helper()
	var list v1alpha1.AutoscalingRunnerSetList
	if err := helm.cluster.Client().List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	sets := map[string]v1alpha1.AutoscalingRunnerSet{}
	for _, set := range list.Items {
		sets[set.Name] = set
	}
	return sets
}

// The API server takes every object of variants, also under the longest name.
func TestVariantsAreAdmitted(t *testing.T) {
	t.Parallel()
	cluster := testkube.Shared(t)
	namespace := cluster.NewNamespace(t)
	for _, values := range []string{mode("none"), mode("dind"), hookTemplate} {
		rendered := render(t, scaleSet.as(strings.Repeat("a", 40), namespace), minimal, values,
			"prepull: {enabled: true}\nvariants: [{name: bbbb, scaleSetLabels: [x]}, {name: c, template: {spec: "+
				"{nodeSelector: {a: b}}}}]")
		admitAll(t, cluster, namespace, rendered)
		checkLengths(t, rendered)
	}
}

// manager validate names the place in a variant, or the common one.
func TestValidateLocatesWhatIsWrongWithAVariant(t *testing.T) {
	t.Parallel()
	const place = "template: {spec: {containers: [{name: runner, resources: {limits: {cpu: %s}}}]}}"
	common, wrong := fmt.Sprintf(place, "1"), fmt.Sprintf(place, "lots")
	for values, want := range map[string]string{
		common + "\nvariants: [{name: x-a}, {name: a, " + wrong + "}]": "variants[1].template.spec.containers[0].resources.limits",
		wrong + "\nvariants: [{name: a}]":                              "template.spec.containers[0].resources.limits",
	} {
		var said []string
		for _, problem := range validated(t, scaleSet, []string{minimal, values}) {
			said = append(said, problem.Message)
		}
		if len(said) == 0 || !strings.HasPrefix(said[0], want) {
			t.Errorf("validate says %q of\n%s\nwant it to begin with %s", said, values, want)
		}
	}
}
