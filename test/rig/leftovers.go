package rig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/hack/installation"
)

// setKinds are the kinds that a scale set and its runners consist of.
var setKinds = append([]schema.GroupVersionKind{
	v1alpha1.GroupVersion.WithKind("AutoscalingRunnerSet"), v1alpha1.GroupVersion.WithKind("AutoscalingListener"),
	v1alpha1.GroupVersion.WithKind("EphemeralRunnerSet"), corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), coordinationv1.SchemeGroupVersion.WithKind("Lease"),
	rbacv1.SchemeGroupVersion.WithKind("Role"), rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
}, installation.RunnerKinds...)

// Leftovers lists what should not exist after all jobs are done: jobs, runners beyond the idle ones (their objects,
// pods, Secrets and registrations), and anomalies. The objects of runners with a lost job are evidence, but nothing
// else of them may be left.
func (r *Rig) Leftovers(ctx context.Context) ([]string, error) {
	var left []string
	lost, err := r.LostJobs(ctx)
	if err != nil {
		return nil, err
	}
	for _, kind := range installation.RunnerKinds {
		objects, err := installation.List(ctx, r.Cluster.Client(), kind, client.InNamespace(r.RunnerNamespace))
		if err != nil {
			return nil, err
		}
		objects = slices.DeleteFunc(objects, func(object metav1.PartialObjectMetadata) bool {
			return !ofRunner(&object) ||
				(kind.Kind == "EphemeralRunner" && object.DeletionTimestamp == nil && lost[object.Name] != "")
		})
		if len(objects) != r.idle() {
			left = append(left, fmt.Sprintf("%d of kind %s: %s", len(objects), kind.Kind, describe(objects)))
		}
	}
	return append(left, r.leftOnGitHub()...), nil
}

// LostJobs returns the runners whose status says that their job was lost, with the cause.
func (r *Rig) LostJobs(ctx context.Context) (map[string]v1alpha1.LostCause, error) {
	var runners v1alpha1.EphemeralRunnerList
	if err := r.Cluster.Client().List(ctx, &runners, client.InNamespace(r.RunnerNamespace)); err != nil {
		return nil, fmt.Errorf("list EphemeralRunners of %s: %w", r.RunnerNamespace, err)
	}
	lost := map[string]v1alpha1.LostCause{}
	for i := range runners.Items {
		if cause := runners.Items[i].Status.LostCause; cause != "" {
			lost[runners.Items[i].Name] = cause
		}
	}
	return lost, nil
}

func (r *Rig) leftOnGitHub() []string {
	var left []string
	snapshot := r.GitHub.Snapshot()
	if len(snapshot.Runners) != r.idle() {
		left = append(left, fmt.Sprintf("%d runners on GitHub: %v", len(snapshot.Runners), snapshot.Runners))
	}
	for state, count := range snapshot.JobsByState {
		if state != "completed" {
			left = append(left, fmt.Sprintf("%d jobs %s", count, state))
		}
	}
	return append(left, r.Anomalies()...)
}

// Anomalies lists what GitHub has seen that no correct controller causes.
func (r *Rig) Anomalies() []string {
	var found []string
	for _, anomaly := range r.GitHub.Anomalies() {
		found = append(found, anomaly.String())
	}
	return found
}

// AwaitQuiet waits until nothing is left over.
func (r *Rig) AwaitQuiet() {
	r.t.Helper()
	gomega.NewWithT(r.t).Eventually(r.Leftovers, Patience, interval).WithArguments(context.Background()).
		Should(gomega.BeEmpty(), "left over once all jobs are done")
}

