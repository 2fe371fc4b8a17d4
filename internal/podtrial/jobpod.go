package podtrial

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// ErrTemplate says that the container hooks can't use their template.
var ErrTemplate = errors.New("the template of job pods is no pod template")

// What the hooks of GitHub's runner image are, and what they read.
const (
	envHookNamespace = "ACTIONS_RUNNER_KUBERNETES_NAMESPACE"
	envJobContainer  = "ACTIONS_RUNNER_REQUIRE_JOB_CONTAINER"
	envRunnerImage   = "ACTIONS_RUNNER_IMAGE"
	volumeHooks      = "/k8s/index.js"
	copyingHooks     = "/k8s-novolume/index.js"
	// jobContainer is the name of the job's container, in a template with a $ before it. Further containers that begin
	// so are for services, which a job may have or not.
	jobContainer = "job"
	// defaultImage is that of the init container of a runner which names none.
	defaultImage = "ghcr.io/actions/actions-runner:latest"
	// The volumes of a job's pod: the work directory, the runner's Node.js, and files about the event.
	workVolume, externalsVolume, githubVolume = "work", "externals", "github"
	// runnerUser is the user and group of GitHub's image, as whom the hooks have files copied.
	runnerUser = 1001
	// maxTemplate limits what is parsed: a ConfigMap has at most 1 MiB, and no template is that long.
	maxTemplate = 128 << 10
)

// Source is the key of a ConfigMap that has the template of job pods.
type Source struct{ ConfigMap, Key string }

// Hooks says what a runner's pod tells of the pods that its hooks make for jobs.
type Hooks struct {
	// Template is where their template is, empty without one.
	Template Source
	// Required is set if jobs without a container fail, so that no job can run without such a pod.
	Required bool
	copies   bool
}

// HooksOf returns nil if the runner has no container hooks of its image's, or nobody can say which pods they would make:
// they make them elsewhere, or have a template that only the runner can read.
func HooksOf(runner *corev1.Pod) *Hooks {
	container := kube.Container(&runner.Spec, v1alpha1.RunnerContainerName)
	program, _ := kube.RunnerEnv(&runner.Spec, kube.EnvContainerHooks)
	hooks := &Hooks{copies: strings.HasSuffix(program, copyingHooks)}
	if container == nil || (!hooks.copies && !strings.HasSuffix(program, volumeHooks)) {
		return nil
	}
	if namespace, _ := kube.RunnerEnv(&runner.Spec, envHookNamespace); namespace != "" && namespace != runner.Namespace {
		return nil
	}
	required, _ := kube.RunnerEnv(&runner.Spec, envJobContainer)
	hooks.Required = required == "true"
	file, named := kube.RunnerEnv(&runner.Spec, kube.EnvHookTemplate)
	mayBeNamed := slices.ContainsFunc(container.EnvFrom, func(from corev1.EnvFromSource) bool {
		return strings.HasPrefix(kube.EnvHookTemplate, from.Prefix)
	})
	switch {
	case !named && mayBeNamed:
		return nil
	case file == "":
		return hooks
	}
	var found bool
	hooks.Template, found = sourceOf(&runner.Spec, container, file)
	if !found {
		return nil
	}
	return hooks
}

// sourceOf returns the key of a ConfigMap that is mounted as the file, if that is where it comes from.
func sourceOf(spec *corev1.PodSpec, container *corev1.Container, file string) (Source, bool) {
	for _, mount := range container.VolumeMounts {
		inside, below := strings.CutPrefix(path.Clean(file)+"/", path.Clean(mount.MountPath)+"/")
		i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if !below || i < 0 || spec.Volumes[i].ConfigMap == nil {
			continue
		}
		config, key := spec.Volumes[i].ConfigMap, path.Join(mount.SubPath, inside)
		item := slices.IndexFunc(config.Items, func(item corev1.KeyToPath) bool { return item.Path == key })
		if item >= 0 {
			key = config.Items[item].Key
		}
		return Source{ConfigMap: config.Name, Key: key}, true
	}
	return Source{}, false
}

