package check

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/internal/podtrial"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// pods tries a pod of each object that has a template of pods, and one of a job.
func (x *examination) pods(ctx context.Context) error {
	for _, object := range x.objects {
		template, found, _ := unstructured.NestedMap(object.Object, "spec", "template")
		if !found || object.GetKind() == "AutoscalingRunnerSet" {
			continue
		}
		pod := &corev1.Pod{}
		content, err := json.Marshal(template)
		if err == nil {
			err = json.Unmarshal(content, pod) // a template has the same fields
		}
		if err != nil {
			return fmt.Errorf("read the pods of %s: %w", named(object, object.GetKind()), err)
		}
		pod.Name = object.GetName()
		if object.GetKind() == "Job" {
			pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		}
		x.tryPod(ctx, "pod of "+named(object, object.GetKind()), pod, false)
	}
	if x.set == nil {
		return nil
	}
	runner := x.runnerPod()
	hooks := podtrial.HooksOf(runner)
	admitted := x.tryPod(ctx, "the runner's pod", runner, hooks != nil)
	if hooks != nil {
		x.tryJobPod(ctx, hooks, runner, admitted)
	}
	return nil
}

// runnerPod returns a pod like those of the set's runners: the template, with the labels and volumes that the manager
// adds.
func (x *examination) runnerPod() *corev1.Pod {
	template := x.set.Spec.Template.DeepCopy()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: x.set.Name + "-runner-check", Annotations: template.Annotations,
		Labels: kube.Labels(nil, template.Labels, map[string]string{
			v1alpha1.LabelScaleSetName: kube.LabelValue(x.set.Name), v1alpha1.LabelScaleSetNamespace: x.Namespace,
			v1alpha1.LabelRunner: "True", v1alpha1.LabelRunnerBusy: v1alpha1.RunnerMayBeBusy}),
	}, Spec: template.Spec}
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	claims := map[string]string{}
	for i := range x.set.Spec.VolumeClaimTemplates {
		claims[x.set.Spec.VolumeClaimTemplates[i].Metadata.Name] = pod.Name
	}
	if len(claims) > 0 {
		volumeclaims.Mount(&pod.Spec, claims)
	}
	return pod
}

// tryPod sends a pod as a dry run, tells what policies make of it, and reports whether it is admitted.
func (x *examination) tryPod(ctx context.Context, name string, pod *corev1.Pod, needsToken bool) bool {
	pod.Namespace = x.in
	note := x.lendAccount(ctx, &pod.Spec)
	answered := pod.DeepCopy()
	line := judgedPod(Line{Check: "pod", Object: name}, x.cluster.Create(ctx, answered, client.DryRunAll))
	line.Message += note
	x.add(line)
	if line.Status == OK {
		x.compare(name, pod, answered, needsToken)
	}
	return line.Status == OK
}

// lendAccount has a pod tried with the account default if the chart makes its account, which is not there yet.
func (x *examination) lendAccount(ctx context.Context, pod *corev1.PodSpec) (note string) {
	name := pod.ServiceAccountName
	for _, object := range x.objects {
		if object.GetKind() != "ServiceAccount" || object.GetName() != name {
			continue
		}
		err := x.cluster.Get(ctx, client.ObjectKey{Namespace: x.in, Name: name}, &corev1.ServiceAccount{})
		if apierrors.IsNotFound(err) {
			pod.ServiceAccountName = "default"
			return " (tried with account default, as account " + name + " comes with the installation: what a policy or a " +
				"SecurityContextConstraint grants to it is not seen)"
		}
	}
	return ""
}

// compare tells what a policy or webhook takes from a pod, and what it adds.
func (x *examination) compare(name string, asked, answered any, needsToken bool) {
	difference, err := podtrial.Compare(asked, answered, needsToken)
	if err != nil {
		x.add(Line{Check: "pod", Status: Unknown, Object: name, Message: err.Error()})
		return
	}
	if len(difference.Lost) > 0 {
		row := meaning.For(v1alpha1.ReasonPodFieldsLost)
		x.add(Line{Check: "pod", Status: Warning, Object: name, Reason: row.Reason, Whose: row.Actor.String(), Fix: row.Advice,
			Message: "a policy or webhook takes from it: " + strings.Join(difference.Lost, "; ")})
	}
	if len(difference.Added) > 0 {
		x.add(Line{Check: "pod", Status: OK, Object: name,
			Message: "a policy or webhook adds or changes, which does no harm: " + strings.Join(difference.Added, "; ")})
	}
}

// tryJobPod tries the pod in which the container hooks of the runner run a job.
func (x *examination) tryJobPod(ctx context.Context, hooks *podtrial.Hooks, runner *corev1.Pod, admitted bool) {
	line := Line{Check: "pod", Object: "the job's pod"}
	template, err := x.jobTemplate(ctx, hooks.Template)
	if err != nil {
		line.Status, line.Message = Unknown, err.Error()
		x.add(line)
		return
	}
	asked, err := hooks.JobPod(runner, template)
	if err != nil {
		x.add(judgedPod(line, err))
		return
	}
	answered := asked.DeepCopy()
	line = judgedPod(line, x.cluster.Create(ctx, answered, client.DryRunAll))
	line.Message += " (with the runner's image in place of the job's)"
	ofImage := false
	if line.Status == Problem && admitted {
		_, ofImage = podtrial.Refuses(x.cluster.Create(ctx, podtrial.ImageProbe(runner, asked), client.DryRunAll))
	}
	switch {
	case line.Status == Problem && ofImage:
		row := meaning.For(v1alpha1.ReasonJobImageRefused)
		line.Status, line.Reason, line.Whose, line.Fix = Warning, row.Reason, row.Actor.String(), row.Advice
	case line.Status == Problem:
		line.Fix = "write containerMode.kubernetesModeHookTemplate so that it passes: docs/policies.md; or " + line.Fix
		if !hooks.Required {
			line.Status = Warning
			line.Message += ": jobs without a container run all the same"
		}
	}
	x.add(line)
	if line.Status == OK {
		x.compare(line.Object, asked.Object, answered.Object, false)
	}
}

// jobTemplate returns the template of job pods: from a ConfigMap that the chart renders, or one that is there.
func (x *examination) jobTemplate(ctx context.Context, from podtrial.Source) (string, error) {
	if from.ConfigMap == "" {
		return "", nil
	}
	for _, object := range x.objects {
		if object.GetKind() == "ConfigMap" && object.GetName() == from.ConfigMap {
			template, _, err := unstructured.NestedString(object.Object, "data", from.Key)
			return template, err
		}
	}
	found := &corev1.ConfigMap{}
	if err := x.cluster.Get(ctx, client.ObjectKey{Namespace: x.Namespace, Name: from.ConfigMap}, found); err != nil {
		return "", fmt.Errorf("read the template of job pods: %w", err)
	}
	template, has := found.Data[from.Key]
	if !has {
		return "", fmt.Errorf("ConfigMap %s has no key %s, where the template of job pods is to be", from.ConfigMap, from.Key)
	}
	return template, nil
}
