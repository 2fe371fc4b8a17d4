package podtrial

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// tokenPath is where the kubelet mounts the token of a pod's account, and every client of Kubernetes looks for it.
const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// ofToken begins the name of the volume that the API server makes for the token of a pod's account.
const ofToken = "kube-api-access-"

// maxNamed limits what is named of a difference: a condition is read by people.
const maxNamed = 10

// Difference is what has become of a pod between the request and the API server's answer to it: policies and webhooks
// change pods.
type Difference struct {
	// Lost is what the pod needs and has not got, or got otherwise. Added is what was changed or added besides: mirrors
	// change images, meshes add containers, and both are honest.
	Lost, Added []string
}

// Compare compares a pod as it was asked for with the API server's answer to a dry run. needsToken is set if programs in
// the pod call the API server, whoever mounts the token. Both are pods of any type that becomes their JSON.
func Compare(asked, got any, needsToken bool) (Difference, error) {
	var before, after object
	for of, into := range map[*object]any{&before: asked, &after: got} {
		content, err := json.Marshal(into)
		if err == nil {
			err = json.Unmarshal(content, of)
		}
		if err != nil {
			return Difference{}, fmt.Errorf("compare pods: %w", err)
		}
	}
	d := &Difference{}
	d.metadata(before.part("metadata"), after.part("metadata"))
	d.spec(before.part("spec"), after.part("spec"), needsToken)
	d.Lost, d.Added = named(d.Lost), named(d.Added)
	return *d, nil
}

// Append adds what became of another pod, with words that say of which.
func (d *Difference) Append(of string, other Difference) {
	for _, lost := range other.Lost {
		d.Lost = append(d.Lost, of+lost)
	}
	for _, added := range other.Added {
		d.Added = append(d.Added, of+added)
	}
}

// named sorts what is named, and cuts it.
func named(all []string) []string {
	slices.Sort(all)
	all = slices.Compact(all)
	if more := len(all) - maxNamed; more > 0 {
		all = append(all[:maxNamed:maxNamed], fmt.Sprintf("%d more", more))
	}
	return all
}

// metadata finds labels that are gone or have other values: by some the pod is found, and quotas, budgets and network
// policies select by others.
func (d *Difference) metadata(asked, got object) {
	labels := got.part("labels")
	for key, value := range asked.part("labels") {
		if jsonOf(labels[key]) != jsonOf(value) {
			d.lost("label %s", key)
		}
	}
}

func (d *Difference) spec(asked, got object, needsToken bool) {
	if account := asked.text("serviceAccountName"); account != "" && got.text("serviceAccountName") != account {
		d.lost("account %s (it gets %q)", account, got.text("serviceAccountName"))
	}
	selector := got.part("nodeSelector")
	for key, value := range asked.part("nodeSelector") {
		if jsonOf(selector[key]) != jsonOf(value) {
			d.lost("nodeSelector %s=%v", key, value)
		}
	}
	for _, field := range []string{"runtimeClassName", "priorityClassName", "schedulerName", "hostUsers"} {
		if value, given := asked[field]; given && jsonOf(got[field]) != jsonOf(value) {
			d.lost("%s %v", field, value)
		}
	}
	d.gone(asked, got, "affinity", "topologySpreadConstraints", "resourceClaims")
	d.volumes(asked.by("volumes", "name"), got.by("volumes", "name"))
	for _, field := range []string{"initContainers", "containers"} {
		d.containers(asked.by(field, "name"), got.by(field, "name"))
	}
	if needsToken && !slices.ContainsFunc(asked.list("containers"), hasToken) &&
		!slices.ContainsFunc(got.list("containers"), hasToken) {
		d.lost("the token of its account")
	}
	for _, field := range []string{"tolerations", "imagePullSecrets"} {
		d.entries(field, asked.list(field), texts(got.list(field)))
	}
}

// gone finds fields that are gone as a whole. What is added to them is others' business.
func (d *Difference) gone(asked, got object, fields ...string) {
	for _, field := range fields {
		if _, kept := got[field]; asked[field] != nil && !kept {
			d.lost("its %s", field)
		}
	}
}

