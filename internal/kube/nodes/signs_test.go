package nodes_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/internal/kube/nodes"
)

func tainted(key, value string, effect corev1.TaintEffect) *corev1.Node {
	return &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: key, Value: value, Effect: effect}}}}
}

func noticed(about corev1.NodeConditionType, status corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: about, Status: status}}}}
}

// Of a node that only a condition announces the scheduler knows nothing, and no toleration takes it back. The cache keeps
// what says so.
func TestUnmarkedNodes(t *testing.T) {
	node := noticed("PreemptionScheduled", corev1.ConditionTrue)
	signs := nodes.SignsOf(node)
	if !signs.Unmarked() || nodes.Tolerated([]corev1.Toleration{{Operator: corev1.TolerationOpExists}})&signs != 0 {
		t.Errorf("%b: unmarked %t, or it is tolerated", signs, signs.Unmarked())
	}
	if stripped, _ := nodes.Strip(node.DeepCopy()); nodes.SignsOf(stripped.(*corev1.Node)) != signs {
		t.Error("the cache loses it")
	}
	node.Spec.Unschedulable = true
	if nodes.SignsOf(node).Unmarked() || nodes.Signs(0).Unmarked() {
		t.Error("a cordoned node, or one that stays, is unmarked")
	}
}

// Only what announces a node's end is a sign, not what the node is for or what ails it.
func TestSignsOf(t *testing.T) {
	const (
		schedule = corev1.TaintEffectNoSchedule
		execute  = corev1.TaintEffectNoExecute
		prefer   = corev1.TaintEffectPreferNoSchedule
	)
	for name, test := range map[string]struct {
		node *corev1.Node
		want string // what is said of it, empty if it stays
	}{
		"an ordinary node":  {&corev1.Node{}, ""},
		"cordoned":          {&corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true}}, "is cordoned"},
		"cordoned by taint": {tainted("node.kubernetes.io/unschedulable", "", schedule), "is cordoned"},
		"deleted, waits for Karpenter": {
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: new(metav1.Now())}}, "is being deleted",
		},
		"Karpenter": {
			tainted("karpenter.sh/disrupted", "", schedule), "has the taint karpenter.sh/disrupted",
		},
		"an earlier Karpenter": {
			tainted("karpenter.sh/disruption", "disrupting", schedule), "has the taint karpenter.sh/disruption",
		},
		"cluster autoscaler, decided": {
			tainted("ToBeDeletedByClusterAutoscaler", "1700000000", schedule),
			"has the taint ToBeDeletedByClusterAutoscaler",
		},
		"cluster autoscaler, candidate": {tainted("DeletionCandidateOfClusterAutoscaler", "1700000000", prefer), ""},
		"switched off": {
			tainted("node.kubernetes.io/out-of-service", "nodeshutdown", execute),
			"has the taint node.kubernetes.io/out-of-service",
		},
		"stopped in the cloud": {
			tainted("node.cloudprovider.kubernetes.io/shutdown", "", schedule),
			"has the taint node.cloudprovider.kubernetes.io/shutdown",
		},
		"AWS spot": {
			tainted("aws-node-termination-handler/spot-itn", "x", schedule),
			"has the taint aws-node-termination-handler",
		},
		"AWS, whatever event": {
			tainted("aws-node-termination-handler/anything", "", execute), "has the taint aws-node-termination-handler",
		},
		"AWS, something else": {tainted("aws-node-termination-handler-managed", "", execute), ""},
		"GKE": {
			tainted("cloud.google.com/impending-node-termination", "", schedule),
			"has the taint cloud.google.com/impending-node-termination",
		},
		"AKS": {
			tainted("remediator.kubernetes.azure.com/unschedulable", "", schedule),
			"has the taint remediator.kubernetes.azure.com/unschedulable",
		},
		"AKS, a machine that ends":   {noticed("PreemptionScheduled", corev1.ConditionTrue), "has the condition PreemptionScheduled"},
		"AKS, whatever event":        {noticed("VMEventScheduled", corev1.ConditionTrue), "has the condition VMEventScheduled"},
		"AKS, no event":              {noticed("VMEventScheduled", corev1.ConditionFalse), ""},
		"OpenShift":                  {noticed("Terminating", corev1.ConditionTrue), "has the condition Terminating"},
		"an ill node":                {noticed("KernelDeadlock", corev1.ConditionTrue), ""},
		"Azure":                      {tainted("cloudprovider.azure.microsoft.com/draining", "spot-eviction", schedule), "has the taint cloudprovider.azure.microsoft.com/draining"},
		"a sign, but only preferred": {tainted("karpenter.sh/disrupted", "", prefer), ""},
		"dedicated":                  {tainted("dedicated", "ci", schedule), ""},
		"spot":                       {tainted("kubernetes.azure.com/scalesetpriority", "spot", schedule), ""},
		"GPU":                        {tainted("nvidia.com/gpu", "present", schedule), ""},
		"not ready":                  {tainted("node.kubernetes.io/not-ready", "", execute), ""},
		"unreachable":                {tainted("node.kubernetes.io/unreachable", "", execute), ""},
		"out of memory":              {tainted("node.kubernetes.io/memory-pressure", "", schedule), ""},
		"control plane":              {tainted("node-role.kubernetes.io/control-plane", "", schedule), ""},
		"not initialized":            {tainted("node.cloudprovider.kubernetes.io/uninitialized", "true", schedule), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := nodes.SignsOf(test.node); got.String() != test.want || (got == 0) != (test.want == "") {
				t.Errorf("the node %q (%b), want %q", got, got, test.want)
			}
		})
	}
}

