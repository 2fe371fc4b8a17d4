package integration

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/arc"
	"github.com/harrier-ci/harrier/test/rig"
)

// We serve a scale set of ARC 0.14.2 under its id. Its runner finishes its job, our listener replaces ARC's and takes
// the next jobs, and after the uninstall ARC's finalizers keep nothing.
func TestTakesOverFromARC(t *testing.T) {
	g := gomega.NewWithT(t)
	r, set := servedByARC(t)
	ids := r.QueueJobsFor(arc.Name, 1, rig.Held)
	g.Eventually(func() int { _, busy := online(r); return busy }, rig.Patience).Should(gomega.Equal(1))
	former := listenerPods(t, r, arc.Name)
	older := drainingRunnerSet(t, r)

	r.StartManager()
	g.Eventually(func() bool {
		pods := listenerPods(t, r, arc.Name)
		return len(pods) == 1 && pods[0].UID != former[0].UID
	}, rig.Patience).Should(gomega.BeTrue(), "there is not one listener of ours")
	g.Eventually(func() bool {
		return apierrors.IsNotFound(r.Cluster.Client().Get(t.Context(), older, &v1alpha1.EphemeralRunnerSet{}))
	}, rig.Patience).Should(gomega.BeTrue(), "the runner set that ARC had replaced is left")
	g.Eventually(inherited, rig.Patience).WithArguments(t, r).
		Should(gomega.BeEmpty(), "labels of the release on what has none of its own")
	r.EndJobs(append(ids, r.QueueJobsFor(arc.Name, 2, 0)...))
	checkRanOnARCs(t, r, ids[0])
	if sets := r.GitHub.Snapshot().ScaleSets; len(sets) != 1 || sets[0].ID != set.ScaleSet {
		t.Errorf("on GitHub there are %+v, and not scale set %d alone", sets, set.ScaleSet)
	}

	uninstallARCs(t, r)
	g.Eventually(r.MadeFor, rig.Patience).WithArguments(t.Context(), arc.Name).Should(gomega.BeEmpty())
	if anomalies := r.Anomalies(); len(anomalies) > 0 {
		t.Error(anomalies)
	}
}

// ARC 0.15 upgrades its one runner set in place. We go on with that, under its name, and what only ARC writes to it
// neither hinders us nor keeps it when it is deleted.
func TestTakesOverFromARCThatUpgradesInPlace(t *testing.T) {
	g := gomega.NewWithT(t)
	r, set := servedByARC(t, arc.InPlace()...)
	ids := r.QueueJobsFor(arc.Name, 1, rig.Held)
	g.Eventually(func() int { _, busy := online(r); return busy }, rig.Patience).Should(gomega.Equal(1))
	former, theirs := listenerPods(t, r, arc.Name), runnerSets(t, r)
	if len(theirs) != 1 || theirs[0].Name != arc.Name {
		t.Fatalf("ARC left %+v", theirs)
	}

	r.StartManager()
	g.Eventually(func() bool {
		pods := listenerPods(t, r, arc.Name)
		return len(pods) == 1 && pods[0].UID != former[0].UID
	}, rig.Patience).Should(gomega.BeTrue(), "there is not one listener of ours")
	r.EndJobs(append(ids, r.QueueJobsFor(arc.Name, 2, 0)...))
	checkRanOnARCs(t, r, ids[0])
	if sets := r.GitHub.Snapshot().ScaleSets; len(sets) != 1 || sets[0].ID != set.ScaleSet {
		t.Errorf("on GitHub there are %+v, and not scale set %d alone", sets, set.ScaleSet)
	}
	if ours := runnerSets(t, r); len(ours) != 1 || ours[0].UID != theirs[0].UID ||
		!slices.Equal(ours[0].Finalizers, []string{v1alpha1.FinalizerEphemeralRunnerSet}) {
		t.Errorf("the runner set is not gone on with: %+v", ours)
	}

	uninstallARCs(t, r)
	g.Eventually(r.MadeFor, rig.Patience).WithArguments(t.Context(), arc.Name).Should(gomega.BeEmpty())
	if anomalies := r.Anomalies(); len(anomalies) > 0 {
		t.Error(anomalies)
	}
}