// entries finds entries of a list that are gone.
func (d *Difference) entries(field string, asked []object, kept []string) {
	for _, entry := range asked {
		if !slices.Contains(kept, jsonOf(entry)) {
			d.lost("one of its %s", field)
		}
	}
}

// volumes finds volumes that are gone, or come from elsewhere.
func (d *Difference) volumes(asked, got map[string]object) {
	for name, volume := range asked {
		if kept, found := got[name]; !found || source(kept) != source(volume) {
			d.lost("volume %s", name)
		}
	}
	for name := range got {
		if _, found := asked[name]; !found && !strings.HasPrefix(name, ofToken) {
			d.added("volume %s", name)
		}
	}
}

// source says where a volume comes from: the kind, and what it names there. Everything else has defaults.
func source(volume object) string {
	for kind := range volume {
		if kind == "name" {
			continue
		}
		words := []string{kind}
		from := volume.part(kind)
		for _, field := range []string{"secretName", "name", "claimName", "path", "driver"} {
			if name := from.text(field); name != "" {
				words = append(words, field+"="+name)
			}
		}
		return strings.Join(words, " ")
	}
	return "emptyDir" // what the API server makes of a volume without a source
}

func (d *Difference) containers(asked, got map[string]object) {
	for name, container := range asked {
		kept, found := got[name]
		if !found {
			d.lost("container %s", name)
			continue
		}
		if image := kept.text("image"); image != container.text("image") {
			d.added("image of container %s: %s", name, image)
		}
		for _, field := range []string{"command", "args"} {
			if given, is := container[field]; is && jsonOf(given) != jsonOf(kept[field]) {
				d.lost("%s of container %s", field, name)
			}
		}
		d.container(name, container, kept)
	}
	for name, container := range got {
		if _, found := asked[name]; !found {
			d.added("container %s (%s)", name, container.text("image"))
		}
	}
}

// container finds mounts and variables that are gone.
func (d *Difference) container(name string, asked, got object) {
	mounts := got.by("volumeMounts", "mountPath")
	for path, mount := range asked.by("volumeMounts", "mountPath") {
		switch kept, found := mounts[path]; {
		case found && kept.text("name") == mount.text("name"):
		case path == tokenPath:
			d.lost("the token of its account in container %s", name)
		default:
			d.lost("the mount of volume %s in container %s", mount.text("name"), name)
		}
	}
	variables := got.by("env", "name")
	for variable, value := range asked.by("env", "name") {
		if kept, found := variables[variable]; !found || kept.text("value") != value.text("value") {
			d.lost("variable %s of container %s", variable, name)
		}
	}
}

func hasToken(container object) bool {
	_, mounted := container.by("volumeMounts", "mountPath")[tokenPath]
	return mounted
}

func (d *Difference) lost(format string, words ...any) {
	d.Lost = append(d.Lost, fmt.Sprintf(format, words...))
}

func (d *Difference) added(format string, words ...any) {
	d.Added = append(d.Added, fmt.Sprintf(format, words...))
}

// object is an object as JSON has it.
type object map[string]any

func (o object) text(field string) string { text, _ := o[field].(string); return text }

func (o object) part(field string) object { part, _ := o[field].(map[string]any); return part }

func (o object) list(field string) (all []object) {
	entries, _ := o[field].([]any)
	for _, entry := range entries {
		if one, ok := entry.(map[string]any); ok {
			all = append(all, one)
		}
	}
	return all
}

// by returns the entries of a list by one of their fields.
func (o object) by(field, key string) map[string]object {
	all := map[string]object{}
	for _, entry := range o.list(field) {
		all[entry.text(key)] = entry
	}
	return all
}

// texts returns the JSON of each, by which they are compared.
func texts(all []object) (lines []string) {
	for _, one := range all {
		lines = append(lines, jsonOf(one))
	}
	return lines
}

// jsonOf returns the JSON of a value that came from JSON, which can't fail.
func jsonOf(value any) string {
	content, _ := json.Marshal(value)
	return string(content)
}