func TestTolerated(t *testing.T) {
	karpenter := nodes.SignsOf(tainted("karpenter.sh/disrupted", "", corev1.TaintEffectNoSchedule))
	spot := nodes.SignsOf(tainted("aws-node-termination-handler/spot-itn", "", corev1.TaintEffectNoSchedule))
	all := karpenter | spot | nodes.SignsOf(&corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true}})
	for _, key := range []string{"karpenter.sh/disruption", "ToBeDeletedByClusterAutoscaler",
		"node.kubernetes.io/out-of-service", "node.cloudprovider.kubernetes.io/shutdown",
		"cloud.google.com/impending-node-termination", "remediator.kubernetes.azure.com/unschedulable",
		"remediator.aks.microsoft.com/unschedulable", "medik8s.io/drain", "cloudprovider.azure.microsoft.com/draining"} {
		sign := nodes.SignsOf(tainted(key, "", corev1.TaintEffectNoSchedule))
		if sign == 0 || all&sign != 0 {
			t.Errorf("%s has no sign of its own: %b", key, sign)
		}
		all |= sign
	}
	for name, test := range map[string]struct {
		toleration corev1.Toleration
		want       nodes.Signs
	}{
		"of everything": {
			corev1.Toleration{Operator: corev1.TolerationOpExists}, all,
		},
		"of one": {
			corev1.Toleration{Key: "karpenter.sh/disrupted", Operator: corev1.TolerationOpExists}, karpenter,
		},
		"of one value": {
			corev1.Toleration{Key: "karpenter.sh/disrupted", Value: "x", Effect: corev1.TaintEffectNoSchedule},
			karpenter,
		},
		"of one of several events": {
			corev1.Toleration{Key: "aws-node-termination-handler/spot-itn", Operator: corev1.TolerationOpExists}, spot,
		},
		"of a preference": {
			corev1.Toleration{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectPreferNoSchedule}, 0,
		},
		"of what is no sign": {
			corev1.Toleration{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := nodes.Tolerated([]corev1.Toleration{test.toleration}); got != test.want {
				t.Errorf("tolerates %b, want %b", got, test.want)
			}
		})
	}
}

// A node keeps its signs through Strip, and nothing that is large or private.
func TestStrip(t *testing.T) {
	node := tainted("karpenter.sh/disrupted", "", corev1.TaintEffectNoSchedule)
	node.Name, node.UID, node.ResourceVersion, node.DeletionTimestamp = "n", "u", "7", &metav1.Time{Time: time.Now()}
	node.Spec.Unschedulable, node.Spec.ProviderID = true, "aws:///i-1"
	node.Labels, node.Annotations = map[string]string{"a": "b", corev1.LabelHostname: "h",
		corev1.LabelTopologyZone: "z", "topology.ebs.csi.aws.com/zone": "z"}, map[string]string{"a": "b"}
	node.CreationTimestamp = metav1.Now()
	node.Status.Images = []corev1.ContainerImage{{Names: []string{strings.Repeat("x", 1000)}}}
	node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	want := nodes.SignsOf(node)
	if _, err := nodes.Strip(node); err != nil {
		t.Fatal(err)
	}
	if got := nodes.SignsOf(node); got != want || node.Name != "n" || node.UID != "u" || node.ResourceVersion != "7" {
		t.Errorf("signs %v, want %v; left: %+v", got, want, node)
	}
	if len(node.Labels) != 3 || node.Labels["a"] != "" || node.CreationTimestamp.IsZero() {
		t.Errorf("labels %v, created %s: want those that say where the node is, and when", node.Labels,
			node.CreationTimestamp)
	}
	content, err := node.Marshal()
	if err != nil || len(content) > 350 {
		t.Errorf("%d bytes are left (%v): %+v", len(content), err, node)
	}
	if object, err := nodes.Strip("a tombstone"); object != "a tombstone" || err != nil {
		t.Errorf("Strip() of something else = %v, %v", object, err)
	}
}