// JobPod returns the pod that the hooks would make for a job with a container and no services. The job's image, which
// only its workflow knows, is the runner's: policies about images admit that one. It is not typed: the template's
// quantities, which may take minutes to compute, are the API server's to read.
func (h *Hooks) JobPod(runner *corev1.Pod, template string) (*unstructured.Unstructured, error) {
	image := kube.Image(&runner.Spec, v1alpha1.RunnerContainerName)
	job := map[string]any{
		"name": jobContainer, "image": image, "command": []any{"tail"}, "args": []any{"-f", "/dev/null"},
		"volumeMounts": []any{mount(workVolume, "/__w")},
	}
	spec := map[string]any{"restartPolicy": string(corev1.RestartPolicyNever), "containers": []any{job}}
	if h.copies {
		ofRunner, _ := kube.RunnerEnv(&runner.Spec, envRunnerImage)
		spec["securityContext"] = map[string]any{"fsGroup": int64(runnerUser)}
		var volumes, mounts []any
		for _, name := range []string{externalsVolume, githubVolume, workVolume} {
			volumes = append(volumes, map[string]any{"name": name, "emptyDir": map[string]any{}})
			mounts = append(mounts, mount(name, "/mnt/"+name))
		}
		spec["volumes"] = volumes
		spec["initContainers"] = []any{map[string]any{
			"name": "fs-init", "image": cmp.Or(ofRunner, defaultImage), "command": []any{"sh", "-c", "true"},
			"securityContext": map[string]any{"runAsUser": int64(runnerUser), "runAsGroup": int64(runnerUser)},
			"volumeMounts":    mounts,
		}}
		job["volumeMounts"] = []any{mount(externalsVolume, "/__e"), mount(workVolume, "/__w"),
			mount(githubVolume, "/github")}
	} else {
		claim, _ := kube.RunnerEnv(&runner.Spec, kube.EnvWorkClaim)
		spec["volumes"] = []any{map[string]any{"name": workVolume, "persistentVolumeClaim": map[string]any{
			"claimName": cmp.Or(claim, runner.Name+"-"+workVolume)}}}
	}
	pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": spec}}
	pod.SetNamespace(runner.Namespace)
	pod.SetName(runner.Name + kube.JobPodSuffix)
	labels := map[string]string{v1alpha1.LabelRunnerPod: runner.Name, v1alpha1.LabelRunnerBusy: v1alpha1.RunnerBusy}
	for _, key := range []string{v1alpha1.LabelScaleSetName, v1alpha1.LabelScaleSetNamespace} {
		labels[key] = runner.Labels[key]
	}
	pod.SetLabels(labels)
	if template == "" {
		return pod, nil
	}
	return pod, merge(pod, template)
}

// ImageProbe returns the runner's pod under the name and the labels of a job's. Where that is refused as well as the
// job's pod, though the runner's own is admitted, it isn't for anything in the job's spec but its image, for which the
// runner's stands.
func ImageProbe(runner *corev1.Pod, job *unstructured.Unstructured) *corev1.Pod {
	probe := runner.DeepCopy()
	probe.Name, probe.Labels = job.GetName(), job.GetLabels()
	for key, value := range runner.Labels {
		if _, has := probe.Labels[key]; !has {
			probe.Labels[key] = value
		}
	}
	return probe
}

func mount(volume, at string) map[string]any { return map[string]any{"name": volume, "mountPath": at} }

// merge does with the template what the hooks do: containers and volumes are added, what is said of the container $job
// goes into the job's, labels and annotations win, and every other field of its spec replaces the pod's.
func merge(pod *unstructured.Unstructured, template string) error {
	if len(template) > maxTemplate {
		return fmt.Errorf("%w: it has %d bytes, and more than %d are not read", ErrTemplate, len(template), maxTemplate)
	}
	var given struct {
		Metadata struct {
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec map[string]any `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(template), &given); err != nil {
		return fmt.Errorf("%w: %w", ErrTemplate, err)
	}
	labels, annotations := pod.GetLabels(), map[string]string{}
	for key, value := range given.Metadata.Labels {
		labels[key] = value
	}
	for key, value := range given.Metadata.Annotations {
		annotations[key] = value
	}
	pod.SetLabels(labels)
	pod.SetAnnotations(annotations)
	spec := pod.Object["spec"].(map[string]any)
	for field, value := range given.Spec {
		switch field {
		case "containers":
		case "volumes":
			spec[field] = joined(spec[field], value)
		default:
			spec[field] = value
		}
	}
	own := spec["containers"].([]any)
	containers, _ := given.Spec["containers"].([]any)
	for _, entry := range containers {
		container, _ := entry.(map[string]any)
		switch name, _ := container["name"].(string); {
		case name == "$"+jobContainer:
			mergeContainer(own[0].(map[string]any), container)
		case !strings.HasPrefix(name, "$"):
			own = append(own, entry)
		}
	}
	spec["containers"] = own
	return nil
}

// mergeContainer merges what the template says of the job's container, whose name and image stay.
func mergeContainer(job, given map[string]any) {
	for field, value := range given {
		switch field {
		case "name", "image":
		case "env", "volumeMounts", "ports":
			job[field] = joined(job[field], value)
		default:
			job[field] = value
		}
	}
}

func joined(list, more any) []any {
	first, _ := list.([]any)
	second, _ := more.([]any)
	return append(slices.Clone(first), second...)
}
