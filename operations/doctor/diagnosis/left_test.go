package diagnosis_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/operations/doctor/diagnosis"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
)

func leftObject(kind, name, set string) metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: kind}, ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: name, Labels: map[string]string{v1alpha1.LabelScaleSetName: set,
			v1alpha1.LabelScaleSetNamespace: "team"}}}
}

// What a backup has brought back of a set that is gone is named, with the command that removes it.
func TestObjectsOfASetThatIsGone(t *testing.T) {
	findings := diagnosis.Diagnose(healthy(func(s *snapshot.Snapshot) {
		s.Left = []metav1.PartialObjectMetadata{
			leftObject("Secret", "linux-runner-abcde", "linux"), leftObject("Role", "linux-listener", "linux"),
			leftObject("RoleBinding", "arm-listener", "arm"),
		}
	}))
	if len(findings) != 2 || findings[0].Object != "AutoscalingRunnerSet team/arm" ||
		findings[1].Reason != "ObjectsLeft" {
		t.Fatalf("found %+v", findings)
	}
	for _, part := range []string{"2 objects are left of it", "Secret linux-runner-abcde", "Role linux-listener"} {
		if !strings.Contains(findings[1].Message, part) {
			t.Errorf("%q is missing: %s", part, findings[1].Message)
		}
	}
	const command = "kubectl -n team delete secrets,roles,rolebindings -l actions.github.com/scale-set-name=linux," +
		"actions.github.com/scale-set-namespace=team"
	if !strings.Contains(findings[1].Fix, command) {
		t.Errorf("to do: %s", findings[1].Fix)
	}
}

// What Retain has kept of a set's caches is told, and how to give it up.
func TestSnapshotsOfASetThatIsGone(t *testing.T) {
	findings := diagnosis.Diagnose(healthy(func(s *snapshot.Snapshot) {
		s.LeftSnapshots = []metav1.PartialObjectMetadata{
			leftObject("VolumeSnapshot", "linux-go-bbbbb", "linux"), leftObject("VolumeSnapshot", "linux-go-ccccc", "linux"),
		}
	}))
	if len(findings) != 1 || findings[0].Reason != "VolumeSnapshotsLeft" ||
		!strings.Contains(findings[0].Message, "2 snapshots are left of it: linux-go-bbbbb, linux-go-ccccc") ||
		!strings.Contains(findings[0].Fix, "kubectl -n team delete volumesnapshots -l actions.github.com/") {
		t.Errorf("found %+v", findings)
	}
}
