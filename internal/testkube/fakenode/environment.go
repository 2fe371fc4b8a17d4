package fakenode

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// environment resolves a container's env and envFrom. It fails if a Secret, a ConfigMap or a key that is not optional
// is missing.
func (p *player) environment(ctx context.Context, container corev1.Container) (map[string]string, error) {
	resolved := map[string]string{}
	for _, source := range container.EnvFrom {
		values, err := p.allOf(ctx, source)
		if err != nil {
			return nil, err
		}
		for key, value := range values {
			resolved[source.Prefix+key] = value
		}
	}
	for _, variable := range container.Env {
		if variable.ValueFrom == nil {
			resolved[variable.Name] = expand(variable.Value, resolved)
			continue
		}
		value, found, err := p.valueFrom(ctx, variable.ValueFrom)
		if err != nil {
			return nil, err
		}
		if found {
			resolved[variable.Name] = value
		}
	}
	return resolved, nil
}

// allOf returns every key of an envFrom source.
func (p *player) allOf(ctx context.Context, source corev1.EnvFromSource) (map[string]string, error) {
	if ref := source.SecretRef; ref != nil {
		return p.secret(ctx, ref.Name, ref.Optional)
	}
	if ref := source.ConfigMapRef; ref != nil {
		return p.configMap(ctx, ref.Name, ref.Optional)
	}
	return nil, nil
}

// valueFrom returns one key or field. If it is optional and missing, the variable stays unset, as on a real node.
func (p *player) valueFrom(ctx context.Context, source *corev1.EnvVarSource) (value string, found bool, err error) {
	var values map[string]string
	var key, name string
	var optional *bool
	switch {
	case source.SecretKeyRef != nil:
		ref := source.SecretKeyRef
		key, name, optional = ref.Key, ref.Name, ref.Optional
		values, err = p.secret(ctx, name, optional)
	case source.ConfigMapKeyRef != nil:
		ref := source.ConfigMapKeyRef
		key, name, optional = ref.Key, ref.Name, ref.Optional
		values, err = p.configMap(ctx, name, optional)
	case source.FieldRef != nil:
		value, found = p.field(source.FieldRef.FieldPath)
		return value, found, nil
	default:
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	value, found = values[key]
	if !found && !isTrue(optional) {
		return "", false, fmt.Errorf("couldn't find key %s in %s/%s", key, p.pod.Namespace, name)
	}
	return value, found, nil
}

func isTrue(b *bool) bool { return b != nil && *b }

func (p *player) secret(ctx context.Context, name string, optional *bool) (map[string]string, error) {
	values := map[string]string{}
	err := p.node.bounded(ctx, func(ctx context.Context) error {
		secret, err := p.node.clientset.CoreV1().Secrets(p.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			for key, value := range secret.Data {
				values[key] = string(value)
			}
		}
		return err
	})
	return values, unlessOptional(err, optional)
}

func (p *player) configMap(ctx context.Context, name string, optional *bool) (map[string]string, error) {
	values := map[string]string{}
	err := p.node.bounded(ctx, func(ctx context.Context) error {
		configMap, err := p.node.clientset.CoreV1().ConfigMaps(p.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			maps.Copy(values, configMap.Data)
		}
		return err
	})
	return values, unlessOptional(err, optional)
}

// unlessOptional returns err unless it says that an optional object does not exist.
func unlessOptional(err error, optional *bool) error {
	if isTrue(optional) && apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// mapField matches the field paths of single labels and annotations.
var mapField = regexp.MustCompile(`^metadata\.(labels|annotations)\['(.+)'\]$`)

// field resolves a field of the downward API, and returns false for those that this node does not support.
func (p *player) field(path string) (string, bool) {
	if match := mapField.FindStringSubmatch(path); match != nil {
		values := p.pod.Labels
		if match[1] == "annotations" {
			values = p.pod.Annotations
		}
		return values[match[2]], true
	}
	value, found := map[string]string{
		"metadata.name":           p.pod.Name,
		"metadata.namespace":      p.pod.Namespace,
		"metadata.uid":            string(p.pod.UID),
		"spec.nodeName":           p.pod.Spec.NodeName,
		"spec.serviceAccountName": p.pod.Spec.ServiceAccountName,
		"status.hostIP":           nodeAddress,
		"status.podIP":            nodeAddress,
	}[path]
	return value, found
}

// reference matches $(NAME), and $$ as the escape of a dollar sign.
var reference = regexp.MustCompile(`\$\$|\$\([^)]+\)`)

// expand replaces references to known variables and leaves others as they are.
func expand(text string, variables map[string]string) string {
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		if found == "$$" {
			return "$"
		}
		if value, known := variables[strings.TrimSuffix(strings.TrimPrefix(found, "$("), ")")]; known {
			return value
		}
		return found
	})
}
