package listenertemplate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// template returns the parts of a template that the policy has. What it leaves out without a refusal of its own is
// found by addLost.
func (r *review) template(given *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	if given == nil {
		return nil
	}
	spec := &given.Spec
	kept := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      r.keys("metadata.labels", label, given.Labels),
			Annotations: r.keys("metadata.annotations", annotation, given.Annotations),
		},
		Spec: corev1.PodSpec{
			NodeSelector:                  spec.NodeSelector,
			Affinity:                      r.affinity("spec.affinity", spec.Affinity),
			Tolerations:                   r.tolerations("spec.tolerations", spec.Tolerations),
			TopologySpreadConstraints:     limited(r, "spec.topologySpreadConstraints", spec.TopologySpreadConstraints),
			SchedulerName:                 spec.SchedulerName,
			ImagePullSecrets:              limited(r, "spec.imagePullSecrets", spec.ImagePullSecrets),
			DNSConfig:                     spec.DNSConfig.DeepCopy(),
			HostAliases:                   limited(r, "spec.hostAliases", spec.HostAliases),
			TerminationGracePeriodSeconds: r.grace("spec", spec.TerminationGracePeriodSeconds),
			SecurityContext:               r.podSecurity("spec.securityContext", spec.SecurityContext),
			Volumes:                       r.volumes(spec.Volumes),
		},
	}
	if class := spec.PriorityClassName; class == "" || slices.Contains(r.policy.PriorityClasses, class) {
		kept.Spec.PriorityClassName = class
	} else {
		r.refuse("spec.priorityClassName", "pods of a higher class take the place of others; "+
			"flags.listenerPriorityClasses of the controller's chart doesn't have this one")
	}
	if off := spec.AutomountServiceAccountToken; off != nil && !*off {
		kept.Spec.AutomountServiceAccountToken = new(false)
	}
	for _, container := range limited(r, "spec.initContainers", spec.InitContainers) {
		r.refuse(element("spec.initContainers", container.Name), "listener pods have no init containers")
	}
	kept.Spec.Containers = r.containers(spec.Containers, kept.Spec.Volumes)
	return kept
}

// volumes returns the volumes without content of somebody else's: empty directories, and ConfigMaps of the manager's
// namespace, which are not for secrets.
func (r *review) volumes(given []corev1.Volume) (kept []corev1.Volume) {
	given = limited(r, "spec.volumes", given)
	for i := range given {
		volume, path := &given[i], element("spec.volumes", given[i].Name)
		switch {
		case volume.Name == ConfigVolume || volume.Name == TokenVolume:
			r.refuse(path, "a volume of the listener's own has this name")
			continue
		case slices.ContainsFunc(kept, func(other corev1.Volume) bool { return other.Name == volume.Name }):
			r.refuse(path, "there are two of this name")
			continue
		}
		allowed := corev1.Volume{Name: volume.Name}
		if source := volume.EmptyDir; source != nil {
			allowed.EmptyDir = &corev1.EmptyDirVolumeSource{Medium: source.Medium, SizeLimit: source.SizeLimit}
		} else if source := volume.ConfigMap; source != nil {
			allowed.ConfigMap = &corev1.ConfigMapVolumeSource{
				LocalObjectReference: source.LocalObjectReference,
				Items:                slices.Clone(source.Items),
				DefaultMode:          source.DefaultMode,
				Optional:             source.Optional,
			}
		} else if volume.VolumeSource != (corev1.VolumeSource{}) {
			continue
		}
		kept = append(kept, allowed)
	}
	return kept
}

// podSecurity returns the settings that are as strict as Pod Security "restricted" asks for.
func (r *review) podSecurity(path string, given *corev1.PodSecurityContext) *corev1.PodSecurityContext {
	if given == nil {
		return nil
	}
	return &corev1.PodSecurityContext{
		RunAsUser:           r.user(path, given.RunAsUser),
		RunAsGroup:          given.RunAsGroup,
		RunAsNonRoot:        r.only(path+".runAsNonRoot", given.RunAsNonRoot, true),
		FSGroup:             given.FSGroup,
		FSGroupChangePolicy: given.FSGroupChangePolicy,
		SupplementalGroups:  slices.Clone(given.SupplementalGroups),
		SeccompProfile:      r.seccomp(path, given.SeccompProfile),
		AppArmorProfile:     r.appArmor(path, given.AppArmorProfile),
	}
}

