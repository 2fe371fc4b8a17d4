package conversion

import (
	"path"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/operations/convert/legacy"
	"github.com/harrier-ci/harrier/operations/convert/remarks"
	"github.com/harrier-ci/harrier/operations/dryrun"
)

var (
	containerFields = dryrun.FieldNames(reflect.TypeFor[corev1.Container]())
	mountFields     = dryrun.FieldNames(reflect.TypeFor[corev1.VolumeMount]())
)

// container converts a container into one that may have something already. target is its place among the values.
func (c *conversion) container(part *legacy.Fields, target string, into map[string]any) map[string]any {
	c.listed(part, "env", target, into)
	c.listed(part, "volumeMounts", target, into)
	return c.known(part, containerFields, target, into)
}

// listed converts a list of variables or mounts, and adds it to those of a container.
func (c *conversion) listed(part *legacy.Fields, key, target string, into map[string]any) {
	convert, name := c.mounts, "volumeMounts"
	if strings.HasSuffix(strings.ToLower(key), "env") {
		convert, name = c.variables, "env"
	}
	added := convert(part, key, target)
	if own, _ := into[name].([]any); len(own)+len(added) > 0 {
		into[name] = append(own, added...)
	}
}

// further is a container that is neither the runner nor Docker.
func (c *conversion) further(part *legacy.Fields, name, list string) {
	taken := slices.Contains([]string{"", "runner", "docker"}, name) ||
		(c.mode == modeDind && slices.Contains([]string{"dind", "init-dind-externals"}, name))
	if taken {
		c.NeedsHand("InvalidField", "a container needs a name of its own, which neither ARC nor the container "+
			"mode has for another; it is left out",
			remarks.Advice{Whose: remarks.Installer, Fix: "add it to template.spec." + list + " under another name"},
			part.Place())
		part.Drop()
		return
	}
	container := c.container(part, "template.spec."+list+"["+name+"]", map[string]any{})
	container["name"] = name
	c.Became(part.Path("name"), "template.spec."+list+"["+name+"].name")
	if list == "containers" {
		c.containers = append(c.containers, container)
	} else {
		c.initContainers = append(c.initContainers, container)
	}
}

// besideContainers are fields of a RunnerDeployment about the containers runner and docker. What these say themselves
// comes first.
func (c *conversion) besideContainers() {
	for _, field := range []struct {
		from, to, target string
		container        map[string]any
	}{
		{"imagePullPolicy", "imagePullPolicy", runnerPath, c.runner},
		{"env", "env", runnerPath, c.runner},
		{"envFrom", "envFrom", runnerPath, c.runner},
		{"resources", "resources", runnerPath, c.runner},
		{"volumeMounts", "volumeMounts", runnerPath, c.runner},
		{"dockerEnv", "env", dockerPath, c.docker},
		{"dockerVolumeMounts", "volumeMounts", dockerPath, c.docker},
		{"dockerdContainerResources", "resources", dockerPath, c.docker},
	} {
		if !c.pod.Has(field.from) {
			continue
		}
		switch ofDocker := field.target == dockerPath; {
		case ofDocker && c.mode != modeDind:
			c.pod.NotNeeded("there is no Docker in the pod", field.from)
		case ofDocker && c.dockerInRunner:
			c.NeedsLook("NoCounterpart", "ARC doesn't use it with dockerdWithinRunnerContainer: true, so it is "+
				"left out",
				remarks.Advice{
					Whose: remarks.Installer,
					Fix: "Docker has a container of its own now: add it to " + dockerPath + "." + field.to +
						" if it is still wanted",
				}, c.pod.Path(field.from))
			c.pod.Any(field.from)
		case field.to == "resources":
			c.resources(field.from, field.target, field.container)
		case field.container[field.to] != nil && field.from != "volumeMounts":
			c.pod.NotNeeded("the container itself has it, which ARC prefers", field.from)
		case field.to == "env" || field.to == "volumeMounts":
			c.listed(c.pod, field.from, field.target, field.container)
		default:
			c.Became(c.pod.Path(field.from), field.target+"."+field.to)
			field.container[field.to] = c.pod.Any(field.from)
		}
	}
}