func runnerSets(t *testing.T, r *rig.Rig) []v1alpha1.EphemeralRunnerSet {
	t.Helper()
	var list v1alpha1.EphemeralRunnerSetList
	if err := r.Cluster.Client().List(t.Context(), &list, client.InNamespace(r.RunnerNamespace)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// servedByARC returns an installation of ours with a stopped manager, and a scale set of ARC's with its listener and an
// idle runner.
func servedByARC(t *testing.T, replacements ...string) (*rig.Rig, *arc.Set) {
	t.Helper()
	r := rig.Start(t, testkube.Borrow(t), rig.Options{})
	r.UninstallSet(rig.DefaultSet)
	r.AwaitUninstalled()
	r.StopManager()
	set, err := arc.Register(t.Context(), arc.Place{
		System: r.SystemNamespace, Runners: r.RunnerNamespace, Account: rig.ControllerAccount, URL: r.GitHubURL + "/org",
		Token: rig.PAT,
	})
	if err == nil {
		err = set.CreateObjects(func(object *unstructured.Unstructured) error { return createARC(t, r, object) },
			replacements...)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.AwaitListening(arc.Name)
	return r, set
}

// drainingRunnerSet makes another runner set of ARC's. ARC had replaced it by the one in use, and not ended its
// deletion.
func drainingRunnerSet(t *testing.T, r *rig.Rig) client.ObjectKey {
	t.Helper()
	older := &v1alpha1.EphemeralRunnerSet{}
	present := client.ObjectKey{Namespace: r.RunnerNamespace, Name: arc.Name + "-k7x2m"}
	if err := r.Cluster.Client().Get(t.Context(), present, older); err != nil {
		t.Fatal(err)
	}
	older.Name, older.ResourceVersion, older.UID = arc.Name+"-b4d9f", "", ""
	if err := errors.Join(r.Cluster.Client().Create(t.Context(), older, client.FieldOwner("arc")),
		r.Cluster.Client().Delete(t.Context(), older)); err != nil {
		t.Fatal(err)
	}
	return client.ObjectKeyFromObject(older)
}

// inherited returns the labels of Helm and Argo CD that are still on ARC's objects in the manager's namespace. ARC
// copied all that it found.
func inherited(t *testing.T, r *rig.Rig) (left []string) {
	t.Helper()
	for _, list := range []client.ObjectList{&v1alpha1.AutoscalingListenerList{}, &corev1.ServiceAccountList{},
		&corev1.PodList{}, &corev1.SecretList{}} {
		if err := r.Cluster.Client().List(t.Context(), list, client.InNamespace(r.SystemNamespace),
			client.MatchingLabels{v1alpha1.LabelScaleSetName: arc.Name}); err != nil {
			t.Fatal(err)
		}
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			object := item.(client.Object)
			for _, label := range []string{"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart"} {
				if _, has := object.GetLabels()[label]; has {
					left = append(left, fmt.Sprintf("%T %s: %s", object, object.GetName(), label))
				}
			}
			return nil
		})
	}
	return left
}

// createARC creates an object with its status.
func createARC(t *testing.T, r *rig.Rig, object *unstructured.Unstructured) error {
	t.Helper()
	status, reported := object.Object["status"]
	if err := r.Cluster.Client().Create(t.Context(), object, client.FieldOwner("arc")); err != nil || !reported {
		return err
	}
	object.Object["status"] = status
	return r.Cluster.Client().Status().Update(t.Context(), object, client.FieldOwner("arc"))
}

// checkRanOnARCs fails the test unless the job ran on ARC's runner. A job that lost its runner has not succeeded.
func checkRanOnARCs(t *testing.T, r *rig.Rig, id int64) {
	t.Helper()
	for _, job := range r.GitHub.Jobs("") {
		if job.RequestID == id && job.Runner != arc.Runner {
			t.Errorf("job %d ran on %s, want %s", id, job.Runner, arc.Runner)
		}
	}
}

func listenerPods(t *testing.T, r *rig.Rig, set string) []corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	err := r.Cluster.Client().List(t.Context(), &pods, client.InNamespace(r.SystemNamespace), client.MatchingLabels{
		v1alpha1.LabelComponent: v1alpha1.ComponentListener, v1alpha1.LabelScaleSetName: set,
	})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// uninstallARCs deletes the objects of ARC's chart, in the order of helm uninstall.
func uninstallARCs(t *testing.T, r *rig.Rig) {
	t.Helper()
	for _, object := range []struct {
		kind client.Object
		name string
	}{
		{&rbacv1.RoleBinding{}, "arc-gha-rs-manager"}, {&rbacv1.Role{}, "arc-gha-rs-manager"}, {&corev1.Secret{}, "arc-gha-rs-github-secret"},
		{&corev1.ServiceAccount{}, "arc-gha-rs-no-permission"}, {&v1alpha1.AutoscalingRunnerSet{}, arc.Name},
	} {
		object.kind.SetNamespace(r.RunnerNamespace)
		object.kind.SetName(object.name)
		if err := r.Cluster.Client().Delete(t.Context(), object.kind); err != nil {
			t.Fatal(err)
		}
	}
}
