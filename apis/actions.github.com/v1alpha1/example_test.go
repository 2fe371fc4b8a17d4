package v1alpha1_test

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// A scale set without the chart: what kubectl apply takes.
func Example() {
	most := 20
	set := v1alpha1.AutoscalingRunnerSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "AutoscalingRunnerSet"},
		ObjectMeta: metav1.ObjectMeta{Name: "my-runners", Namespace: "my-runners"},
		Spec: v1alpha1.AutoscalingRunnerSetSpec{
			GitHubConfigUrl:    "https://github.com/my-org",
			GitHubConfigSecret: "github-credentials",
			MaxRunners:         &most,
		},
	}
	set.Spec.Template.Spec.Containers = []corev1.Container{{
		Name:    "runner",
		Image:   "ghcr.io/actions/actions-runner:latest",
		Command: []string{"/home/runner/run.sh"},
	}}
	text, err := json.Marshal(set.Spec)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(set.APIVersion, set.Kind)
	fmt.Println(string(text))
	// Output:
	// actions.github.com/v1alpha1 AutoscalingRunnerSet
	// {"githubConfigUrl":"https://github.com/my-org","githubConfigSecret":"github-credentials","template":{"metadata":{},"spec":{"containers":[{"name":"runner","image":"ghcr.io/actions/actions-runner:latest","command":["/home/runner/run.sh"],"resources":{}}]}},"maxRunners":20}
}

// A client of any kind, such as controller-runtime's or client-go's, knows the kinds by its scheme.
func ExampleAddToScheme() {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		fmt.Println(err)
		return
	}
	kinds, _, err := scheme.ObjectKinds(&v1alpha1.EphemeralRunner{})
	fmt.Println(kinds[0], err)
	// Output: actions.github.com/v1alpha1, Kind=EphemeralRunner <nil>
}

// Every kind says in a condition whether it does what it should, and if not, why, by one of the Reason… constants.
func ExampleAutoscalingRunnerSetStatus() {
	status := v1alpha1.AutoscalingRunnerSetStatus{Conditions: []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonInvalidSecret,
	}}}
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	if ready.Reason == v1alpha1.ReasonInvalidSecret {
		fmt.Println("the Secret that githubConfigSecret names has no usable credentials")
	}
	// Output: the Secret that githubConfigSecret names has no usable credentials
}
