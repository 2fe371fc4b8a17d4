package main

import (
	"fmt"
	"maps"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// template is the file that the hooks merge into each pod: metadata and spec may both be missing.
type template map[string]any

// readTemplate reads the file, nil without a path.
func readTemplate(path string) (template, error) {
	if path == "" {
		return nil, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var read template
	if err := yaml.Unmarshal(content, &read); err != nil || len(read) == 0 {
		return nil, fmt.Errorf("failed to parse %s: %w", path, err)
	}
	return read, nil
}

// intoMetadata adds the template's labels and annotations, which win.
func (t template) intoMetadata(object *metav1.ObjectMeta) error {
	var given metav1.ObjectMeta
	metadata, _ := t["metadata"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(metadata, &given); err != nil {
		return err
	}
	if object.Labels == nil {
		object.Labels, object.Annotations = map[string]string{}, map[string]string{}
	}
	maps.Copy(object.Labels, given.Labels)
	maps.Copy(object.Annotations, given.Annotations)
	return nil
}

// into merges the template into a pod: its containers are added, but a container $job is merged into the job's; its
// volumes are added; every other field of its spec replaces the pod's.
func (t template) into(pod *corev1.Pod) error {
	if err := t.intoMetadata(&pod.ObjectMeta); err != nil {
		return err
	}
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pod.Spec)
	if err != nil {
		return err
	}
	given, _ := t["spec"].(map[string]any)
	containers, _ := given["containers"].([]any)
	for field, value := range given {
		switch field {
		case "containers":
		case "volumes":
			spec[field] = added(spec[field], value)
		default:
			spec[field] = value
		}
	}
	own := spec["containers"].([]any)
	for _, entry := range containers {
		from, _ := entry.(map[string]any)
		name, _ := from["name"].(string)
		if name == "$"+jobContainer {
			mergeContainer(own[0].(map[string]any), from)
		} else if !strings.HasPrefix(name, "$") {
			own = append(own, from)
		}
	}
	spec["containers"] = own
	pod.Spec = corev1.PodSpec{}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &pod.Spec)
}

// mergeContainer merges the template's container into another, whose name and image stay.
func mergeContainer(into, from map[string]any) {
	for field, value := range from {
		switch field {
		case "name", "image":
		case "env", "volumeMounts", "ports":
			into[field] = added(into[field], value)
		default:
			into[field] = value
		}
	}
}

// added returns a list followed by another.
func added(list, more any) []any {
	first, _ := list.([]any)
	second, _ := more.([]any)
	return append(first, second...)
}
