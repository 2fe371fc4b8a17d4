package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// What the chart says of containers and of keys that it doesn't have: the rules of its templates _containers.tpl and _validation.tpl.

const (
	dindMode      = "dind"
	noVolumeMode  = "kubernetes-novolume"
	dindContainer = "dind"
	dindInit      = "init-dind-externals"
)

// written is the part of values that names containers, as the user wrote it.
type written struct {
	Template struct {
		Spec struct {
			Containers     []map[string]any `json:"containers"`
			InitContainers []map[string]any `json:"initContainers"`
			Volumes        []corev1.Volume  `json:"volumes"`
		} `json:"spec"`
	} `json:"template"`
}

// containers checks what a user says about the containers that the chart makes: runner, and in mode dind two more. The chart merges it, in
// whichever list it is, and refuses what can't be merged.
func (c *checks) containers(document []byte, mode string) {
	var given written
	if err := yaml.Unmarshal(document, &given); err != nil { // said by whoever decodes all values
		return
	}
	spec := &given.Template.Spec
	ours := map[string]any{"name": v1alpha1.RunnerContainerName, "image": "ghcr.io/actions/actions-runner:latest", "command": []any{"/home/runner/run.sh"}}
	if len(spec.Containers) == 0 { // as in the chart's values.yaml
		spec.Containers = []map[string]any{ours}
	}
	named := func(container map[string]any) bool { return container["name"] == v1alpha1.RunnerContainerName }
	adds := slices.Contains([]string{dindMode, kubernetesMode, noVolumeMode}, mode)
	c.require(adds || slices.ContainsFunc(slices.Concat(spec.Containers, spec.InitContainers), named), "NoRunnerContainer",
		"template.spec.containers has no container named runner, and without a container mode the chart adds none", "add one; the chart completes {name: runner}")
	spec.Containers = slices.DeleteFunc(spec.Containers, func(container map[string]any) bool { return reflect.DeepEqual(container, ours) })
	for _, name := range []string{v1alpha1.RunnerContainerName, dindInit, dindContainer} {
		own := c.ownContainer(&given, name)
		if own == nil {
			continue
		}
		image, restart := text(own["image"]), text(own["restartPolicy"])
		switch {
		case name == v1alpha1.RunnerContainerName:
			c.ownRunner(own)
		case mode != dindMode:
			c.require(image != "", "NoImage", fmt.Sprintf("the container %s has no image, and only containerMode.type dind completes it", name), "set that type, or give image")
		case name == dindContainer:
			c.require(cmp.Or(restart, "Always") == "Always", "InvalidValues", "restartPolicy of the container dind is "+restart+", but Docker runs beside the runner, as a sidecar",
				"use Always, or leave it out")
		case restart != "Always":
			for _, field := range []string{"lifecycle", "livenessProbe", "readinessProbe", "startupProbe"} {
				c.require(isEmpty(own[field]), "InvalidValues", fmt.Sprintf("the container %s has %s, which Kubernetes allows in no container that ends before the runner starts", name, field),
					"remove it")
			}
		}
	}
	seen := map[string]bool{}
	for i := range spec.Volumes {
		name := spec.Volumes[i].Name
		c.require(!seen[name], "InvalidValues", "template.spec.volumes has two entries named "+name, "remove one")
		seen[name] = true
	}
}

// ownContainer returns what both lists say about the container of the name, nil if neither has it, and reports where they contradict each
// other.
func (c *checks) ownContainer(given *written, name string) map[string]any {
	var own map[string]any
	for _, container := range slices.Concat(given.Template.Spec.Containers, given.Template.Spec.InitContainers) {
		if container["name"] != name {
			continue
		}
		if own == nil {
			own = map[string]any{}
		}
		for _, field := range slices.Sorted(maps.Keys(container)) {
			value := container[field]
			if isEmpty(value) {
				continue
			}
			c.require(own[field] == nil || reflect.DeepEqual(own[field], value), "InvalidValues",
				fmt.Sprintf("%s of the container %s is given twice, in different words", field, name), "a pod has one container "+name+": give "+field+" once")
			own[field] = value
		}
	}
	return own
}

// ownRunner checks the runner of values. Without an image it is fine: the chart fills in the default image and its command.
func (c *checks) ownRunner(own map[string]any) {
	if isEmpty(own["image"]) {
		return
	}
	container := &corev1.Container{Image: text(own["image"])}
	if !isEmpty(own["command"]) || !isEmpty(own["args"]) {
		container.Command = []string{"given"}
	}
	c.runner(container)
}

// isEmpty reports whether a value says nothing: to the chart, it is then as if it weren't there.
func isEmpty(value any) bool {
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	default:
		return false
	}
}

// experimental reports values of ARC's experimental chart with what replaces each, and returns their keys of the first level.
func (c *checks) experimental(fields map[string]any) []string {
	given, found := map[string]bool{}, map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(c.replaced)) {
		steps := strings.Split(path, ".")
		value, exists := fields[steps[0]]
		if !exists || value == nil {
			continue
		}
		given[steps[0]] = true
		for _, step := range steps[1:] {
			object, _ := value.(map[string]any)
			value = object[step]
		}
		if isEmpty(value) {
			continue
		}
		found[steps[0]] = true
		c.add("UnknownValue", path+" is a value of ARC's chart gha-runner-scale-set-experimental, which this chart doesn't have", "write instead: "+c.replaced[path])
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		c.require(found[key], "UnknownValue", key+" is a value of ARC's chart gha-runner-scale-set-experimental, which this chart doesn't have", "remove it")
	}
	return slices.Collect(maps.Keys(given))
}
