package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/finding"
)

// cluster is an API server with the objects. refuse decides which lists fail.
func cluster(t *testing.T, refuse func(client.ObjectList) error, objects ...client.Object) snapshot.Cluster {
	t.Helper()
	typeOf := func(object client.Object) []string { return []string{object.(*corev1.Event).Type} }
	return snapshot.Cluster{Reader: fake.NewClientBuilder().WithScheme(kinds.Scheme()).
		WithObjects(objects...).WithIndex(&corev1.Event{}, "type", typeOf).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
			options ...client.ListOption) error {
			if err := refuse(list); err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		},
	}).Build()}
}

func allow(client.ObjectList) error { return nil }

// objects are those of a healthy set, except that its Secret has lost its token.
func objects() []client.Object {
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: "linux"}}
	set.Spec.GitHubConfigUrl, set.Spec.GitHubConfigSecret = "https://github.com/acme", "github"
	for _, about := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionScaleSetRegistered,
		v1alpha1.ConditionCredentialsValid, v1alpha1.ConditionListenerReady} {
		set.Status.Conditions = append(set.Status.Conditions,
			metav1.Condition{Type: about, Status: metav1.ConditionTrue, Reason: "Fine"})
	}
	labels := map[string]string{v1alpha1.LabelScaleSetName: set.Name}
	return []client.Object{
		set,
		&v1alpha1.EphemeralRunnerSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name, Labels: labels},
			Spec:       v1alpha1.EphemeralRunnerSetSpec{AssignedJobs: 1},
			Status: v1alpha1.EphemeralRunnerSetStatus{
				Listener: &v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateListening}},
		},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: "github"}},
	}
}

func TestRunFindsAnEmptySecret(t *testing.T) {
	output := &bytes.Buffer{}
	err := Run(t.Context(), cluster(t, allow, objects()...),
		Options{Namespace: "runners", Name: "linux", Output: "json"},
		output)
	if !errors.Is(err, finding.ErrProblems) {
		t.Errorf("Run() = %v, want %v", err, finding.ErrProblems)
	}
	report := Report{}
	if err := json.Unmarshal(output.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Findings) == 0 || report.Findings[0].Reason != "CredentialsMissing" {
		t.Errorf("findings %+v, want CredentialsMissing first", report.Findings)
	}
	if len(report.Sets) != 1 || report.Sets[0].Name != "linux" || report.Sets[0].Listener != "Listening" {
		t.Errorf("sets %+v, want linux with a listener that listens", report.Sets)
	}
}

// Events of the set's own runners and their pods are reported, those of linux-large are not.
func TestWarningsAreTheSetsOwn(t *testing.T) {
	about := func(kind, name, eventType string) client.Object {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "runners",
				Name: strings.ToLower(kind) + "." + name + "." + strings.ToLower(eventType)},
			InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name}, Type: eventType,
		}
	}
	events := []client.Object{
		about("AutoscalingRunnerSet", "linux", "Warning"), about("AutoscalingRunnerSet", "linux", "Normal"),
		about("AutoscalingRunnerSet", "linux-large", "Warning"),
		about("EphemeralRunner", "linux-runner-abcde", "Warning"),
		about("EphemeralRunner", "linux-large-xyz-runner-abcde", "Warning"),
		about("Pod", "linux-runner-abcde-workflow", "Warning"), about("Pod", "linux-runner-abcde", "Normal"),
		about("Node", "linux-runner-abcde", "Warning"),
		about("DaemonSet", "linux-gha-rs-prepull", "Warning"), about("DaemonSet", "linux-large-gha-rs-prepull", "Warning"),
	}
	snapshot, err := snapshot.Gather(t.Context(), cluster(t, allow, append(objects(), events...)...), "runners",
		"linux")
	if err != nil || len(snapshot.Sets) != 1 {
		t.Fatalf("%d sets, %v", len(snapshot.Sets), err)
	}
	var got []string
	for _, event := range snapshot.Sets[0].Warnings {
		got = append(got, event.Name)
	}
	want := []string{"autoscalingrunnerset.linux.warning", "daemonset.linux-gha-rs-prepull.warning", "ephemeralrunner.linux-runner-abcde.warning",
		"pod.linux-runner-abcde-workflow.warning"}
	if difference := cmp.Diff(want, got); difference != "" {
		t.Errorf("warnings (-want +got):\n%s", difference)
	}
}

// After a mistyped name or namespace, the doctor lists the scale sets that exist, in whatever namespace they are.
func TestRunNamesTheSetsThatThereAre(t *testing.T) {
	for _, test := range []struct{ namespace, name, want string }{
		{"", "ubuntu-latest", `there is no scale set "ubuntu-latest"; scale sets that exist: runners/linux`},
		{"typo", "", "there is no scale set in namespace typo; scale sets that exist: runners/linux"},
		{"typo", "linux", `there is no scale set "linux" in namespace typo; scale sets that exist: runners/linux`},
		{"runners", "ubuntu-latest", `there is no scale set "ubuntu-latest" in namespace runners; scale sets that exist: runners/linux`},
	} {
		output := &bytes.Buffer{}
		err := Run(t.Context(), cluster(t, allow, objects()...),
			Options{Namespace: test.namespace, Name: test.name, Output: "text"}, output)
		if !errors.Is(err, finding.ErrProblems) || !strings.Contains(output.String(), test.want+"\n") {
			t.Errorf("Run() = %v, output %s; want %s", err, output, test.want)
		}
	}
}

// A caller with few permissions gets what the doctor can find out with them.
func TestRunWithFewRights(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", nil)
	refuse := func(list client.ObjectList) error {
		if _, ours := list.(*v1alpha1.AutoscalingRunnerSetList); ours {
			return nil
		}
		return forbidden
	}
	snapshot, err := snapshot.Gather(t.Context(), cluster(t, refuse, objects()...), "", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"Deployments", "Pods", "ResourceQuotas", "PodDisruptionBudgets", "EphemeralRunners",
		"EphemeralRunnerSets"} {
		if snapshot.Unread[kind] == nil {
			t.Errorf("that %s were not read is not said", kind)
		}
	}
	refuseAll := func(client.ObjectList) error { return forbidden }
	if err := Run(t.Context(), cluster(t, refuseAll), Options{}, &bytes.Buffer{}); !apierrors.IsForbidden(err) {
		t.Errorf("Run() = %v, want Forbidden", err)
	}
}

func TestRunWithoutOurKinds(t *testing.T) {
	output := &bytes.Buffer{}
	refuse := func(list client.ObjectList) error {
		if _, ours := list.(*v1alpha1.AutoscalingRunnerSetList); ours {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "autoscalingrunnersets"}, "")
		}
		return nil
	}
	if err := Run(t.Context(), cluster(t, refuse), Options{Output: "text"}, output); !errors.Is(err, finding.ErrProblems) {
		t.Errorf("Run() = %v, want %v", err, finding.ErrProblems)
	}
	if !strings.Contains(output.String(), "PROBLEM NotInstalled") {
		t.Errorf("output %s", output)
	}
}

func TestReportThatNothingIsWrong(t *testing.T) {
	for format, want := range map[string]string{"text": "Nothing is wrong.", "json": `"findings": []`} {
		output := &bytes.Buffer{}
		if err := (&Report{}).write(output, format); err != nil || !strings.Contains(output.String(), want) {
			t.Errorf("%s: %s, %v; want %s", format, output, err, want)
		}
	}
}
