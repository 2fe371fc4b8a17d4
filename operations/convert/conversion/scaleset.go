// Package conversion makes values of one scale set from one object of ARC's legacy mode and the autoscalers that scale
// it. It is pure: From tells the story, and every other file is about one part of the values.
package conversion

import (
	"maps"
	"slices"
	"strings"

	"github.com/harrier-ci/harrier/operations/convert/legacy"
	"github.com/harrier-ci/harrier/operations/convert/remarks"
)

// runsOne: without an autoscaler and replicas, ARC runs one runner.
const runsOne = 1

// From makes values of an object. autoscalers are those that name it as their target, name is that of the scale set.
// The notes name the fields that have not become a value as they stand.
func From(
	object *legacy.Object, autoscalers []*legacy.Object, name string, given Given,
) (map[string]any, *remarks.Set, *remarks.Notes) {
	c := &conversion{
		Notes: remarks.Notes{Object: object.String()}, kind: object.Kind, given: given,
		values: map[string]any{}, metadata: map[string]any{}, spec: map[string]any{}, runner: map[string]any{},
		docker: map[string]any{}, daemon: map[string]option{}, claimed: map[string]bool{},
	}
	c.fields = legacy.NewFields(object.Fields, &c.Notes)
	spec := c.fields.Object("spec")
	switch c.kind {
	case legacy.Runner:
		c.config, c.pod = spec, spec
	case legacy.Set:
		c.config, c.pod = spec, spec.Object("template").Object("spec")
	default:
		c.config = spec.Object("template").Object("spec")
		c.pod = c.config
	}
	set := &remarks.Set{Name: name, Namespace: object.Namespace, From: object.String()}
	c.identity(object, name)
	c.address()
	c.labels(set)
	c.scaling(spec, autoscalers)
	c.containerMode()
	c.podParts(object)
	c.dockerDaemon()
	c.workVolume()
	c.untaken()
	c.assemble()
	set.Converted = c.Converted
	return c.values, set, &c.Notes
}

// identity takes the object's metadata. Bookkeeping of ARC and of Kubernetes does not concern a scale set.
func (c *conversion) identity(object *legacy.Object, name string) {
	for _, key := range []string{"apiVersion", "kind"} {
		c.fields.Any(key)
	}
	metadata := c.fields.Object("metadata")
	metadata.Any("namespace")
	metadata.Any("name")
	c.Became(metadata.Path("name"), "runnerScaleSetName")
	c.values["runnerScaleSetName"] = name
	switch {
	case object.Name == "":
		c.NeedsLook("NameChanged", "it has no name of its own, so the scale set is called "+name,
			remarks.Advice{Whose: remarks.Installer,
				Fix: "choose a name: rename the file, and change runnerScaleSetName in it"},
			metadata.Path("name"))
	case object.Name != name:
		c.NeedsLook("NameChanged", "the scale set is called "+name+
			": a name has up to 45 lower-case letters, digits, - and ., and no other scale set may have it",
			remarks.Advice{
				Whose: remarks.Installer,
				Fix:   "keep it, or choose another: rename the file, and change runnerScaleSetName in it",
			}, metadata.Path("name"))
	}
	if c.kind == legacy.Runner { // whose pod has its labels and annotations
		c.podMetadata(metadata)
	}
	metadata.NotNeeded("labels and annotations of the object itself are for other tools; values of their own are "+
		"resourceMeta.autoscalingRunnerSet.labels and annotations", "labels", "annotations")
	metadata.NotNeeded("Kubernetes wrote it", metadata.Keys()...)
	c.fields.NotNeeded("ARC wrote it, about runners that exist", "status")
	spec := c.fields.Object("spec")
	spec.NotNeeded("ARC wrote it", "effectiveTime")
	if c.kind != legacy.Runner {
		spec.NotNeeded("a scale set finds its runners by itself, and replaces idle ones when its template changes",
			"selector", "serviceName", "updateStrategy",
			"podManagementPolicy", "revisionHistoryLimit", "minReadySeconds", "ordinals",
			"persistentVolumeClaimRetentionPolicy")
		template := spec.Object("template")
		c.podMetadata(template.Object("metadata"))
	}
}

// podMetadata takes the labels and annotations of the runners' pods, without those that ARC wrote for itself.
func (c *conversion) podMetadata(metadata *legacy.Fields) {
	for _, kind := range []string{"labels", "annotations"} {
		part := metadata.Object(kind)
		kept := map[string]any{}
		for _, key := range part.Keys() {
			if ofTools(key) {
				part.NotNeeded("a tool wrote it for its own object", key)
				continue
			}
			c.Became(part.Path(key), "template.metadata."+kind+"."+key)
			kept[key] = part.Text(key)
		}
		if len(kept) > 0 {
			c.metadata[kind] = kept
		}
	}
	if c.kind != legacy.Runner {
		metadata.NotNeeded("the controller names pods, and has a finalizer of its own", metadata.Keys()...)
	}
}

// toolKeys are keys that tools, ARC among them, write on what is theirs; those that end in / have any name after it.
var toolKeys = []string{
	"kubectl.kubernetes.io/", "meta.helm.sh/", "helm.sh/", "app.kubernetes.io/managed-by", "argocd.argoproj.io/",
	"kustomize.toolkit.fluxcd.io/",
	"helm.toolkit.fluxcd.io/", "actions-runner-controller/", "actions-runner-controller", "actions-runner/",
	"actions-runner", "runner-template-hash", "pod-template-hash",
}

func ofTools(key string) bool {
	return slices.ContainsFunc(toolKeys,
		func(of string) bool { return key == of || (strings.HasSuffix(of, "/") && strings.HasPrefix(key, of)) })
}

// untaken names the fields that ARC doesn't have.
func (c *conversion) untaken() {
	if left := c.fields.Untaken(); len(left) > 0 {
		c.NeedsHand("UnknownField", "a "+c.kind+" has no such field, so ARC didn't use it either", remarks.Advice{
			Whose: remarks.Installer,
			Fix: "if it is a field of the runner, move it below " + c.config.Place() +
				" and convert again; if it is one of the pod, add it to template.spec in the values",
		}, left...)
	}
}

// assemble puts the parts of the template together.
func (c *conversion) assemble() {
	c.runner["name"] = "runner"
	containers := append([]any{c.runner}, c.containers...)
	if len(c.docker) > 0 && c.mode == modeDind {
		c.docker["name"] = "dind"
		c.initContainers = append([]any{c.docker}, c.initContainers...)
	}
	spec := maps.Clone(c.spec)
	spec["containers"] = containers
	if len(c.initContainers) > 0 {
		spec["initContainers"] = c.initContainers
	}
	if len(c.volumes) > 0 {
		spec["volumes"] = c.volumes
	}
	template := map[string]any{"spec": spec}
	if len(c.metadata) > 0 {
		template["metadata"] = c.metadata
	}
	c.values["template"] = template
}
