package diagnosis_test

import (
	"testing"

	"github.com/harrier-ci/harrier/internal/doctor/diagnosis"
	"github.com/harrier-ci/harrier/internal/doctor/snapshot"
)

// A policy that takes permissions away from both accounts is one problem. A report of one account would leave the other
// broken.
func TestAllMissingPermissionsAreReported(t *testing.T) {
	findings := diagnosis.Diagnose(healthy(func(s *snapshot.Snapshot) {
		s.Sets[0].Denials = []snapshot.Denial{
			{Account: "ServiceAccount arc-systems/arc", Actions: []string{"get secrets", "create pods"}},
			{Account: "ServiceAccount arc-systems/linux", Actions: []string{"patch ephemeralrunnersets"}},
		}
	}))
	const want = "ServiceAccount arc-systems/arc may not get secrets, create pods in namespace runners; " +
		"ServiceAccount arc-systems/linux may not patch ephemeralrunnersets in namespace runners"
	if len(findings) != 1 || findings[0].Reason != "MissingPermission" || findings[0].Message != want {
		t.Errorf("found %+v, want one MissingPermission: %s", findings, want)
	}
}

// In its own pod, the manager's account has no name that the doctor knows.
func TestMissingPermissionsOfTheManagerItself(t *testing.T) {
	s := healthy()
	s.Sets[0].Denials = []snapshot.Denial{{Account: snapshot.Account{}.String(), Actions: []string{"get secrets"}}}
	const want = "the manager may not get secrets in namespace runners"
	if findings := diagnosis.Diagnose(s); len(findings) != 1 || findings[0].Message != want {
		t.Errorf("found %+v, want %s", findings, want)
	}
}
