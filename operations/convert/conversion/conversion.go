package conversion

import (
	"slices"
	"time"

	"github.com/harrier-ci/harrier/operations/convert/legacy"
	"github.com/harrier-ci/harrier/operations/convert/remarks"
)

// Given has what the objects lack.
type Given struct {
	// GitHubURL is the address of GitHub, without a slash at its end. Secret is the name of the Secret of sets whose
	// objects name none, or empty.
	GitHubURL, Secret string
	// Now is the time: an override that is over needs nothing.
	Now time.Time
}

// conversion is one legacy object on its way to values of a scale set.
type conversion struct {
	remarks.Notes
	kind   string
	fields *legacy.Fields
	// config has the fields of the runner's registration, and pod those of its pod: in most kinds they stand in one
	// object.
	config, pod *legacy.Fields
	values      map[string]any
	// metadata and spec are those of the template, without the parts below.
	metadata, spec map[string]any
	// runner and docker are the containers runner and dind; docker's has an effect in mode dind only.
	runner, docker             map[string]any
	containers, initContainers []any
	volumes                    []any
	// claimed are the volumes in whose place claims of volumeClaimTemplates stand.
	claimed map[string]bool
	// shared are mounts of the runner that a daemon in its container saw below the work directory. formerPlaces are
	// those of its mounts below the directory of ARC's runner.
	shared       []any
	formerPlaces []place
	// mode is the container mode, dockerInRunner whether the daemon ran in the runner's container.
	mode           string
	dockerInRunner bool
	containerImage imageField
	// onWindows: the runner's nodes have Windows.
	onWindows bool
	// daemon has, of the variables of ARC's image for a daemon in the runner's container, those with a value.
	daemon map[string]option
	// ownImage: the runner's image is one that ARC doesn't publish. rootless: it is one of those with Docker without
	// root.
	ownImage, rootless bool
	// The legacy runner worked in workDirectory.
	workDirectory string
	given         Given
}

// imageField is a field that gives the image of the container runner, and the image.
type imageField struct{ field, text string }

// place is a path at which a field mounts something, and option the text of a field.
type (
	place  struct{ field, at string }
	option struct{ field, value string }
)

// Where the values of the two containers are.
const (
	runnerPath = "template.spec.containers[runner]"
	dockerPath = "template.spec.initContainers[dind]"
)

// Container modes of the chart.
const (
	modeDind               = "dind"
	modeKubernetes         = "kubernetes"
	modeKubernetesNoVolume = "kubernetes-novolume"
)

// The directories in which ARC's image has the runner and works, and in which GitHub's works.
const (
	legacyDirectory, legacyWorkDirectory = "/runner", "/runner/_work"
	workDirectory                        = "/home/runner/_work"
)

// known takes the fields that Kubernetes has. Others are left, to be named as unknown.
func (c *conversion) known(part *legacy.Fields, names []string, target string, into map[string]any) map[string]any {
	for _, key := range part.Keys() {
		if slices.Contains(names, key) && key != "" {
			c.Became(part.Path(key), target+"."+key)
			into[key] = part.Any(key)
		}
	}
	return into
}

// hasVolume reports whether the template has a volume of a name.
func (c *conversion) hasVolume(name string) bool {
	for _, volume := range c.volumes {
		if fields, _ := volume.(map[string]any); fields["name"] == name {
			return true
		}
	}
	return c.claimed[name]
}
