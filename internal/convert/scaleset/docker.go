package scaleset

import (
	"fmt"
	"strings"

	"github.com/harrier-ci/harrier/internal/convert/report"
)

// containerMode decides how jobs get containers. ARC runs Docker beside the runner unless it is told otherwise.
func (c *conversion) containerMode() {
	docker, hooks := c.config.Present("dockerEnabled", "dockerdWithinRunnerContainer"), c.config.Present("containerMode")
	given := c.config.Text("containerMode")
	beside := c.config.Flag("dockerEnabled", true)
	inRunner := c.config.Flag("dockerdWithinRunnerContainer", false)
	selector, _ := c.pod.Peek("nodeSelector").(map[string]any)
	c.onWindows = selector["kubernetes.io/os"] == "windows"
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
		c.NotNeeded("ARC's controller knows kubernetes alone; dockerEnabled and dockerdWithinRunnerContainer decide about Docker", hooks...)
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
		c.NeedsHand("NoWorkVolume", "containerMode: kubernetes needs a workVolumeClaimTemplate; without one, the mode is kubernetes-novolume", report.Advice{
			Whose: report.Builder, Fix: "see that the runner's image has the hooks in /home/runner/k8s-novolume, or set kubernetesModeWorkVolumeClaim and the type kubernetes",
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
	security, is := c.spec["securityContext"].(map[string]any)
	if c.mode != modeKubernetes || c.ownImage || c.spec["securityContext"] != nil && !is || security["fsGroup"] != nil {
		return
	}
	owned := map[string]any{"fsGroup": runnerUser}
	for key, value := range security {
		owned[key] = value
	}
	c.spec["securityContext"] = owned
	c.NeedsLook("Added", fmt.Sprintf("template.spec.securityContext.fsGroup is %d, so that the user of GitHub's image can write the work volume; ARC's image changed the owner itself", runnerUser),
		report.Advice{Whose: report.Installer, Fix: "change it if your image has another user"})
}

// dockerDaemon converts what is said about Docker to what the container dind is told.
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
			flags = append(flags, fmt.Sprintf("--mtu=%d", *mtu), fmt.Sprintf("--default-network-opt=bridge=com.docker.network.driver.mtu=%d", *mtu))
		}
	}
	if path := c.config.Path("dockerRegistryMirror"); c.config.Has("dockerRegistryMirror") {
		if mirror := c.config.Text("dockerRegistryMirror"); mirror != "" {
			c.Became(path, dockerPath+".args")
			flags = append(flags, "--registry-mirror="+mirror)
		}
	}
	if pool := c.daemon["DOCKER_DEFAULT_ADDRESS_POOL_BASE"]; pool != "" && c.daemon["DOCKER_DEFAULT_ADDRESS_POOL_SIZE"] != "" {
		flags = append(flags, "--default-address-pool=base="+pool+",size="+c.daemon["DOCKER_DEFAULT_ADDRESS_POOL_SIZE"])
	}
	for _, option := range []struct{ variable, flag string }{{"MTU", "--mtu="}, {"DOCKER_REGISTRY_MIRROR", "--registry-mirror="}, {"DOCKER_INSECURE_REGISTRY", "--insecure-registry="}} {
		if value := c.daemon[option.variable]; value != "" {
			flags = append(flags, option.flag+value)
		}
	}
	if len(flags) > 0 {
		own, _ := c.docker["args"].([]any)
		c.docker["args"] = append(append([]any{}, own...), flags...)
	}
	if c.docker["command"] != nil && c.docker["args"] != nil {
		c.NeedsLook("NoCounterpart", "the container docker has a command of its own, whose arguments are no longer those with which ARC starts dockerd",
			report.Advice{Whose: report.Installer, Fix: "see that " + dockerPath + ".args start dockerd at unix:///var/run/docker.sock, or remove the command"})
	}
	if path := c.config.Path("dockerVarRunVolumeSizeLimit"); c.config.Has("dockerVarRunVolumeSizeLimit") {
		c.Became(path, "template.spec.volumes[dind-sock].emptyDir.sizeLimit")
		c.volumes = append(c.volumes, map[string]any{"name": "dind-sock", "emptyDir": map[string]any{"medium": "Memory", "sizeLimit": c.config.Any("dockerVarRunVolumeSizeLimit")}})
	}
	c.seLinux()
	c.dockerResources()
}

// seLinux: where the pod has SELinux options, ARC gives them to Docker in place of the privilege.
func (c *conversion) seLinux() {
	security, _ := c.spec["securityContext"].(map[string]any)
	if options := security["seLinuxOptions"]; options != nil && c.docker["securityContext"] == nil && !c.dockerInRunner {
		c.docker["securityContext"] = map[string]any{"privileged": false, "seLinuxOptions": options}
		c.Became(c.pod.Path("securityContext.seLinuxOptions"), dockerPath+".securityContext")
	}
}

// dockerResources: a daemon that shared the runner's container shared its resources, too.
func (c *conversion) dockerResources() {
	if c.dockerInRunner && c.runner["resources"] != nil && c.docker["resources"] == nil {
		c.NeedsLook("NoCounterpart", "Docker ran in the runner's container and had its resources; now it runs in the container dind, which has none",
			report.Advice{Whose: report.Installer, Fix: "divide the resources between " + runnerPath + " and " + dockerPath + ".resources"})
	}
	if image, _ := c.docker["image"].(string); strings.Contains(image, "rootless") || c.rootless {
		c.NeedsLook("NoCounterpart", "Docker ran without root; the container dind runs it as root",
			report.Advice{Whose: report.Installer, Fix: `see "Docker without root" in docs/container-modes.md`})
	}
}

// workVolume is the emptyDir that ARC mounts at the runner's directory. GitHub's image has the runner in the image, and works below it.
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
		c.NeedsLook("NoCounterpart", "it was about ARC's volume at /runner; the work directory has a volume of its own here", report.Advice{
			Whose: report.Installer, Fix: "limit the volume work instead, or the runner's resources.limits[ephemeral-storage]",
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
