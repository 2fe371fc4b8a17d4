package tenant

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/test/rig"
)

const (
	conditionTemplateAccepted = "ListenerTemplateAccepted"
	cloudIdentity             = "eks.amazonaws.com/role-arn"
)

// foreignImage is an image that only team b names.
const foreignImage = "rig.invalid/" + thief + ":1"

// templateAttacks are about what runs in the manager's namespace because a set says so: defect 6, 11c, and the policy
// for listenerTemplate.
func templateAttacks() []attack {
	return append(metadataValues(), []attack{
		{
			name: "another's Secret in the listener's environment",
			objects: one("template-secret", func(s *stage, set *v1alpha1.AutoscalingRunnerSet) {
				stolen := s.secretsOf(rig.DefaultSet)
				set.Spec.ListenerTemplate = listenerTemplate(func(template *corev1.PodTemplateSpec) {
					spec := &template.Spec
					spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "stolen", MountPath: "/stolen"}}
					spec.Containers = append(spec.Containers, corev1.Container{
						Name:  thief,
						Image: foreignImage,
						Env:   []corev1.EnvVar{stolen},
					})
					spec.Volumes = []corev1.Volume{{Name: "stolen", VolumeSource: corev1.VolumeSource{
						Secret: &corev1.SecretVolumeSource{SecretName: stolen.ValueFrom.SecretKeyRef.Name},
					}}}
				})
			}),
			says: refused("template-secret", "spec.volumes[stolen].secret", "spec.containers["+thief+"]"),
			harm: (*stage).foreignParts,
		},
		{
			name: "a container that runs before the listener",
			objects: one("template-init", func(s *stage, set *v1alpha1.AutoscalingRunnerSet) {
				set.Spec.ListenerTemplate = listenerTemplate(func(template *corev1.PodTemplateSpec) {
					template.Spec.InitContainers = []corev1.Container{{
						Name: thief, Image: foreignImage, Env: []corev1.EnvVar{s.secretsOf(vaultedSet)},
						RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
					}}
				})
			}),
			says: refused("template-init", "spec.initContainers"),
			harm: (*stage).foreignParts,
		},
		{
			name: "the host and the manager's account",
			objects: one("template-host", func(_ *stage, set *v1alpha1.AutoscalingRunnerSet) {
				set.Spec.ListenerTemplate = listenerTemplate(func(template *corev1.PodTemplateSpec) {
					spec := &template.Spec
					spec.ServiceAccountName, spec.HostNetwork, spec.HostPID = rig.ControllerAccount, true, true
					spec.Containers[0].Image, spec.Containers[0].SecurityContext = foreignImage,
						&corev1.SecurityContext{Privileged: new(true)}
					spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "host", MountPath: "/host"}}
					spec.Volumes = []corev1.Volume{{Name: "host",
						VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
				})
			}),
			says: refused("template-host", "spec.hostNetwork", "spec.hostPID", "spec.volumes[host].hostPath"),
			harm: (*stage).foreignParts,
		},
		{
			name: "a proxy for the listener's calls to the API server",
			objects: one("template-proxy", func(s *stage, set *v1alpha1.AutoscalingRunnerSet) {
				set.Spec.ListenerTemplate = listenerTemplate(func(template *corev1.PodTemplateSpec) {
					for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY"} {
						template.Spec.Containers[0].Env = append(template.Spec.Containers[0].Env, corev1.EnvVar{
							Name:  name,
							Value: s.canaries["loopback"].URL,
						})
					}
				})
			}),
			says: refused("template-proxy", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY"),
			harm: (*stage).foreignParts,
		},
	}...)
}

// refused checks that team b is told which fields of a template are left out, while the rest of it works.
func refused(name string, paths ...string) func(*stage) error {
	return all(told(name, conditionTemplateAccepted, []string{"FieldsRefused"}, paths...), works(name))
}