// containerSecurity returns the same of a container.
func (r *review) containerSecurity(path string, given *corev1.SecurityContext) *corev1.SecurityContext {
	if given == nil {
		return nil
	}
	return &corev1.SecurityContext{
		RunAsUser:                r.user(path, given.RunAsUser),
		RunAsGroup:               given.RunAsGroup,
		RunAsNonRoot:             r.only(path+".runAsNonRoot", given.RunAsNonRoot, true),
		ReadOnlyRootFilesystem:   given.ReadOnlyRootFilesystem,
		Privileged:               r.only(path+".privileged", given.Privileged, false),
		AllowPrivilegeEscalation: r.only(path+".allowPrivilegeEscalation", given.AllowPrivilegeEscalation, false),
		Capabilities:             r.capabilities(path+".capabilities", given.Capabilities),
		SeccompProfile:           r.seccomp(path, given.SeccompProfile),
		AppArmorProfile:          r.appArmor(path, given.AppArmorProfile),
	}
}

// tooWeak is the reason against a security setting.
const tooWeak = `it is weaker than Pod Security "restricted" demands`

func (r *review) user(path string, given *int64) *int64 {
	if given != nil && *given == 0 {
		r.refuse(path+".runAsUser", tooWeak)
		return nil
	}
	return given
}

// only returns given if it is the value that is strict.
func (r *review) only(path string, given *bool, strict bool) *bool {
	if given != nil && *given != strict {
		r.refuse(path, tooWeak)
		return nil
	}
	return given
}

// The capabilities of Pod Security "restricted": all are dropped, and one may be added.
const (
	allCapabilities = corev1.Capability("ALL")
	bindLowPorts    = corev1.Capability("NET_BIND_SERVICE")
)

func (r *review) capabilities(path string, given *corev1.Capabilities) *corev1.Capabilities {
	if given == nil {
		return nil
	}
	kept := &corev1.Capabilities{}
	if slices.Contains(given.Drop, allCapabilities) {
		kept.Drop = slices.Clone(given.Drop)
	} else if len(given.Drop) > 0 {
		r.refuse(path+".drop", tooWeak) // the list would replace the one that drops all
	}
	if slices.ContainsFunc(given.Add, func(c corev1.Capability) bool { return c != bindLowPorts }) {
		r.refuse(path+".add", tooWeak)
	} else {
		kept.Add = slices.Clone(given.Add)
	}
	return kept
}

func (r *review) seccomp(path string, given *corev1.SeccompProfile) *corev1.SeccompProfile {
	switch {
	case given == nil:
		return nil
	case given.Type != corev1.SeccompProfileTypeRuntimeDefault && given.Type != corev1.SeccompProfileTypeLocalhost:
		r.refuse(path+".seccompProfile", tooWeak)
		return nil
	}
	return &corev1.SeccompProfile{Type: given.Type, LocalhostProfile: given.LocalhostProfile}
}

func (r *review) appArmor(path string, given *corev1.AppArmorProfile) *corev1.AppArmorProfile {
	switch {
	case given == nil:
		return nil
	case given.Type != corev1.AppArmorProfileTypeRuntimeDefault:
		r.refuse(path+".appArmorProfile", "a profile of the node's can be weaker than the runtime's own")
		return nil
	}
	return &corev1.AppArmorProfile{Type: given.Type}
}

// containers returns the listener's container and the further ones whose image is allowed.
func (r *review) containers(given []corev1.Container, volumes []corev1.Volume) (kept []corev1.Container) {
	given = limited(r, "spec.containers", given)
	for i := range given {
		container, path := &given[i], element("spec.containers", given[i].Name)
		switch {
		case slices.ContainsFunc(kept, func(other corev1.Container) bool { return other.Name == container.Name }):
			r.refuse(path, "there are two of this name")
		case container.Name == v1alpha1.ListenerContainerName:
			kept = append(kept, r.listener(path, container, volumes))
		case slices.Contains(r.policy.SidecarImages, container.Image):
			kept = append(kept, r.sidecar(path, container, volumes))
		default:
			r.refuse(path+".image", "flags.listenerSidecarImages of the controller's chart doesn't have it")
		}
	}
	return kept
}
