package charts

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
)

// newer has values that the release before didn't have: a field of each sort, and every new object.
const newer = `
githubConfigSecret: {github_token: t}
minRunners: 2
pendingTimeout: 5m
failedHistoryLimit: 1
protectRunners: All
jobProtection: 1h
schedules: [{name: office, schedule: "0 7 * * 1-5", duration: 11h, timeZone: Europe/Berlin, minRunners: 20, maxRunners: 200}]
prepull: {enabled: true, images: [job:1]}
scaleSetLabels: [small]
variants: [{name: big, scaleSetLabels: [big], maxRunners: 3}]
`

// Scale sets go back before the controller, and forward after it. Objects of only the new release go and come. The
// scale set stays the same object, with all fields of its revision.
func TestRollback(t *testing.T) {
	t.Parallel()
	forHelms(t, func(t *testing.T, helm installer) {
		r := upgraded(t, helm)
		set := r.set(t).GetUID()
		for range 2 {
			r.back(t, "set", "1")
			check(t, "objects of the release before", r.objects(t), r.before)
			r.back(t, "arc", "1")
			r.awaitFields(t, false)
			check(t, "objects with the CRDs before", r.objects(t), r.before)
			check(t, "the scale set after the way back", r.set(t).GetUID(), set)
			r.back(t, "arc", "2")
			r.awaitFields(t, true)
			r.back(t, "set", "2")
			check(t, "objects of the new release again", r.objects(t), r.after)
			check(t, "the scale set after the way forward", r.set(t).GetUID(), set)
		}
		helm.succeed(t, "upgrade", "set", scaleSet.directory(), "--namespace", r.runners, "--reset-then-reuse-values")
		check(t, "objects after one more upgrade", r.objects(t), r.after)
	})
}

// The CRDs go back while scale sets have new fields. These are not served, and lost when anybody writes the object, for
// example its status. The steps in docs/upgrade.md bring them back.
func TestRollbackOfTheCRDsAlone(t *testing.T) {
	t.Parallel()
	forHelms(t, func(t *testing.T, helm installer) {
		r := upgraded(t, helm)
		before := r.set(t)
		r.back(t, "arc", "1")
		r.awaitFields(t, false)
		check(t, "what the older release knows", r.objects(t)["AutoscalingRunnerSet/set"], map[string]any{
			"githubConfigUrl": "https://github.com/actions", "githubConfigSecret": "set-gha-rs-github-secret", "minRunners": int64(2),
			"runnerScaleSetLabels": []any{"small"}, "template": r.before["AutoscalingRunnerSet/set"].(map[string]any)["template"],
		})
		for _, name := range []string{"set", "set-big"} {
			written := before.DeepCopy()
			written.SetName(name)
			status := client.RawPatch(types.MergePatchType,
				[]byte(`{"status":{"currentRunners":1,"pendingEphemeralRunners":0,"runningEphemeralRunners":1,"failedEphemeralRunners":0}}`))
			if err := helm.cluster.Client().Status().Patch(t.Context(), written, status); err != nil {
				t.Fatal(err)
			}
		}
		r.back(t, "arc", "2")
		r.awaitFields(t, true)
		check(t, "new field after a write", r.set(t).Object["spec"].(map[string]any)[newField], nil)
		helm.succeed(t, "upgrade", "set", scaleSet.directory(), "--namespace", r.runners, "--reset-then-reuse-values")
		_, restored := r.set(t).Object["spec"].(map[string]any)[newField]
		check(t, "new field after an upgrade with the same values, by Helm "+helm.version, restored,
			helm.version == "4")
		r.applyManifest(t)
		check(t, "objects after the manifest was applied", r.objects(t), r.after)
		check(t, "scale set", r.set(t).GetUID(), before.GetUID())
	})
}

// applyManifest follows docs/upgrade.md.
func (r *releases) applyManifest(t *testing.T) {
	t.Helper()
	manifest := filepath.Join(t.TempDir(), "manifest.yaml")
	write(t, manifest, r.succeed(t, "get", "manifest", "set", "--namespace", r.runners), 0o600)
	programs, err := testkube.Programs()
	if err != nil {
		t.Fatal(err)
	}
	_, stderr, err := run(t, filepath.Join(programs, "kubectl"), "apply", "--server-side", "--force-conflicts",
		"--filename", manifest, "--kubeconfig", r.cluster.AdminKubeconfig())
	if err != nil {
		t.Fatal(stderr)
	}
}