// metadataValues are attacks by labels and annotations of objects in the manager's namespace.
func metadataValues() []attack {
	return []attack{
		{
			name: "labels of the controller's pods",
			objects: one("labelled-as-controller", func(s *stage, set *v1alpha1.AutoscalingRunnerSet) {
				controller := s.controllersLabels()
				for key, value := range controller {
					set.Labels[key] = value
				}
				set.Spec.ListenerTemplate = listenerTemplate(func(template *corev1.PodTemplateSpec) {
					template.Labels = controller
				})
				set.Spec.AutoscalingListenerMetadata = &v1alpha1.ResourceMeta{Labels: controller}
			}),
			says: works("labelled-as-controller"),
			harm: (*stage).mistakenForController,
		},
		{
			name: "a cloud identity of the manager's namespace",
			objects: one("template-identity", func(_ *stage, set *v1alpha1.AutoscalingRunnerSet) {
				identity := map[string]string{cloudIdentity: "arn:aws:iam::1:role/manager"}
				set.Spec.ListenerServiceAccountMetadata = &v1alpha1.ResourceMeta{Annotations: identity}
				set.Spec.ListenerConfigSecretMetadata = &v1alpha1.ResourceMeta{Annotations: identity}
				set.Spec.ListenerTemplate = listenerTemplate(func(template *corev1.PodTemplateSpec) {
					template.Annotations = identity
				})
			}),
			says: refused("template-identity", cloudIdentity),
			harm: (*stage).identities,
		},
		{
			// Boundaries B14.
			name: "a listener that keeps other pods off and takes their traffic",
			objects: one("template-steering", func(_ *stage, set *v1alpha1.AutoscalingRunnerSet) {
				set.Labels["app"] = "database"
				set.Spec.ListenerTemplate = listenerTemplate(func(template *corev1.PodTemplateSpec) {
					template.Labels = map[string]string{"app": "database"}
					template.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"}
					template.Spec.TerminationGracePeriodSeconds = new(int64(1 << 30))
					template.Spec.PriorityClassName = "system-node-critical"
					template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
						RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
							{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{}},
						},
					}}
					template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
						corev1.ResourceCPU: resource.MustParse("64"),
					}
				})
			}),
			says: refused("template-steering", "metadata.labels[app]", "karpenter.sh/do-not-disrupt",
				"spec.affinity.podAntiAffinity.required", "spec.priorityClassName",
				"spec.terminationGracePeriodSeconds", "resources.requests.cpu"),
			harm: (*stage).steering,
		},
	}
}

// steering lists what pods in the manager's namespace have of the set that steers others.
func (s *stage) steering() (wrong []string) {
	s.Helper()
	for _, pod := range s.podsOf(s.rig.SystemNamespace) {
		if !s.ofAttacker(pod.Labels) {
			continue
		}
		affinity := pod.Spec.Affinity
		keepsOff := affinity != nil && affinity.PodAntiAffinity != nil &&
			len(affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
		if pod.Labels["app"] != "" || pod.Annotations["karpenter.sh/do-not-disrupt"] != "" || keepsOff ||
			pod.Spec.PriorityClassName != "" || *pod.Spec.TerminationGracePeriodSeconds > 300 {
			wrong = append(wrong, "listener pod "+pod.Name+" steers others")
		}
		for i := range pod.Spec.Containers {
			if pod.Spec.Containers[i].Resources.Requests.Cpu().Value() > 2 {
				wrong = append(wrong, "listener pod "+pod.Name+" takes a node")
			}
		}
	}
	return wrong
}

func listenerTemplate(change func(*corev1.PodTemplateSpec)) *corev1.PodTemplateSpec {
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: v1alpha1.ListenerContainerName}}}}
	change(template)
	return template
}

// secretsOf is a variable with the configuration of the listener of a set of team a. Without it the pod starts all the
// same.
func (s *stage) secretsOf(set string) corev1.EnvVar {
	return corev1.EnvVar{Name: "STOLEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: s.listenerOf(set).Name + "-config"}, Key: "config.json",
		Optional: new(true),
	}}}
}

// controllersLabels returns the labels by which the chart finds the controller's pods.
func (s *stage) controllersLabels() map[string]string {
	s.Helper()
	pods := s.rig.ManagerPods()
	if len(pods) == 0 {
		return s.managersLabels // while the manager is stopped
	}
	chosen := map[string]string{}
	for key, value := range pods[0].Labels {
		if key != "pod-template-hash" {
			chosen[key] = value
		}
	}
	s.managersLabels = chosen
	return chosen
}

