package diagnosis_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/doctor/diagnosis"
	"github.com/harrier-ci/harrier/internal/doctor/finding"
	"github.com/harrier-ci/harrier/internal/doctor/snapshot"
)

var claimsRead = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// claim adds a claim of the set with the given age and, unless the pod's name is empty, a running pod that mounts it.
func claim(
	name string, phase corev1.PersistentVolumeClaimPhase, age time.Duration, pod string,
) func(*snapshot.Snapshot) {
	return func(s *snapshot.Snapshot) {
		set := &s.Sets[0]
		set.Now = claimsRead
		set.Claims = append(set.Claims, corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(claimsRead.Add(-age))},
			Status:     corev1.PersistentVolumeClaimStatus{Phase: phase},
		})
		if pod == "" {
			return
		}
		source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
		set.Pods = append(set.Pods, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: pod},
			Spec:       corev1.PodSpec{Volumes: []corev1.Volume{{Name: "cache", VolumeSource: source}}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning},
		})
	}
}

// deleted has the last claim in deletion for the given time.
func deleted(since time.Duration) func(*snapshot.Snapshot) {
	return func(s *snapshot.Snapshot) {
		at := metav1.NewTime(claimsRead.Add(-since))
		last := &s.Sets[0].Claims[len(s.Sets[0].Claims)-1]
		last.DeletionTimestamp, last.Finalizers = &at, []string{"kubernetes.io/pvc-protection"}
	}
}

func told(reason, message, claim string) func(*snapshot.Snapshot) {
	return func(s *snapshot.Snapshot) {
		s.Sets[0].Warnings = append(s.Sets[0].Warnings, corev1.Event{
			Type: corev1.EventTypeWarning, Reason: reason, Message: message,
			LastTimestamp:  metav1.NewTime(claimsRead.Add(-time.Hour)),
			InvolvedObject: corev1.ObjectReference{Kind: "PersistentVolumeClaim", Name: claim},
		})
	}
}

// onNode adds a volume of a claim that only nodes of that host name can have.
func onNode(claim, host string) func(*snapshot.Snapshot) {
	return func(s *snapshot.Snapshot) {
		s.Sets[0].Volumes = append(s.Sets[0].Volumes, corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Name: claim},
			NodeAffinity: &corev1.VolumeNodeAffinity{
				Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
					{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"gone"}}}},
					{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{host}}}},
				}}},
		}})
	}
}

func node(host string, ready corev1.ConditionStatus) func(*snapshot.Snapshot) {
	return func(s *snapshot.Snapshot) {
		s.Sets[0].Nodes = append(s.Sets[0].Nodes, corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "ip-" + host, Labels: map[string]string{corev1.LabelHostname: host}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
		})
	}
}

func leftClaim(name string) func(*snapshot.Snapshot) {
	return func(s *snapshot.Snapshot) {
		s.LeftClaims = append(s.LeftClaims, corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace: "runners", Name: name, Labels: map[string]string{v1alpha1.LabelScaleSetName: "former",
				v1alpha1.LabelScaleSetNamespace: "runners"},
		}})
	}
}

