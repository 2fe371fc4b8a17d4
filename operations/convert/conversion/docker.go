package conversion

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/harrier-ci/harrier/operations/convert/remarks"
)

// containerMode decides how jobs get containers. ARC runs Docker beside the runner unless it is told otherwise.
func (c *conversion) containerMode() {
	docker, hooks := c.config.Present("dockerEnabled", "dockerdWithinRunnerContainer"),
		c.config.Present("containerMode")
	given := c.config.Text("containerMode")
	beside := c.config.Flag("dockerEnabled", true)
	inRunner := c.config.Flag("dockerdWithinRunnerContainer", false)
	settings := map[string]any{}
	switch {
	case given == modeKubernetes:
		c.mode = modeKubernetes
		c.Became(hooks[0], "containerMode.type")
		c.NotNeeded("there is no Docker in mode kubernetes", docker...)
		c.hooksVolume(settings)
	case c.onWindows:
		c.NotNeeded("runners on Windows have no container mode", append(docker, hooks...)...)
	default:
		c.dockerInRunner = inRunner
		if beside || inRunner {
			c.mode = modeDind
		}
		for _, field := range docker {
			c.Became(field, fmt.Sprintf("containerMode.type: %q", c.mode))
		}
		c.NotNeeded("ARC's controller knows kubernetes alone; dockerEnabled and dockerdWithinRunnerContainer "+
			"decide about Docker", hooks...)
	}
	c.config.NotNeeded("ARC uses it with containerMode: kubernetes only", "workVolumeClaimTemplate")
	if c.mode != "" {
		settings["type"] = c.mode
		c.values["containerMode"] = settings
	}
}

// hooksVolume is the volume that runner and job pods share in mode kubernetes.
func (c *conversion) hooksVolume(settings map[string]any) {
	if !c.config.Has("workVolumeClaimTemplate") {
		c.mode = modeKubernetesNoVolume
		c.NeedsHand("NoWorkVolume", "containerMode: kubernetes needs a workVolumeClaimTemplate; without one, the "+
			"mode is kubernetes-novolume", remarks.Advice{
			Whose: remarks.Builder, Fix: "see that the runner's image has the hooks in " +
				"/home/runner/k8s-novolume, or set kubernetesModeWorkVolumeClaim and the type kubernetes",
		}, c.config.Path("containerMode"))
		return
	}
	claim := c.config.Object("workVolumeClaimTemplate")
	spec := map[string]any{}
	for _, key := range []string{"accessModes", "storageClassName", "resources"} {
		if claim.Has(key) {
			c.Became(claim.Path(key), "containerMode.kubernetesModeWorkVolumeClaim."+key)
			spec[key] = claim.Any(key)
		}
	}
	settings["kubernetesModeWorkVolumeClaim"] = spec
}

// runnerUser is the user of GitHub's image, which must be able to write the work volume.
const runnerUser = 1001

// volumeOwner gives the work volume to the runner's group: ARC's image changed its owner by itself, as root.
func (c *conversion) volumeOwner() {
	security, ok := c.spec["securityContext"].(map[string]any)
	if c.mode != modeKubernetes || c.ownImage || (c.spec["securityContext"] != nil && !ok) ||
		security["fsGroup"] != nil {
		return
	}
	owned := map[string]any{"fsGroup": runnerUser}
	for key, value := range security {
		owned[key] = value
	}
	c.spec["securityContext"] = owned
	c.NeedsLook("Added", fmt.Sprintf("template.spec.securityContext.fsGroup is %d, so that the user of GitHub's image "+
		"can write the work volume; ARC's image changed the owner itself", runnerUser),
		remarks.Advice{Whose: remarks.Installer, Fix: "change it if your image has another user"})
}

// nodesSocket matches the paths on a node with the socket of its own Docker.
var nodesSocket = regexp.MustCompile(`^/(var/)?run(/docker\.sock)?$`)