// mistakenForController lists what the chart would select a pod of team b's listeners by, as if it were the
// controller's.
func (s *stage) mistakenForController() []string {
	s.Helper()
	controller, honest := s.controllersLabels(), s.honestLabels()
	var wrong []string
	for _, pod := range s.podsOf(s.rig.SystemNamespace) {
		for name, selector := range s.selectors() {
			chosen := labels.Set(pod.Labels)
			if s.ofAttacker(pod.Labels) && selector.Matches(chosen) && selector.Matches(labels.Set(controller)) &&
				!selector.Matches(honest) {
				wrong = append(wrong, fmt.Sprintf("%s selects listener pod %s", name, pod.Name))
			}
		}
	}
	return wrong
}

// honestLabels returns the pod labels of a listener that doesn't pretend to be another.
func (s *stage) honestLabels() labels.Set {
	s.Helper()
	for _, pod := range s.podsOf(s.rig.SystemNamespace) {
		if pod.Labels[v1alpha1.LabelScaleSetName] == ownSet {
			return pod.Labels
		}
	}
	s.Error("the honest set has no listener pod")
	return nil
}

// selectors returns all selectors that the controller's chart can render.
func (s *stage) selectors() map[string]labels.Selector {
	s.Helper()
	found := map[string]labels.Selector{}
	for _, monitor := range []string{"podMonitor", "serviceMonitor"} { // a chart with both renders neither
		for _, rendered := range s.rig.RenderedController(rig.Values{
			"replicaCount": 2, "networkPolicy": rig.Values{"enabled": true},
			"monitoring": rig.Values{monitor: rig.Values{"enabled": true}},
		}) {
			if selector := s.selector(rendered); selector != nil {
				found[rendered.GetKind()+" "+rendered.GetName()] = selector
			}
		}
	}
	return found
}

// selector returns an object's selector, nil if it has none.
func (s *stage) selector(of *unstructured.Unstructured) labels.Selector {
	s.Helper()
	for _, path := range [][]string{{"spec", "selector"}, {"spec", "podSelector"}} {
		content, _, _ := unstructured.NestedMap(of.Object, path...) // nil if it is something else
		if len(content) == 0 {
			continue
		}
		if of.GetKind() == "Service" {
			content = map[string]any{"matchLabels": content}
		}
		selector := &metav1.LabelSelector{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, selector); err != nil {
			s.Fatal(err)
		}
		parsed, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			s.Fatal(err)
		}
		return parsed
	}
	return nil
}

// foreignParts lists the parts of pods in the manager's namespace that the manager did not choose.
func (s *stage) foreignParts() []string {
	s.Helper()
	var wrong []string
	for _, pod := range s.podsOf(s.rig.SystemNamespace) {
		spec := &pod.Spec
		if !s.ofAttacker(pod.Labels) {
			continue
		}
		for _, container := range append(slices.Clone(spec.InitContainers), spec.Containers...) {
			if container.Image == foreignImage || container.Name == thief {
				wrong = append(wrong, fmt.Sprintf("pod %s has container %s of image %s", pod.Name, container.Name,
					container.Image))
			}
			for _, variable := range container.Env {
				if s.canaries["loopback"].URL == variable.Value {
					wrong = append(wrong, fmt.Sprintf("pod %s has variable %s", pod.Name, variable.Name))
				}
			}
		}
		for _, volume := range spec.Volumes {
			if volume.HostPath != nil || (volume.Secret != nil && volume.Name == "stolen") {
				wrong = append(wrong, fmt.Sprintf("pod %s has volume %s", pod.Name, volume.Name))
			}
		}
		if spec.HostNetwork || spec.HostPID || spec.ServiceAccountName == rig.ControllerAccount {
			wrong = append(wrong, fmt.Sprintf("pod %s has the host's network or processes or the manager's account",
				pod.Name))
		}
	}
	return wrong
}

// identities lists objects of the manager's namespace that have team b's cloud identity.
func (s *stage) identities() []string {
	s.Helper()
	var wrong []string
	for _, kind := range []client.ObjectList{&corev1.ServiceAccountList{}, &corev1.SecretList{}, &corev1.PodList{}} {
		if err := s.rig.Cluster.Client().List(s.Context(), kind,
			client.InNamespace(s.rig.SystemNamespace)); err != nil {
			s.Fatal(err)
		}
		err := eachItem(kind, func(item client.Object) {
			if item.GetAnnotations()[cloudIdentity] != "" {
				wrong = append(wrong, fmt.Sprintf("%T %s has a cloud identity", item, item.GetName()))
			}
		})
		if err != nil {
			s.Fatal(err)
		}
	}
	return wrong
}
