package conversion

import (
	"cmp"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/operations/convert/legacy"
	"github.com/harrier-ci/harrier/operations/convert/remarks"
	"github.com/harrier-ci/harrier/operations/dryrun"
	"github.com/harrier-ci/harrier/operations/finding"
)

// runnerImage is GitHub's image, in place of ARC's. GitHub has none for Windows, where windowsDirectory has the runner.
const (
	runnerImage      = "ghcr.io/actions/actions-runner:latest"
	windowsDirectory = `C:\actions-runner`
)

// maxNamed limits the things that a message names.
const maxNamed = 10

var (
	// runnerPodFields are the fields of a pod that RunnerDeployments and Runners have beside those of its containers
	// and volumes.
	runnerPodFields = []string{
		"affinity", "automountServiceAccountToken", "dnsConfig", "dnsPolicy", "enableServiceLinks", "hostAliases",
		"imagePullSecrets", "nodeSelector",
		"priorityClassName", "runtimeClassName", "securityContext", "terminationGracePeriodSeconds", "tolerations",
		"topologySpreadConstraints",
	}
	// setPodFields are those of RunnerSets, which have a pod of Kubernetes.
	setPodFields = slices.DeleteFunc(dryrun.FieldNames(reflect.TypeFor[corev1.PodSpec]()), func(name string) bool {
		return slices.Contains([]string{"containers", "initContainers", "ephemeralContainers", "volumes",
			"restartPolicy",
			"serviceAccount", "serviceAccountName"}, name)
	})
	volumeFields = dryrun.FieldNames(reflect.TypeFor[corev1.Volume]())
)

// podParts are the runner's pod. The fields come before the containers, some of which are about these.
func (c *conversion) podParts(object *legacy.Object) {
	c.directory()
	c.podFields()
	c.ownLabel(object)
	seen := map[string]bool{}
	for _, container := range c.pod.Objects("containers") {
		name := container.Text("name")
		switch again := seen[name]; {
		case name == "runner" && !again:
			if container.Has("image") {
				c.containerImage = imageField{container.Path("image"), container.Text("image")}
			}
			c.Became(container.Path("name"), runnerPath)
			c.container(container, runnerPath, c.runner)
		case name == "docker" && c.mode != modeDind:
			c.NotNeeded("there is no Docker in the pod", container.Place())
			container.Drop()
		case name == "docker" && !again:
			c.Became(container.Path("name"), dockerPath)
			c.container(container, dockerPath, c.docker)
		default:
			c.further(container, name, "containers")
		}
		seen[name] = true
	}
	if c.kind != legacy.Set {
		for _, container := range c.pod.Objects("sidecarContainers") {
			c.further(container, container.Text("name"), "containers")
		}
		c.besideContainers()
	}
	for _, container := range c.pod.Objects("initContainers") {
		c.further(container, container.Text("name"), "initContainers")
	}
	c.image()
	c.mountsAtFormerPlaces()
	c.claims()
	for _, volume := range c.pod.Objects("volumes") {
		name := volume.Text("name")
		if name == "" || c.hasVolume(name) {
			c.NeedsHand("InvalidField", "a volume needs a name of its own; it is left out",
				remarks.Advice{Whose: remarks.Installer, Fix: "correct template.spec.volumes"}, volume.Place())
			volume.Drop()
			continue
		}
		c.volumes = append(c.volumes, c.known(volume, volumeFields, "template.spec.volumes["+name+
			"]", map[string]any{"name": name}))
		c.nodesDocker(volume.Path("hostPath"), name)
	}
	c.volumeOwner()
}

// mountsAtFormerPlaces notes mounts below the directory of ARC's runner: GitHub's runner has another one.
func (c *conversion) mountsAtFormerPlaces() {
	if len(c.formerPlaces) == 0 || c.ownImage {
		return
	}
	var fields, paths []string
	for _, former := range c.formerPlaces {
		fields, paths = append(fields, former.field), append(paths, former.at)
	}
	c.NeedsLook("NoCounterpart", "GitHub's image has no "+finding.Listed(paths, maxNamed)+
		": the runner is in /home/runner",
		remarks.Advice{Whose: remarks.Installer, Fix: "correct mountPath in the values"}, fields...)
}

// directory takes the one in which the runner worked.
func (c *conversion) directory() {
	field := c.config.Present("workDir")
	c.workDirectory = cmp.Or(c.config.Text("workDir"), legacyWorkDirectory)
	if within(c.workDirectory, legacyWorkDirectory) || within(c.workDirectory, workDirectory) {
		c.NotNeeded("the runner works in "+workDirectory, field...)
		return
	}
	c.NeedsLook("NoCounterpart", "the runner works in "+workDirectory+
		", and no value changes that; mounts below the former directory are moved there",
		remarks.Advice{Whose: remarks.Author, Fix: "write $GITHUB_WORKSPACE where a workflow names the former directory"},
		field...)
}

