package diagnosis_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/operations/doctor/diagnosis"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/finding"
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

// copyOf makes the last claim a copy.
func copyOf(source string) func(*snapshot.Snapshot) {
	return func(s *snapshot.Snapshot) {
		s.Sets[0].Claims[len(s.Sets[0].Claims)-1].Spec.DataSource = &corev1.TypedLocalObjectReference{
			Kind: "PersistentVolumeClaim", Name: source}
	}
}

// fullest has the hook tell how full the fullest claim is.
func fullest(percent int) func(*snapshot.Snapshot) {
	return func(s *snapshot.Snapshot) {
		s.Sets[0].Status.VolumeClaims = &v1alpha1.VolumeClaimCounts{Total: 1, FullestPercent: percent}
	}
}

// template gives the set a claim template, and its runners' container a mount.
func template(name, mount string) func(*snapshot.Snapshot) {
	return func(s *snapshot.Snapshot) {
		spec := &s.Sets[0].Spec
		spec.VolumeClaimTemplates = []v1alpha1.VolumeClaimTemplate{
			{Metadata: v1alpha1.VolumeClaimTemplateMeta{Name: name}}}
		spec.Template.Spec.Containers = []corev1.Container{{Name: v1alpha1.RunnerContainerName,
			VolumeMounts: []corev1.VolumeMount{{Name: mount, MountPath: "/cache"}}}}
	}
}

// volumeOf gives the set a volume with a reclaim policy.
func volumeOf(policy corev1.PersistentVolumeReclaimPolicy) func(*snapshot.Snapshot) {
	return func(s *snapshot.Snapshot) {
		s.Sets[0].Volumes = append(s.Sets[0].Volumes, corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv"},
			Spec:       corev1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: policy}})
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
		"no snapshot kind":   {[]func(*snapshot.Snapshot){condition(v1alpha1.ConditionSnapshotsReady, no, v1alpha1.ReasonSnapshotKindMissing)}, "SnapshotKindMissing", finding.Warning, "because"},
		"snapshots ready":    {[]func(*snapshot.Snapshot){condition(v1alpha1.ConditionSnapshotsReady, yes, "SnapshotReady")}, "", "", ""},
		"pending for long":   {[]func(*snapshot.Snapshot){claim("a", corev1.ClaimPending, time.Hour, "linux-runner-1"), told("ProvisioningFailed", "no such class", "a")}, "VolumeClaimPending", finding.Problem, "1 claim has no volume, and its runner waits, for example a: ProvisioningFailed: no such class"},
		"pending, no event":  {[]func(*snapshot.Snapshot){claim("a", corev1.ClaimPending, time.Hour, "linux-runner-1")}, "VolumeClaimPending", finding.Problem, "no Event says why"},
		"pending just now":   {[]func(*snapshot.Snapshot){claim("a", corev1.ClaimPending, time.Minute, "linux-runner-1")}, "", "", ""},
		"can't be cloned":    {[]func(*snapshot.Snapshot){claim("a", corev1.ClaimPending, time.Minute, "linux-runner-1"), copyOf("b"), told("ProvisioningFailed", "CSI driver does not support clone operations", "a")}, "VolumeClaimPending", finding.Problem, "CSI driver does not support clone operations"},
		"no word on a copy":  {[]func(*snapshot.Snapshot){claim("a", corev1.ClaimPending, time.Minute, "linux-runner-1"), copyOf("b")}, "", "", ""},
		"a place":            {[]func(*snapshot.Snapshot){condition(v1alpha1.ConditionVolumeClaimsReady, no, v1alpha1.ReasonVolumeClaimsAwaitPlace)}, "VolumeClaimsAwaitPlace", finding.Warning, "because"},
		"full":               {[]func(*snapshot.Snapshot){fullest(90)}, "VolumeClaimsFull", finding.Warning, "90 % full"},
		"not full":           {[]func(*snapshot.Snapshot){fullest(89)}, "", "", ""},
		"nothing mounts it":  {[]func(*snapshot.Snapshot){template("cache", "other")}, "VolumeClaimUnmounted", finding.Warning, "cache"},
		"it is mounted":      {[]func(*snapshot.Snapshot){template("cache", "cache")}, "", "", ""},
		"retained":           {[]func(*snapshot.Snapshot){volumeOf(corev1.PersistentVolumeReclaimRetain)}, "VolumesRetained", finding.Info, "1 volume stays when the pool deletes its claims"},
		"not retained":       {[]func(*snapshot.Snapshot){volumeOf(corev1.PersistentVolumeReclaimDelete)}, "", "", ""},
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

// What a set's runners will wait for is known before the first job.
func TestStorageThatNobodyMakes(t *testing.T) {
	class := func(name, isDefault string) metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name,
			Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": isDefault}}}
	}
	const problem = "runners will wait for volumes that nobody makes: work "
	for title, test := range map[string]struct {
		class   *string
		classes []metav1.PartialObjectMetadata
		read    bool
		want    string
	}{
		"no default":    {nil, []metav1.PartialObjectMetadata{class("fast", "false")}, true, problem + "names no storageClassName"},
		"a default":     {nil, []metav1.PartialObjectMetadata{class("fast", "true")}, true, ""},
		"no such class": {new("slow"), []metav1.PartialObjectMetadata{class("fast", "true")}, true, problem + "names StorageClass slow"},
		"its class":     {new("fast"), []metav1.PartialObjectMetadata{class("fast", "false")}, true, ""},
		"a default as of old": {nil, []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "fast", Annotations: map[string]string{
			"storageclass.beta.kubernetes.io/is-default-class": "true"}}}}, true, ""},
		"volumes by hand":    {new(""), nil, true, ""},
		"nobody may read it": {nil, nil, false, ""},
	} {
		t.Run(title, func(t *testing.T) {
			s := healthy()
			set := &s.Sets[0]
			set.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "work", VolumeSource: corev1.VolumeSource{
				Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
					Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: test.class}}}}}}
			if test.read {
				set.StorageClasses = &metav1.PartialObjectMetadataList{Items: test.classes}
			}
			said := ""
			for _, found := range diagnosis.Diagnose(s) {
				if found.Reason == v1alpha1.ReasonVolumeUnbound {
					said += found.Message
				}
			}
			if (said == "") != (test.want == "") || !strings.HasPrefix(said, test.want) {
				t.Errorf("the doctor says %q, want %q", said, test.want)
			}
		})
	}
}