// nodesDocker notes that the last volume has the socket of the node's Docker, beside the Docker of the pod.
func (c *conversion) nodesDocker(field, name string) {
	volume, _ := c.volumes[len(c.volumes)-1].(map[string]any)
	source, _ := volume["hostPath"].(map[string]any)
	at, _ := source["path"].(string)
	if c.mode != modeDind || !nodesSocket.MatchString(path.Clean(at)) {
		return
	}
	c.NeedsLook("TwoDockers", fmt.Sprintf("the volume %s has the socket of the node's Docker, and the mode dind runs "+
		"another one in a privileged container: jobs may use either, and whoever has the node's socket has the node",
		name), remarks.Advice{
		Whose: remarks.Installer,
		Fix: "remove the volume and its mounts if jobs are to use the pod's Docker; or, if they are to use the " +
			"node's, remove containerMode",
	}, field)
}

// dockerDaemon converts the settings of Docker to arguments of the container dind.
func (c *conversion) dockerDaemon() {
	if c.mode != modeDind {
		why := "there is no Docker in the pod"
		c.config.NotNeeded(why, "dockerMTU", "dockerRegistryMirror", "dockerVarRunVolumeSizeLimit")
		return
	}
	var flags []any
	if path := c.config.Path("dockerMTU"); c.config.Has("dockerMTU") {
		if mtu := c.config.Count("dockerMTU"); mtu != nil {
			c.Became(path, dockerPath+".args")
			flags = append(flags, fmt.Sprintf("--mtu=%d", *mtu),
				fmt.Sprintf("--default-network-opt=bridge=com.docker.network.driver.mtu=%d", *mtu))
		}
	}
	if path := c.config.Path("dockerRegistryMirror"); c.config.Has("dockerRegistryMirror") {
		if mirror := c.config.Text("dockerRegistryMirror"); mirror != "" {
			c.Became(path, dockerPath+".args")
			flags = append(flags, "--registry-mirror="+mirror)
		}
	}
	flags = append(flags, c.daemonFlags()...)
	if len(flags) > 0 {
		own, _ := c.docker["args"].([]any)
		c.docker["args"] = append(append([]any{}, own...), flags...)
	}
	if c.docker["command"] != nil && c.docker["args"] != nil {
		c.NeedsLook("NoCounterpart", "the container docker has a command of its own, whose arguments are no "+
			"longer those with which ARC starts dockerd",
			remarks.Advice{
				Whose: remarks.Installer,
				Fix: "see that " + dockerPath + ".args start dockerd at unix:///var/run/docker.sock, or remove " +
					"the command",
			})
	}
	if path := c.config.Path("dockerVarRunVolumeSizeLimit"); c.config.Has("dockerVarRunVolumeSizeLimit") {
		c.Became(path, "template.spec.volumes[dind-sock].emptyDir.sizeLimit")
		c.volumes = append(c.volumes, map[string]any{
			"name":     "dind-sock",
			"emptyDir": map[string]any{"medium": "Memory", "sizeLimit": c.config.Any("dockerVarRunVolumeSizeLimit")},
		})
	}
	c.sharedMounts()
	c.seLinux()
	c.dockerResources()
}

// daemonFlags are the options of a daemon in the runner's container, as dockerd takes them.
func (c *conversion) daemonFlags() (flags []any) {
	base, size := c.daemon[poolBase], c.daemon[poolSize]
	switch {
	case base.value != "" && size.value != "":
		c.Became(base.field, dockerPath+".args")
		c.Became(size.field, dockerPath+".args")
		flags = append(flags, "--default-address-pool=base="+base.value+",size="+size.value)
	case base.value != "" || size.value != "":
		c.NeedsLook("NoCounterpart", "ARC's image uses "+poolBase+" and "+poolSize+" only together, so one alone is "+
			"left out",
			remarks.Advice{
				Whose: remarks.Installer,
				Fix:   "add --default-address-pool=base=…,size=… to " + dockerPath + ".args if it is wanted",
			}, cmp.Or(base.field, size.field))
	}
	for _, known := range []struct{ variable, flag string }{{"MTU", "--mtu="},
		{"DOCKER_REGISTRY_MIRROR", "--registry-mirror="}, {"DOCKER_INSECURE_REGISTRY", "--insecure-registry="}} {
		if given := c.daemon[known.variable]; given.value != "" {
			c.Became(given.field, dockerPath+".args")
			flags = append(flags, known.flag+given.value)
		}
	}
	return flags
}

// references are the variables in a path of a mount.
var references = regexp.MustCompile(`\$\(([^()]+)\)`)

