package listener_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/listener/cluster"
	"github.com/harrier-ci/harrier/internal/testkube"
)

// The patches pass the schemas of a real API server, with only the rights of a listener's Role.
func TestOnARealAPIServer(t *testing.T) {
	kube := testkube.Start(t, testkube.Options{AddToScheme: []func(*runtime.Scheme) error{v1alpha1.AddToScheme}})
	namespace := kube.NewNamespace(t)
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "set"}
	set := &v1alpha1.EphemeralRunnerSet{ObjectMeta: meta}
	set.Spec.PatchID = 4
	runner := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "runner-a"}}
	for _, object := range append(rights(meta), set, runner) {
		check(t, kube.Client().Create(t.Context(), object))
	}
	awaitRights(t, kube.Client(), namespace)
	kubernetes, err := cluster.New(kube.ConfigFor(t, testkube.User("listener")), namespace, "set")
	check(t, err)

	read, err := kubernetes.RunnerSet(t.Context())
	check(t, err)
	if read.PatchID != 4 {
		t.Errorf("read %+v", read)
	}
	want := cluster.Publication{Desired: cluster.Desired{Replicas: 0, PatchID: 5, AssignedJobs: 0}, SessionID: "abc"}
	answer, err := kubernetes.Publish(t.Context(), want)
	check(t, err)
	if diff := cmp.Diff(want, answer.Publication); diff != "" {
		t.Errorf("published (-want +got):\n%s", diff)
	}

	since := metav1.NewTime(time.Now().Truncate(time.Second))
	for _, message := range []string{"GitHub is away", ""} {
		status := v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateRetrying, Message: message, Since: &since}
		check(t, kubernetes.WriteStatus(t.Context(), status))
		check(t, kube.Client().Get(t.Context(), client.ObjectKeyFromObject(set), set))
		if diff := cmp.Diff(&status, set.Status.Listener); diff != "" {
			t.Errorf("status.listener (-want +got):\n%s", diff)
		}
	}

	job := v1alpha1.EphemeralRunnerStatus{
		JobID:         "7",
		JobResult:     "succeeded",
		JobPatchID:    5,
		FinishedAt:    &since,
		WorkflowRunID: 100000000000,
	}
	reported := job
	reported.ObservedGeneration = runner.Status.ObservedGeneration // the manager's, unchanged
	check(t, kubernetes.ReportJob(t.Context(), "runner-a", job))
	check(t, kube.Client().Get(t.Context(), client.ObjectKeyFromObject(runner), runner))
	if diff := cmp.Diff(reported, runner.Status); diff != "" {
		t.Errorf("status of the runner (-want +got):\n%s", diff)
	}
	if err := kubernetes.ReportJob(t.Context(), "absent", job); !apierrors.IsNotFound(err) {
		t.Errorf("report to a runner that is not there: %v", err)
	}
}

// rights returns the Role of a listener and its RoleBinding.
func rights(meta metav1.ObjectMeta) []client.Object {
	meta.Name = "listener"
	rule := func(verb, resource string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{
			APIGroups:     []string{v1alpha1.GroupVersion.Group},
			Resources:     []string{resource},
			Verbs:         []string{verb},
			ResourceNames: names,
		}
	}
	return []client.Object{
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			rule("get", "ephemeralrunnersets", "set"), rule("patch", "ephemeralrunnersets", "set"),
			rule("patch", "ephemeralrunnersets/status", "set"), rule("patch", "ephemeralrunners/status"),
		}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "listener"}},
		},
	}
}

// awaitRights returns when the Role is in effect: the API server learns about it by a watch.
func awaitRights(t *testing.T, admin client.Client, namespace string) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() (bool, error) {
		return testkube.Allowed(t.Context(), admin, "listener", authorizationv1.ResourceAttributes{
			Namespace:   namespace,
			Verb:        "patch",
			Group:       v1alpha1.GroupVersion.Group,
			Resource:    "ephemeralrunners",
			Subresource: "status",
		})
	}).WithTimeout(time.Minute).WithPolling(10 * time.Millisecond).Should(gomega.BeTrue())
}
