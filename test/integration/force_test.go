package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// Somebody deletes the manager's objects for a scale set while jobs run, and takes their finalizers away, so that
// nobody can clean up before they go. They are made again, the jobs end, and nothing stays.
func TestObjectsTakenByForce(t *testing.T) {
	r := rig.Start(t, testkube.Borrow(t), rig.Options{MinRunners: 1, MaxRunners: 5})
	awaitIdle(t, r, 1)
	ids := r.QueueJobs(12, 3*time.Second, 6*time.Second)
	r.AwaitCompleted(ids, 1)
	force(t, r, &v1alpha1.EphemeralRunnerSetList{}, r.RunnerNamespace)
	force(t, r, &v1alpha1.AutoscalingListenerList{}, r.SystemNamespace)
	r.WaitDone(ids)
	r.AwaitQuiet()
	awaitTrue(t, r, rig.DefaultSet, v1alpha1.ConditionReady)
}

// force deletes all objects of a kind and takes their finalizers away, including those that the manager adds meanwhile.
func force(t *testing.T, r *rig.Rig, kind client.ObjectList, namespace string) {
	t.Helper()
	c := r.Cluster.Client()
	if err := c.List(t.Context(), kind, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	objects, err := meta.ExtractList(kind)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range objects {
		object := one.(client.Object)
		if err := c.Delete(t.Context(), object); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		// The UID keeps the patch from the object's successor.
		patch := fmt.Sprintf(`{"metadata": {"uid": %q, "finalizers": null}}`, object.GetUID())
		gomega.NewWithT(t).Eventually(func() bool {
			_ = c.Patch(t.Context(), object.DeepCopyObject().(client.Object),
				client.RawPatch(types.MergePatchType, []byte(patch)))
			now := object.DeepCopyObject().(client.Object)
			err := c.Get(t.Context(), client.ObjectKeyFromObject(object), now)
			return apierrors.IsNotFound(err) || (err == nil && now.GetUID() != object.GetUID())
		}, rig.Patience).Should(gomega.BeTrue(), "%T %s is still there", object, object.GetName())
	}
}