// sharedMounts gives Docker the mounts of the runner that it saw in the runner's container, and the variables in the
// paths of its mounts.
func (c *conversion) sharedMounts() {
	mounts, _ := c.docker["volumeMounts"].([]any)
	has := func(list []any, key string, value any) bool {
		return slices.ContainsFunc(list, func(entry any) bool {
			fields, _ := entry.(map[string]any)
			return fields[key] == value
		})
	}
	for _, mount := range c.shared {
		if fields, _ := mount.(map[string]any); !has(mounts, "mountPath", fields["mountPath"]) {
			mounts = append(mounts, mount)
		}
	}
	if len(mounts) == 0 || !c.dockerInRunner {
		return
	}
	c.docker["volumeMounts"] = mounts
	variables, _ := c.docker["env"].([]any)
	ofRunner, _ := c.runner["env"].([]any)
	for _, mount := range mounts {
		fields, _ := mount.(map[string]any)
		path, _ := fields["subPathExpr"].(string)
		for _, reference := range references.FindAllStringSubmatch(path, -1) {
			at := slices.IndexFunc(ofRunner, func(entry any) bool {
				fields, _ := entry.(map[string]any)
				return fields["name"] == reference[1]
			})
			if at >= 0 && !has(variables, "name", reference[1]) {
				variables = append(variables, ofRunner[at])
			}
		}
	}
	if len(variables) > 0 {
		c.docker["env"] = variables
	}
}

// seLinux: where the pod has SELinux options, ARC gives them to Docker in place of the privilege.
func (c *conversion) seLinux() {
	security, _ := c.spec["securityContext"].(map[string]any)
	if options := security["seLinuxOptions"]; options != nil && c.docker["securityContext"] == nil &&
		!c.dockerInRunner {
		c.docker["securityContext"] = map[string]any{"privileged": false, "seLinuxOptions": options}
		c.Became(c.pod.Path("securityContext.seLinuxOptions"), dockerPath+".securityContext")
	}
}

// dockerResources: a daemon that shared the runner's container shared its resources, too.
func (c *conversion) dockerResources() {
	if c.dockerInRunner && c.runner["resources"] != nil && c.docker["resources"] == nil {
		c.NeedsLook("NoCounterpart", "Docker ran in the runner's container and had its resources; now it runs in the "+
			"container dind, which has none",
			remarks.Advice{
				Whose: remarks.Installer,
				Fix:   "divide the resources between " + runnerPath + " and " + dockerPath + ".resources",
			})
	}
	if image, _ := c.docker["image"].(string); strings.Contains(image, "rootless") || c.rootless {
		c.NeedsLook("NoCounterpart", "Docker ran without root; the container dind runs it as root",
			remarks.Advice{Whose: remarks.Installer, Fix: `see "Docker without root" in docs/container-modes.md`})
	}
}

// workVolume is the emptyDir that ARC mounts at the runner's directory. GitHub's image has the runner in the image, and
// works below it.
func (c *conversion) workVolume() {
	volume := map[string]any{}
	fields := c.config.Present("volumeSizeLimit", "volumeStorageMedium")
	if len(fields) == 0 {
		return
	}
	limit, medium := c.config.Any("volumeSizeLimit"), c.config.Text("volumeStorageMedium")
	zero := limit == float64(0) || limit == "0"
	if limit != nil && !zero {
		volume["sizeLimit"] = limit
	}
	if medium != "" {
		volume["medium"] = medium
	}
	switch {
	case len(volume) == 0:
		c.NotNeeded("no volume covers the directory of the runner any more", fields...)
	case c.mode == modeKubernetes || c.mode == modeKubernetesNoVolume || c.hasVolume("work"):
		c.NeedsLook("NoCounterpart", "it was about ARC's volume at /runner; the work directory has a volume of its "+
			"own here",
			remarks.Advice{
				Whose: remarks.Installer, Fix: "limit the volume work instead, or the runner's " +
					"resources.limits[ephemeral-storage]",
			}, fields...)
	default:
		for _, field := range fields {
			c.Became(field, "template.spec.volumes[work].emptyDir")
		}
		c.volumes = append(c.volumes, map[string]any{"name": "work", "emptyDir": volume})
		if c.mode == "" { // in mode dind the chart mounts it
			mounts, _ := c.runner["volumeMounts"].([]any)
			c.runner["volumeMounts"] = append(mounts, map[string]any{"name": "work", "mountPath": workDirectory})
		}
	}
}
