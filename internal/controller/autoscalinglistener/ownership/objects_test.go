package ownership_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/ownership"
	"github.com/harrier-ci/harrier/internal/kube"
)

// Whose an object is follows from its labels and its owner together: neither alone makes it the listener's.
func TestWhoseAnObjectIs(t *testing.T) {
	const system, runners = "arc-systems", "arc-runners"
	listener := &v1alpha1.AutoscalingListener{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "listener", UID: "listener-uid"},
		Spec: v1alpha1.AutoscalingListenerSpec{AutoscalingRunnerSetNamespace: runners,
			AutoscalingRunnerSetName: "set"},
	}
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: runners, Name: "set",
		UID: "set-uid"}}
	former := listener.DeepCopy()
	former.UID = "former-uid"
	others := map[string]string{v1alpha1.LabelScaleSetName: "other", v1alpha1.LabelScaleSetNamespace: runners}
	ofSet := map[string]string{v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: runners}
	ofListener := kube.Labels(nil, ofSet,
		map[string]string{v1alpha1.LabelListenerNamespace: system, v1alpha1.LabelListenerName: "listener"})
	meta := func(namespace string, labels map[string]string, owner client.Object) metav1.ObjectMeta {
		object := metav1.ObjectMeta{Namespace: namespace, Name: "listener", Labels: labels}
		if owner != nil {
			object.OwnerReferences = kube.OwnedBy(owner)
		}
		return object
	}
	account := func(labels map[string]string, owner client.Object) client.Object {
		return &corev1.ServiceAccount{ObjectMeta: meta(system, labels, owner)}
	}
	secret := func(labels map[string]string, owner client.Object) client.Object {
		return &corev1.Secret{ObjectMeta: meta(system, labels, owner)}
	}
	role := func(labels map[string]string, owner client.Object) client.Object {
		return &rbacv1.Role{ObjectMeta: meta(runners, labels, owner)}
	}
	o := ownership.Objects{Listener: client.ObjectKeyFromObject(listener),
		Set: types.NamespacedName{Namespace: runners, Name: "set"}}
	for name, test := range map[string]struct {
		wanted, found client.Object
		want          kube.Standing
	}{
		"its own":                           {account(ofSet, listener), account(ofSet, listener), kube.Ours},
		"of another set":                    {account(ofSet, listener), account(others, listener), kube.Foreign},
		"without labels":                    {account(ofSet, listener), account(nil, listener), kube.Foreign},
		"of another owner":                  {account(ofSet, listener), account(ofSet, set), kube.Foreign},
		"without an owner":                  {account(ofSet, listener), account(ofSet, nil), kube.Foreign},
		"of a former listener":              {account(ofSet, listener), account(ofSet, former), kube.Former},
		"restored without its owner":        {account(ofSet, listener), account(ownership.Labels(listener), nil), kube.Former},
		"ARC's Secret":                      {secret(ofSet, listener), secret(nil, listener), kube.Ours},
		"somebody's Secret":                 {secret(ofSet, listener), secret(nil, nil), kube.Foreign},
		"a Secret of another set":           {secret(ofSet, listener), secret(others, listener), kube.Foreign},
		"its own Role":                      {role(ofListener, set), role(ofListener, set), kube.Ours},
		"ARC's Role":                        {role(ofListener, set), role(ofListener, nil), kube.Ours},
		"a Role that names no listener":     {role(ofListener, set), role(ofSet, nil), kube.Foreign},
		"a Role that is anybody's by label": {role(ofListener, set), role(ownership.Labels(listener), nil), kube.Foreign},
	} {
		if got := o.Standing(test.wanted, test.found); got != test.want {
			t.Errorf("%s: Standing() = %d, want %d", name, got, test.want)
		}
	}
}