func TestClaims(t *testing.T) {
	for name, test := range map[string]struct {
		changes  []func(*snapshot.Snapshot)
		reason   string // of the only finding, empty for none
		severity finding.Severity
		says     string
	}{
		"bound":              {[]func(*snapshot.Snapshot){claim("a", corev1.ClaimBound, time.Hour, "linux-runner-1")}, "", "", ""},
		"exhausted":          {[]func(*snapshot.Snapshot){condition(v1alpha1.ConditionVolumeClaimsReady, no, v1alpha1.ReasonVolumeClaimsExhausted)}, "VolumeClaimsExhausted", finding.Warning, "because"},
		"refused":            {[]func(*snapshot.Snapshot){condition(v1alpha1.ConditionVolumeClaimsReady, no, v1alpha1.ReasonVolumeClaimRefused)}, "VolumeClaimRefused", finding.Problem, "because"},
		"ready":              {[]func(*snapshot.Snapshot){condition(v1alpha1.ConditionVolumeClaimsReady, yes, "ClaimsReady")}, "", "", ""},
		"pending for long":   {[]func(*snapshot.Snapshot){claim("a", corev1.ClaimPending, time.Hour, "linux-runner-1"), told("ProvisioningFailed", "no such class", "a")}, "VolumeClaimPending", finding.Problem, "1 claim has no volume, and its runner waits, for example a: ProvisioningFailed: no such class"},
		"pending, no event":  {[]func(*snapshot.Snapshot){claim("a", corev1.ClaimPending, time.Hour, "linux-runner-1")}, "VolumeClaimPending", finding.Problem, "no Event says why"},
		"pending just now":   {[]func(*snapshot.Snapshot){claim("a", corev1.ClaimPending, time.Minute, "linux-runner-1")}, "", "", ""},
		"waits for a pod":    {[]func(*snapshot.Snapshot){claim("a", corev1.ClaimPending, time.Hour, "")}, "", "", ""},
		"deleted just now":   {[]func(*snapshot.Snapshot){claim("a", corev1.ClaimBound, time.Hour, ""), deleted(time.Minute)}, "", "", ""},
		"deleted long ago":   {[]func(*snapshot.Snapshot){claim("a", corev1.ClaimBound, time.Hour, ""), deleted(time.Hour)}, "VolumeClaimTerminating", finding.Warning, "a (finalizers [kubernetes.io/pvc-protection])"},
		"deleted and in use": {[]func(*snapshot.Snapshot){claim("a", corev1.ClaimBound, time.Hour, "linux-runner-1"), deleted(time.Hour)}, "", "", ""},
		"on a node":          {[]func(*snapshot.Snapshot){onNode("a", "n1"), node("n0", corev1.ConditionTrue), node("n1", corev1.ConditionTrue)}, "", "", ""},
		"on a lost node":     {[]func(*snapshot.Snapshot){onNode("a", "n1"), node("n0", corev1.ConditionTrue), node("n1", corev1.ConditionUnknown)}, "VolumeUnreachable", finding.Warning, "1 claim's volume: a"},
		"on a former node":   {[]func(*snapshot.Snapshot){onNode("a", "n2"), node("n0", corev1.ConditionTrue)}, "VolumeUnreachable", finding.Warning, "1 claim's volume: a"},
		"nodes not read":     {[]func(*snapshot.Snapshot){onNode("a", "n2")}, "", "", ""},
		"of a deleted set":   {[]func(*snapshot.Snapshot){leftClaim("former-go-22222"), leftClaim("former-go-33333")}, "VolumeClaimsLeft", finding.Info, "2 claims are left of it: former-go-22222, former-go-33333"},
	} {
		t.Run(name, func(t *testing.T) {
			findings := diagnosis.Diagnose(healthy(test.changes...))
			switch {
			case test.reason == "" && len(findings) == 0:
			case len(findings) != 1 || findings[0].Reason != test.reason || findings[0].Severity != test.severity ||
				findings[0].Fix == "":
				t.Errorf("found %+v, want %s %s", findings, test.severity, test.reason)
			case !strings.Contains(findings[0].Message, test.says):
				t.Errorf("found %q, want %q", findings[0].Message, test.says)
			}
		})
	}
}

// There are not more runners because of what they wait for, and a command that can be copied shows which claims are
// left.
func TestClaimsExplainMissingRunners(t *testing.T) {
	missing := func(s *snapshot.Snapshot) { s.Sets[0].Status.DesiredRunners = s.Sets[0].Status.CurrentRunners + 3 }
	exhausted := condition(v1alpha1.ConditionVolumeClaimsReady, no, v1alpha1.ReasonVolumeClaimsExhausted)
	if findings := diagnosis.Diagnose(healthy(missing, exhausted)); len(findings) != 1 ||
		findings[0].Reason != v1alpha1.ReasonVolumeClaimsExhausted {
		t.Errorf("found %+v", findings)
	}
	claims := func(s *snapshot.Snapshot) {
		s.Sets[0].Spec.VolumeClaimTemplates = []v1alpha1.VolumeClaimTemplate{{}}
		hard := corev1.ResourceList{corev1.ResourceRequestsStorage: resource.MustParse("10Gi")}
		s.Sets[0].Quotas = []corev1.ResourceQuota{{ObjectMeta: metav1.ObjectMeta{Name: "storage"},
			Status: corev1.ResourceQuotaStatus{Hard: hard, Used: hard}}}
	}
	if findings := diagnosis.Diagnose(healthy(claims)); len(findings) != 1 || findings[0].Reason != "QuotaUsedUp" {
		t.Errorf("found %+v", findings)
	}
	findings := diagnosis.Diagnose(healthy(leftClaim("former-go-22222")))
	if command := "kubectl -n runners delete persistentvolumeclaims -l "; len(findings) != 1 ||
		!strings.Contains(findings[0].Fix, command) || !strings.Contains(findings[0].Fix, "=former") {
		t.Errorf("found %+v", findings)
	}
}
