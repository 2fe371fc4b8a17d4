package dryrun

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podoptions "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	cluster "k8s.io/kubernetes/pkg/capabilities"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Checks of a pod beyond the types of its fields, by the API server's own package. It accepts a set with a template that
// they refuse, and then refuses all of the set's pods.

// podSpec is the spec in a template of pods.
type podSpec struct {
	corev1.PodSpec
	// partial: it is merged into another template, which may have the images and the volumes that this one lacks.
	partial bool
	// claims are the set's volumeClaimTemplates, which add volumes.
	claims []v1alpha1.VolumeClaimTemplate
}

// refused returns what the API server would refuse in a pod of the template, which is at a place.
func (t *podSpec) refused(at *field.Path) (faults []Fault, err error) {
	if t.partial {
		t.complete()
	}
	for i := range t.Volumes {
		if own := t.Volumes[i].Ephemeral; own != nil && own.VolumeClaimTemplate != nil {
			completeClaim(&own.VolumeClaimTemplate.Spec)
		}
	}
	for _, claim := range t.claims { // the set makes a volume of each for its runners
		t.addVolume(claim.Metadata.Name)
	}
	t.ServiceAccountName = cmp.Or(t.ServiceAccountName, "default") // as the API server does
	t.RestartPolicy = ""                                           // whoever makes the pod has his own
	made := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "namespace"}, Spec: t.PodSpec}
	defaults.SetObjectDefaults_Pod(made)
	pod := &core.Pod{}
	if err := defaults.Convert_v1_Pod_To_core_Pod(made, pod, nil); err != nil {
		return nil, err
	}
	allowPrivileged()
	for _, one := range validation.ValidatePodCreate(pod, optionsFor(pod)) {
		one.Field = at.String() + strings.TrimPrefix(one.Field, "spec")
		faults = append(faults, faultOfField(one))
	}
	for i := range t.claims {
		more, err := refusedOfClaim(&t.claims[i].Spec, field.NewPath("spec", "volumeClaimTemplates").Index(i))
		if err != nil {
			return nil, err
		}
		faults = append(faults, more...)
	}
	return faults, nil
}

// completeClaim adds what a claim must have: that it lacks something is a finding of its own.
func completeClaim(spec *corev1.PersistentVolumeClaimSpec) {
	if len(spec.AccessModes) == 0 {
		spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	}
	if _, sized := spec.Resources.Requests[corev1.ResourceStorage]; !sized {
		if spec.Resources.Requests == nil {
			spec.Resources.Requests = corev1.ResourceList{}
		}
		spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("1")
	}
}

// allowPrivileged has privileged containers, which clusters allow by default.
var allowPrivileged = sync.OnceFunc(func() {
	cluster.Initialize(cluster.Capabilities{AllowPrivileged: true})
})

// keyed matches a key in brackets in a path of the API server's.
var keyed = regexp.MustCompile(`\[([^\]]*[^\]0-9][^\]]*)\]`)

// faultOfField makes a fault of an error. A value with parts would be shown with Go's names: it is left out.
func faultOfField(refused *field.Error) Fault {
	if shown, err := json.Marshal(refused.BadValue); err != nil || shown[0] == '{' {
		refused.BadValue = ""
	}
	return Fault{Path: keyed.ReplaceAllString(refused.Field, ".$1"), Message: refused.ErrorBody()}
}

// optionsFor are those of the newest API server that is supported, with the features that some clusters have and others
// don't: Validate knows no cluster, and refuses what all of them refuse.
func optionsFor(pod *core.Pod) validation.PodValidationOptions {
	options := podoptions.GetValidationOptionsFromPodSpecAndMeta(&pod.Spec, nil, &pod.ObjectMeta, nil)
	options.ResourceIsPod = true
	options.AllowTaintTolerationComparisonOperators = true
	options.AllowRelaxedEnvironmentVariableValidation = true
	options.AllowRelaxedDNSSearchValidation = true
	options.AllowEnvFilesValidation = true
	options.AllowUserNamespacesHostNetworkSupport = true
	options.AllowContainerRestartPolicyRules = true
	options.AllowRestartAllContainers = true
	options.AllowPodLifecycleSleepActionZeroValue = true
	options.AllowSidecarResizePolicy = true
	return options
}

// complete adds what the template lacks and the one may have that it is merged into.
func (t *podSpec) complete() {
	t.ServiceAccountName = "" // a listener has its own, whatever its template says
	if len(t.Containers) == 0 {
		t.Containers = []corev1.Container{{Name: "of-the-other-template"}}
	}
	for _, containers := range [][]corev1.Container{t.Containers, t.InitContainers} {
		for i := range containers {
			container := &containers[i]
			container.Name = strings.TrimPrefix(container.Name, "$") // container hooks name the job's container $job
			if container.Image == "" {
				container.Image = "image"
			}
			for _, mount := range container.VolumeMounts {
				t.addVolume(mount.Name)
			}
			for _, device := range container.VolumeDevices {
				t.addVolume(device.Name)
			}
		}
	}
}

// addVolume adds a volume that the template lacks.
func (t *podSpec) addVolume(name string) {
	if !slices.ContainsFunc(t.Volumes, func(volume corev1.Volume) bool { return volume.Name == name }) {
		t.Volumes = append(t.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}})
	}
}

// refusedOfClaim returns what the API server would refuse in the claims of a template.
func refusedOfClaim(spec *corev1.PersistentVolumeClaimSpec, at *field.Path) (faults []Fault, err error) {
	given := &corev1.PersistentVolumeClaimTemplate{Spec: *spec}
	defaults.SetDefaults_PersistentVolumeClaimSpec(&given.Spec)
	var claim core.PersistentVolumeClaimTemplate
	if err := defaults.Convert_v1_PersistentVolumeClaimTemplate_To_core_PersistentVolumeClaimTemplate(given, &claim,
		nil); err != nil {
		return nil, err
	}
	options := validation.ValidationOptionsForPersistentVolumeClaimTemplate(&claim, nil)
	options.EnableVolumeAttributesClass = true
	for _, one := range validation.ValidatePersistentVolumeClaimTemplate(&claim, at, options) {
		faults = append(faults, faultOfField(one))
	}
	return faults, nil
}