// podFields are those that a pod template has under the same names.
func (c *conversion) podFields() {
	names := runnerPodFields
	if c.kind == legacy.Set {
		names = setPodFields
	}
	c.known(c.pod, names, "template.spec", c.spec)
	for _, from := range []struct {
		part *legacy.Fields
		key  string
	}{{c.config, "serviceAccountName"}, {c.pod, "serviceAccountName"}, {c.pod, "serviceAccount"}} {
		path := from.part.Path(from.key)
		if !from.part.Has(from.key) || (from.key == "serviceAccount" && c.kind != legacy.Set) {
			continue
		}
		account := from.part.Text(from.key)
		if c.spec["serviceAccountName"] == nil && account != "" {
			c.Became(path, "template.spec.serviceAccountName")
			c.spec["serviceAccountName"] = account
		} else {
			c.NotNeeded("the account is given elsewhere, or empty", path)
		}
	}
	if c.kind == legacy.Set {
		c.pod.NotNeeded("a runner starts once", "restartPolicy")
	}
	if path := c.pod.Path("ephemeralContainers"); c.pod.Has("ephemeralContainers") {
		c.pod.Any("ephemeralContainers")
		c.NeedsHand("NoCounterpart", "the API server takes no ephemeral containers in a new pod",
			remarks.Advice{Whose: remarks.Installer, Fix: "add them to template.spec.containers, or use kubectl debug"},
			path)
	}
}

// ownLabel keeps the label by which ARC's pods of an object are found, where a rule about their places asks for it.
func (c *conversion) ownLabel(object *legacy.Object) {
	key := map[string]string{legacy.Deployment: "runner-deployment-name", legacy.Set: "runnerset-name"}[c.kind]
	placement, err := json.Marshal([]any{c.spec["affinity"], c.spec["topologySpreadConstraints"]})
	if key == "" || object.Name == "" || err != nil || !strings.Contains(string(placement), `"`+key+`"`) {
		return
	}
	labels, _ := c.metadata["labels"].(map[string]any)
	if labels == nil {
		labels = map[string]any{}
	}
	if labels[key] == nil {
		labels[key] = object.Name
		c.Became("metadata.name", "template.metadata.labels."+key)
	}
	c.metadata["labels"] = labels
}

var (
	// arcImage matches images that ARC published for its legacy mode, and githubImage GitHub's, or a mirror.
	arcImage    = regexp.MustCompile(`(^|/)(summerwind|actions-runner-controller)/actions-runner(-dind)?(-rootless)?([:@]|$)`)
	githubImage = regexp.MustCompile(`(^|/)actions/actions-runner([:@]|$)`)
)

// image is the runner's. ARC's own starts with variables that no scale set gives it, and so does one that is based on
// it.
func (c *conversion) image() {
	path := c.config.Path("image")
	image := c.config.Text("image")
	if own := c.containerImage; own.text != "" && image == "" {
		image, path = own.text, own.field
	} else if own.field != "" {
		c.NotNeeded("the image of the whole object comes first", own.field)
	}
	c.rootless = strings.Contains(image, "rootless")
	switch {
	case image == "" || arcImage.MatchString(image):
		image = runnerImage
		c.NeedsLook("ImageReplaced", "ARC's image can't run in a scale set; GitHub's takes its place, which has "+
			"fewer tools",
			remarks.Advice{Whose: remarks.Builder, Fix: "if jobs need more than it has, build an image from " +
				runnerImage}, path)
	case !githubImage.MatchString(image):
		c.ownImage = true
		c.Became(path, runnerPath+".image")
		directory, base := "/home/runner", "build it from "+runnerImage
		if c.onWindows {
			directory, base = windowsDirectory, "build it"
		}
		c.NeedsHand("ImageToRebuild", "an image made for ARC starts with a script that registers the runner, which a "+
			"scale set has no use for",
			remarks.Advice{
				Whose: remarks.Builder,
				Fix:   base + " with the runner in " + directory + ", or see that it is there already",
			}, path)
	default:
		c.Became(path, runnerPath+".image")
	}
	c.runner["image"] = image
	if c.runner["command"] == nil && c.runner["args"] == nil {
		c.runner["command"] = []any{"/home/runner/run.sh"}
		if c.onWindows {
			c.runner["command"] = []any{"cmd.exe", "/c", windowsDirectory + `\run.cmd`}
		}
	} else {
		c.NeedsLook("NoCounterpart", "the container runner has a command or arguments of its own",
			remarks.Advice{Whose: remarks.Builder, Fix: "see that it ends in /home/runner/run.sh"})
	}
}

// claims of a RunnerSet are handed from runner to runner, as those of a scale set are. Those that it has stay where
// they are.
func (c *conversion) claims() {
	var templates []any
	for _, claim := range c.fields.Object("spec").Objects("volumeClaimTemplates") {
		metadata := claim.Object("metadata")
		name := metadata.Text("name")
		if name == "" || c.hasVolume(name) {
			c.NeedsHand("InvalidField", "a claim needs a name of its own; it is left out",
				remarks.Advice{Whose: remarks.Installer, Fix: "correct it and convert again"}, claim.Place())
			claim.Drop()
			continue
		}
		c.claimed[name] = true
		target := "volumeClaimTemplates[" + name + "]"
		c.Became(metadata.Path("name"), target+".metadata.name")
		kept := c.known(metadata, []string{"labels", "annotations"}, target+".metadata", map[string]any{"name": name})
		metadata.NotNeeded("the controller names the claims", metadata.Keys()...)
		claim.NotNeeded("the API server writes it", "apiVersion", "kind", "status")
		c.Became(claim.Path("spec"), target+".spec")
		templates = append(templates, map[string]any{"metadata": kept, "spec": claim.Any("spec")})
		c.NeedsLook("NewClaims", "the volume "+name+
			" is passed from runner to runner, as ARC does; the first runners get new ones, which are empty",
			remarks.Advice{
				Whose: remarks.Installer,
				Fix: "if the runner's user can't write them, set template.spec.securityContext.fsGroup, to 1001 for " +
					"GitHub's image; delete the RunnerSet's claims once it is gone",
			}, claim.Place())
	}
	if len(templates) > 0 {
		c.values["volumeClaimTemplates"] = templates
	}
}
