// Package hooktemplate adds to a runner's pod the template that its container hooks merge into the pods of its job, so
// that these belong to the scale set and are protected like the runner. A template that the runner's environment names
// already stays the only one: the hooks take one file.
//
// The file is an annotation of the runner's own pod, which the kubelet writes into a volume (downward API): there is no
// object that somebody has to own, to delete or to have rights on, and each runner keeps the template of its start.
package hooktemplate

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

const (
	volume = "harrier-hook-template"
	// directory is directly below the root: over a volume that the user mounts read-only, such as one with hooks of
	// his own, the container runtime could create no directory.
	directory = "/harrier-hook-template"
	file      = "template.yaml"
	// jobContainer stands for the container of the job in a template.
	jobContainer = "$job"
	// maxSources limits what is read for one runner. A runner with more of them gets no template: any of these may
	// name one.
	maxSources = 8
)

// Needed reports whether the environment of a runner, which uses container hooks, names no template. The image's own
// environment can't be seen from here. A source of variables that can't be read may name one. No cache must answer for
// reader.
func Needed(ctx context.Context, reader client.Reader, pod *corev1.Pod) bool {
	container := kube.Container(&pod.Spec, v1alpha1.RunnerContainerName)
	_, named := kube.RunnerEnv(&pod.Spec, kube.EnvHookTemplate)
	if container == nil || named || taken(&pod.Spec, container) {
		return false
	}
	var sources []corev1.EnvFromSource
	for _, source := range container.EnvFrom {
		if strings.HasPrefix(kube.EnvHookTemplate, source.Prefix) {
			sources = append(sources, source)
		}
	}
	return len(sources) <= maxSources && !slices.ContainsFunc(sources, func(source corev1.EnvFromSource) bool {
		return mayName(ctx, reader, pod.Namespace, &source)
	})
}

// taken reports whether the user has a volume of this name, or a mount at this place or below it.
func taken(spec *corev1.PodSpec, container *corev1.Container) bool {
	return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume }) ||
		slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool {
			return strings.HasPrefix(m.MountPath+"/", directory+"/")
		})
}

// mayName reports whether a source of variables names a template, or can't be read, so that it may.
func mayName(ctx context.Context, reader client.Reader, namespace string, source *corev1.EnvFromSource) bool {
	key := strings.TrimPrefix(kube.EnvHookTemplate, source.Prefix)
	var err error
	var has, optional bool
	switch {
	case source.ConfigMapRef != nil:
		configMap := &corev1.ConfigMap{}
		err = reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: source.ConfigMapRef.Name}, configMap)
		_, has = configMap.Data[key]
		optional = ptr.Deref(source.ConfigMapRef.Optional, false)
	case source.SecretRef != nil:
		secret := &corev1.Secret{}
		err = reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: source.SecretRef.Name}, secret)
		_, has = secret.Data[key]
		optional = ptr.Deref(source.SecretRef.Optional, false)
	}
	if apierrors.IsNotFound(err) && optional {
		return false
	}
	return has || err != nil
}

// Add adds a template with these labels and annotations to a pod that needs one. With a grace period the pods of its job
// outlive their runner's notice: the job's container gets SIGTERM only after that, and hooks delete it without waiting.
// The names of service containers can't be known here.
func Add(pod *corev1.Pod, labels, annotations map[string]string, grace time.Duration) {
	content := map[string]any{"metadata": v1alpha1.ResourceMeta{Labels: labels, Annotations: annotations}}
	if grace >= time.Second {
		// Not the action sleep: the client of older hooks would drop it, and leave a hook without an action.
		wait := map[string]any{"exec": map[string]any{"command": []string{"sleep",
			strconv.FormatInt(int64(grace/time.Second), 10)}}}
		content["spec"] = map[string]any{
			"terminationGracePeriodSeconds": kube.GraceSeconds(grace),
			"containers": []any{map[string]any{"name": jobContainer,
				"lifecycle": map[string]any{"preStop": wait}}},
		}
	}
	// What is marshalled has strings and numbers only, so it can't fail. To the hooks, which read YAML, it is YAML.
	template, _ := json.Marshal(content)
	pod.Annotations[v1alpha1.AnnotationHookTemplate] = string(template)
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
		DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{
			Path: file, FieldRef: &corev1.ObjectFieldSelector{
				FieldPath: "metadata.annotations['" + v1alpha1.AnnotationHookTemplate + "']",
			},
		}}},
	}})
	container := kube.Container(&pod.Spec, v1alpha1.RunnerContainerName)
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{
		Name: volume, MountPath: directory, ReadOnly: true,
	})
	container.Env = append(container.Env, corev1.EnvVar{Name: kube.EnvHookTemplate, Value: directory + "/" + file})
}