// resources gives a container those of the pod's requests, limits and claims that it lacks; its own win.
func (c *conversion) resources(from, target string, container map[string]any) {
	part := c.pod.Object(from)
	into, _ := container["resources"].(map[string]any)
	if into == nil {
		into = map[string]any{}
	}
	for _, key := range []string{"requests", "limits", "claims"} {
		if !part.Has(key) {
			continue
		}
		if into[key] != nil {
			part.NotNeeded("the container itself has it, which ARC prefers", key)
			continue
		}
		c.Became(part.Path(key), target+".resources."+key)
		into[key] = part.Any(key)
	}
	if len(into) > 0 {
		container["resources"] = into
	}
}

// dockerPlaces are the directories in which a daemon in the runner's container has its data and its settings, each with
// that of the container dind.
var dockerPlaces = [][2]string{
	{"/var/lib/docker", "/var/lib/docker"},
	{"/etc/docker", "/etc/docker"},
	{"/home/runner/.local/share/docker", "/var/lib/docker"},
	{"/home/runner/.config/docker", "/etc/docker"},
}

// mounts converts the mounts of a container. What is mounted for a daemon in the runner's container is mounted in the
// container dind, and below the work directory in both. Containers with images of their own keep their paths.
func (c *conversion) mounts(part *legacy.Fields, key, target string) (mounts []any) {
	var unseen []string
	for _, mount := range part.Objects(key) {
		at, field := mount.Text("mountPath"), mount.Path("mountPath")
		target, moved, ofDocker := target, at, false
		if target == runnerPath || target == dockerPath {
			moved, ofDocker = c.place(at, target == runnerPath && c.dockerInRunner)
		}
		if ofDocker {
			target = dockerPath
		}
		c.Became(field, target+".volumeMounts: "+moved)
		converted := c.known(mount, mountFields, target+".volumeMounts", map[string]any{"mountPath": moved})
		if ofDocker {
			own, _ := c.docker["volumeMounts"].([]any)
			c.docker["volumeMounts"] = append(own, converted)
			continue
		}
		mounts = append(mounts, converted)
		if target != runnerPath {
			continue
		}
		if moved == at && within(at, legacyDirectory) {
			c.formerPlaces = append(c.formerPlaces, place{field, at})
		}
		switch {
		case !c.dockerInRunner:
		case within(moved, workDirectory):
			c.Became(field, dockerPath+".volumeMounts: "+moved)
			c.shared = append(c.shared, converted)
		default:
			unseen = append(unseen, field)
		}
	}
	if len(unseen) > 0 {
		c.NeedsLook("NoCounterpart", "Docker ran in the runner's container and saw what is mounted there; in the "+
			"container dind it doesn't, so docker run -v of such a path finds an empty directory",
			remarks.Advice{
				Whose: remarks.Installer,
				Fix:   "if containers of jobs need it, add the same mounts to " + dockerPath + ".volumeMounts",
			}, unseen...)
	}
	return mounts
}

// place returns the present place of a path of ARC's image, and whether Docker's container has it.
func (c *conversion) place(at string, dockerInIt bool) (moved string, ofDocker bool) {
	for _, directory := range []string{c.workDirectory, legacyWorkDirectory} {
		if within(at, directory) {
			return workDirectory + strings.TrimPrefix(path.Clean(at), path.Clean(directory)), false
		}
	}
	for _, place := range dockerPlaces {
		if dockerInIt && within(at, place[0]) {
			return place[1] + strings.TrimPrefix(path.Clean(at), place[0]), true
		}
	}
	return at, false
}

func within(at, directory string) bool {
	at, directory = path.Clean(at), path.Clean(directory)
	return at == directory || (strings.HasPrefix(at, directory+"/") && directory != "/")
}
