package diagnosis_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/operations/doctor/diagnosis"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/finding"
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

// Nobody upgrades the release of a set that is being deleted, and its budget has gone before its last runners.
func TestNobodyIsToldToUpgradeASetInDeletion(t *testing.T) {
	changes := []func(*snapshot.Snapshot){denied, budgets(), condition(v1alpha1.ConditionVersionSupported, no, "Newer"),
		func(s *snapshot.Snapshot) {
			s.Sets[0].Unmarked = snapshot.Denial{Account: "arc-systems/arc", Actions: []string{"patch pods"}}
		}}
	told := func(changes ...func(*snapshot.Snapshot)) (reasons []string, upgrades int) {
		for _, f := range diagnosis.Diagnose(healthy(changes...)) {
			reasons = append(reasons, f.Reason)
			upgrades += strings.Count(f.Message+f.Fix, "upgrade the ")
		}
		return reasons, upgrades
	}
	if reasons, upgrades := told(changes...); len(reasons) != 4 || upgrades != 4 {
		t.Errorf("a set that stays: %v with %d upgrades, want 4 each", reasons, upgrades)
	}
	deleted := func(s *snapshot.Snapshot) { s.Sets[0].DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	if reasons, upgrades := told(append(changes, deleted)...); upgrades != 0 ||
		strings.Join(reasons, " ") != "Deleting MissingPermission" {
		t.Errorf("a set in deletion: %v with %d upgrades", reasons, upgrades)
	}
}

// What is a problem above is not nothing to do below.
func TestWarningsBesideAProblemAreNotNothingToDo(t *testing.T) {
	for reason, want := range map[string]string{"": "nothing, unless", "Unauthorized": "the scale set's problems first"} {
		change := func(*snapshot.Snapshot) {}
		if reason != "" {
			change = condition(v1alpha1.ConditionCredentialsValid, no, reason)
		}
		if fix := fixOf(t, "Evicted", warned(time.Minute), change); !strings.Contains(fix, want) {
			t.Errorf("beside %q: %q, want %q", reason, fix, want)
		}
	}
	// The same reason of another object is one cause.
	for _, f := range diagnosis.Diagnose(healthy(warned(time.Minute), runner(v1alpha1.EphemeralRunnerPhaseFailed, "Evicted"))) {
		if strings.HasPrefix(f.Fix, "nothing") {
			t.Errorf("told twice: %+v", f)
		}
	}
}

// What policies do to pods is told before a job meets it; what they only add is worth knowing.
func TestWhatPoliciesDoToPodsIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(*snapshot.Snapshot)
		reason   string
		severity finding.Severity
	}{
		"the runner's pod": {condition(v1alpha1.ConditionPodTemplateRefused, yes, v1alpha1.ReasonPodForbidden), "PodForbidden", finding.Problem},
		"the job's pod":    {condition(v1alpha1.ConditionJobPodRefused, yes, v1alpha1.ReasonInvalidPod), "InvalidPod", finding.Problem},
		"an image":         {condition(v1alpha1.ConditionJobPodRefused, yes, v1alpha1.ReasonJobImageRefused), "JobImageRefused", finding.Warning},
		"a lost field":     {condition(v1alpha1.ConditionPodsAltered, yes, v1alpha1.ReasonPodFieldsLost), "PodFieldsLost", finding.Warning},
		"a mirror":         {condition(v1alpha1.ConditionPodsAltered, no, "PodsExtended"), "PodsExtended", finding.Info},
	} {
		found := false
		for _, f := range diagnosis.Diagnose(healthy(test.change)) {
			found = found || f.Reason == test.reason && f.Severity == test.severity && f.Message == "because"
		}
		if !found {
			t.Errorf("%s is not told", name)
		}
	}
	for _, f := range diagnosis.Diagnose(healthy(condition(v1alpha1.ConditionPodsAltered, no, "PodsAsWritten"))) {
		if f.Reason == "PodsAsWritten" {
			t.Error("nothing to tell is told")
		}
	}
}