// UninstallLeftovers lists what is left of uninstalled scale sets, in the cluster and on GitHub.
func (r *Rig) UninstallLeftovers(ctx context.Context) ([]string, error) {
	var left []string
	for _, namespace := range []string{r.SystemNamespace, r.RunnerNamespace} {
		for _, kind := range setKinds {
			objects, err := installation.List(ctx, r.Cluster.Client(), kind, client.InNamespace(namespace))
			if err != nil {
				return nil, err
			}
			if objects = slices.DeleteFunc(objects, r.installed); len(objects) > 0 {
				left = append(left, fmt.Sprintf("%d of kind %s: %s", len(objects), kind.Kind, describe(objects)))
			}
		}
	}
	snapshot := r.GitHub.Snapshot()
	for _, set := range snapshot.ScaleSets {
		if _, installed := r.sets[set.Name]; !installed {
			left = append(left, "scale set "+set.Name+" on GitHub")
		}
	}
	if len(r.sets) == 0 && len(snapshot.Sessions)+len(snapshot.Runners) > 0 {
		left = append(left, fmt.Sprintf("on GitHub: sessions %v, runners %v", snapshot.Sessions, snapshot.Runners))
	}
	return left, nil
}

// installed reports whether the object belongs to the controller's chart, a scale set that is installed, Helm, or
// Kubernetes.
func (r *Rig) installed(object metav1.PartialObjectMetadata) bool {
	set, ours := object.Labels[v1alpha1.LabelScaleSetName]
	_, installed := r.sets[set]
	return !ours || installed
}

// AwaitUninstalled waits until nothing is left of uninstalled scale sets.
func (r *Rig) AwaitUninstalled() {
	r.t.Helper()
	const interval = 250 * time.Millisecond // a look is 20 requests and more
	gomega.NewWithT(r.t).Eventually(r.UninstallLeftovers, Patience, interval).WithArguments(context.Background()).
		Should(gomega.BeEmpty(), "left after helm uninstall")
}

func ofRunner(object metav1.Object) bool {
	owner := metav1.GetControllerOf(object)
	return owner != nil && (owner.Kind == "EphemeralRunner" || owner.Kind == "EphemeralRunnerSet")
}

// describe names the first few objects.
func describe(objects []metav1.PartialObjectMetadata) string {
	return installation.Shorten(installation.Describe(objects...), 5)
}

// MadeFor lists what the manager has created for a scale set, in the cluster and on GitHub, but not what its chart
// created.
func (r *Rig) MadeFor(ctx context.Context, set string) ([]string, error) {
	var made []string
	for _, namespace := range []string{r.SystemNamespace, r.RunnerNamespace} {
		for _, kind := range setKinds {
			objects, err := installation.List(ctx, r.Cluster.Client(), kind, client.InNamespace(namespace))
			if err != nil {
				return nil, err
			}
			objects = slices.DeleteFunc(objects, func(object metav1.PartialObjectMetadata) bool {
				return object.Labels[v1alpha1.LabelScaleSetName] != set ||
					object.Annotations["meta.helm.sh/release-name"] != ""
			})
			if len(objects) > 0 {
				made = append(made, fmt.Sprintf("%d of kind %s: %s", len(objects), kind.Kind, describe(objects)))
			}
		}
	}
	for _, known := range r.GitHub.Snapshot().ScaleSets {
		if known.Name == set {
			made = append(made, "the scale set on GitHub")
		}
	}
	return made, nil
}

// clearAfterFailure takes away what a failed test has left of its scale sets. Their manager is gone, so nobody removes
// their finalizers. The managers of later tests would try to, and their Events are refused in a namespace that is being
// deleted.
func (r *Rig) clearAfterFailure() {
	if !r.t.Failed() {
		return
	}
	ctx, c := context.Background(), r.Cluster.Client()
	withoutFinalizers := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	for _, namespace := range []string{r.SystemNamespace, r.RunnerNamespace} {
		for _, kind := range setKinds {
			objects, err := installation.List(ctx, c, kind, client.InNamespace(namespace))
			if err != nil {
				r.t.Logf("list what the failed test has left: %v", err)
			}
			for i := range objects {
				objects[i].SetGroupVersionKind(kind)
				err := errors.Join(c.Patch(ctx, &objects[i], withoutFinalizers), c.Delete(ctx, &objects[i]))
				if client.IgnoreNotFound(err) != nil {
					r.t.Logf("take away what the failed test has left: %v", err)
				}
			}
		}
	}
}
