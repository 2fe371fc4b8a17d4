package testkube_test

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/testkube"
)

func entry(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
}

// A client that lives on must see that objects are gone and others are back, which it does only if revisions have
// grown.
func TestARestoreTakesAllObjectsBack(t *testing.T) {
	cluster := testkube.Start(t, testkube.Options{CRDs: []string{}})
	api := cluster.Client()
	clientset, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	watch := informers.NewSharedInformerFactory(clientset, 0)
	known := watch.Core().V1().ConfigMaps().Informer()
	watch.Start(t.Context().Done())
	if !cache.WaitForCacheSync(t.Context().Done(), known.HasSynced) {
		t.Fatal("no ConfigMaps were listed")
	}
	before := entry("before")
	if err := api.Create(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(t.TempDir(), "backup")
	if err := cluster.SaveEtcd(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	if err := api.Delete(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	after := entry("after")
	if err := api.Create(t.Context(), after); err != nil {
		t.Fatal(err)
	}
	if err := cluster.RestoreEtcd(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(after), entry("")); !apierrors.IsNotFound(err) {
		t.Errorf("what was created after the backup: got %v, want NotFound", err)
	}
	restored := entry("")
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(before), restored); err != nil {
		t.Fatalf("what was deleted after the backup: %v", err)
	}
	if restored.UID != before.UID {
		t.Errorf("it has the UID %s, had %s", restored.UID, before.UID)
	}
	NewWithT(t).Eventually(known.GetStore().ListKeys, time.Minute, 100*time.Millisecond).Should(And(
		ContainElement("default/before"), Not(ContainElement("default/after"))), "what an informer sees")
	next := entry("next")
	if err := api.Create(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	was, _ := strconv.ParseInt(after.ResourceVersion, 10, 64)
	is, _ := strconv.ParseInt(next.ResourceVersion, 10, 64)
	if is <= was {
		t.Errorf("revision %d after the restore, %d before", is, was)
	}
}
