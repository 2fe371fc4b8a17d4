package diagnosis_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/operations/doctor/diagnosis"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/finding"
)

func TestManySetsAreNotAllNamed(t *testing.T) {
	found := diagnosis.Diagnose(healthy(func(s *snapshot.Snapshot) {
		s.Sets, s.Name, s.Others = nil, "linux", strings.Fields(strings.Repeat("a/b ", 12))
	}))
	if len(found) != 1 || found[0].Reason != "NoScaleSet" || !strings.HasSuffix(found[0].Message, "a/b and 2 more") {
		t.Errorf("found %+v, want ten names and how many more", found)
	}
}

// A pod of the former template that its node doesn't end keeps the new manager from acting.
func TestPodsOfAnotherTemplateKeepTheManagerFromActing(t *testing.T) {
	made := func(hash string, age time.Duration) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "harrier-system", Name: "arc-" + hash + "-x", Labels: map[string]string{"pod-template-hash": hash},
			CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age)),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "arc-" + hash, Controller: new(true),
			}},
		}}
	}
	ending := made("old", time.Hour)
	ending.DeletionTimestamp, ending.Spec.NodeName = &metav1.Time{Time: time.Unix(1e9, 0)}, "lost"
	for name, test := range map[string]struct {
		pods []corev1.Pod
		want string
	}{
		"replicas":                  {[]corev1.Pod{made("new", 0), made("new", time.Minute)}, ""},
		"one that is being deleted": {[]corev1.Pod{ending, made("new", 0)}, "delete the Node"},
		"a rollout that is paused":  {[]corev1.Pod{made("new", 0), made("old", time.Hour)}, "rollout resume deployment/arc"},
	} {
		found := diagnosis.Diagnose(healthy(func(s *snapshot.Snapshot) {
			manager := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "harrier-system", Name: "arc"}}
			manager.Status.AvailableReplicas = 1
			s.Managers, s.ManagerPods = []appsv1.Deployment{manager}, test.pods
		}))
		at := slices.IndexFunc(found, func(f finding.Finding) bool {
			return f.Reason == v1alpha1.ReasonOtherRevisionLives
		})
		if at < 0 != (test.want == "") {
			t.Errorf("%s: found %+v", name, found)
		} else if at >= 0 && (!strings.Contains(found[at].Message, "arc-old-x") || !strings.Contains(found[at].Fix, test.want)) {
			t.Errorf("%s: says %+v", name, found[at])
		}
	}
}