// set returns the scale set, with all fields that the API server serves.
func (r *releases) set(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	set := &unstructured.Unstructured{}
	set.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AutoscalingRunnerSet"))
	key := types.NamespacedName{Namespace: r.runners, Name: "set"}
	if err := r.cluster.Client().Get(t.Context(), key, set); err != nil {
		t.Fatal(err)
	}
	return set
}

// releases are the controller's and a scale set's. Revision 1 of each is a release before ours, revision 2 is ours.
type releases struct {
	installer

	system, runners string
	before, after   map[string]any // objects of revision 1 and 2
}

func upgraded(t *testing.T, helm installer) *releases {
	t.Helper()
	r := &releases{installer: helm, system: helm.cluster.NewNamespace(t), runners: helm.cluster.NewNamespace(t)}
	values := filepath.Join(t.TempDir(), "values.yaml")
	write(t, values, newer, 0o600)
	set := []string{"--namespace", r.runners, "--set", "githubConfigUrl=https://github.com/actions"}
	helm.succeed(t, "install", "arc", earlierChart(t), "--namespace", r.system)
	awaitKind(t, helm.cluster)
	helm.succeed(t, append([]string{"install", "set", earlierSetChart(t), "--set",
		"githubConfigSecret.github_token=t,protectRunners=None"}, set...)...)
	r.before = r.objects(t)
	helm.succeed(t, "upgrade", "arc", controller.directory(), "--namespace", r.system)
	r.awaitFields(t, true)
	helm.succeed(t, append([]string{"upgrade", "set", scaleSet.directory(), "--values", values}, set...)...)
	r.after = r.objects(t)
	return r
}

// earlierSetChart returns the directory of our scale sets' chart as it was when the AutoscalingRunnerSet had no fields
// but ARC's.
func earlierSetChart(t *testing.T) string {
	t.Helper()
	directory := filepath.Join(t.TempDir(), scaleSet.name)
	if err := os.CopyFS(directory, os.DirFS(scaleSet.directory())); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(directory, "templates", "autoscalingrunnerset.yaml")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	field := regexp.MustCompile(`(?m)^  (protectRunners|githubConfigSecretRevision): .*$`)
	check(t, "fields in the chart", len(field.FindAll(content, -1)), 2)
	write(t, file, field.ReplaceAllString(string(content), ""), 0o600)
	return directory
}

// back rolls a release back to a revision.
func (r *releases) back(t *testing.T, release, revision string) {
	t.Helper()
	namespace := map[string]string{"arc": r.system, "set": r.runners}[release]
	r.succeed(t, "rollback", release, revision, "--namespace", namespace)
}

// awaitFields waits until the API server serves the new fields, or no longer serves them: a moment after it has taken
// the CRDs.
func (r *releases) awaitFields(t *testing.T, served bool) {
	t.Helper()
	check(t, "the CRD has the new fields", hasNewField(t, r.cluster), served)
	probe := &unstructured.Unstructured{}
	probe.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AutoscalingRunnerSet"))
	gomega.NewWithT(t).Eventually(func() (bool, error) {
		probe.SetName("probe")
		probe.SetNamespace(r.system)
		probe.Object["spec"] = map[string]any{newField: int64(1)}
		err := r.cluster.Client().Create(t.Context(), probe, client.DryRunAll)
		_, kept, _ := unstructured.NestedInt64(probe.Object, "spec", newField)
		return kept, err
	}, time.Minute, 100*time.Millisecond).Should(gomega.Equal(served))
}

// objects returns the specs of the scale set and of those objects of its release that a release before ours didn't
// make.
func (r *releases) objects(t *testing.T) map[string]any {
	t.Helper()
	specs := map[string]any{}
	for _, kind := range []schema.GroupVersionKind{
		v1alpha1.GroupVersion.WithKind("AutoscalingRunnerSet"), policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
		appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := r.cluster.Client().List(t.Context(), list, client.InNamespace(r.runners)); err != nil {
			t.Fatal(err)
		}
		for _, object := range list.Items {
			specs[kind.Kind+"/"+object.GetName()] = object.Object["spec"]
		}
	}
	return specs
}
