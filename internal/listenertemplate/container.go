package listenertemplate

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/listener/config"
)

// listener returns the fields of the listener's container that a template may have: its resources, probes and security
// context, and variables and files that replace neither the program nor what the manager tells it.
func (r *review) listener(place string, given *corev1.Container, volumes []corev1.Volume) corev1.Container {
	if IsARCImage(given.Image) {
		r.refuse(place+".image", ReasonARCImage)
	}
	return corev1.Container{
		Name:            given.Name,
		ImagePullPolicy: given.ImagePullPolicy, // of the manager's own image
		Resources:       r.resources(place+".resources", &given.Resources),
		Env:             r.variables(place+".env", given.Env, refusedVariable),
		VolumeMounts:    r.mounts(place+".volumeMounts", given.VolumeMounts, volumes, r.listenersOwn),
		StartupProbe:    r.probe(place+".startupProbe", given.StartupProbe),
		LivenessProbe:   r.probe(place+".livenessProbe", given.LivenessProbe),
		ReadinessProbe:  r.probe(place+".readinessProbe", given.ReadinessProbe),
		SecurityContext: r.containerSecurity(place+".securityContext", given.SecurityContext),
	}
}

// sidecar returns the fields that a template may have of a further container, whose image the operator of the manager
// trusts with a place in this pod: neither the token nor a volume of the listener's own is in it, and it meets Pod
// Security "restricted".
func (r *review) sidecar(place string, given *corev1.Container, volumes []corev1.Volume) corev1.Container {
	anything := func(string) string { return "" }
	kept := corev1.Container{
		Name:            given.Name,
		Image:           given.Image,
		ImagePullPolicy: given.ImagePullPolicy,
		Command:         slices.Clone(given.Command),
		Args:            slices.Clone(given.Args),
		WorkingDir:      given.WorkingDir,
		Ports:           r.ports(place+".ports", given.Ports),
		Resources:       r.resources(place+".resources", &given.Resources),
		Env:             r.variables(place+".env", given.Env, anything),
		VolumeMounts:    r.mounts(place+".volumeMounts", given.VolumeMounts, volumes, anything),
		StartupProbe:    r.probe(place+".startupProbe", given.StartupProbe),
		LivenessProbe:   r.probe(place+".livenessProbe", given.LivenessProbe),
		ReadinessProbe:  r.probe(place+".readinessProbe", given.ReadinessProbe),
		SecurityContext: cmp.Or(
			r.containerSecurity(place+".securityContext", given.SecurityContext), &corev1.SecurityContext{},
		),
	}
	// The pod's own settings have the rest of what "restricted" demands.
	security := kept.SecurityContext
	security.AllowPrivilegeEscalation = new(false)
	if security.Capabilities == nil {
		security.Capabilities = &corev1.Capabilities{}
	}
	if len(security.Capabilities.Drop) == 0 {
		security.Capabilities.Drop = []corev1.Capability{allCapabilities}
	}
	return kept
}

// ReasonARCImage explains that ARC's image is left out of the listener's container: our command and probes don't fit
// it, so it would open a session and be killed, every minute.
const ReasonARCImage = "it is the image of actions-runner-controller, which no policy allows, as it can't be " +
	"Harrier's listener: remove it, and the manager's own image is used"

// arcImages matches the images of ARC's publishers, without tag and digest, also where a registry mirrors them under
// their whole names.
var arcImages = regexp.MustCompile(`(^|/)(ghcr[.]io/(actions|actions-runner-controller)|` +
	`([a-z0-9-]+[.])?docker[.]io/summerwind)/(gha-runner-scale-set-controller|actions-runner-controller)$|` +
	`^summerwind/actions-runner-controller`)

// IsARCImage reports whether an image is ARC's manager by its publisher's name. A mirror under another name may be one
// of Harrier's, whose image has the same name. The charts have the same rule.
func IsARCImage(image string) bool {
	name, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(image)), "@")
	parent, repository := path.Split(name)
	repository, _, _ = strings.Cut(repository, ":")
	return arcImages.MatchString(parent + repository)
}

// withoutARCImage returns the template without ARC's image in the listener's container.
func (r *review) withoutARCImage(template *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	if template == nil {
		return nil
	}
	given := kube.Container(&template.Spec, v1alpha1.ListenerContainerName)
	if given == nil || !IsARCImage(given.Image) {
		return template
	}
	r.refuse(element("spec.containers", given.Name)+".image", ReasonARCImage)
	template = template.DeepCopy()
	kube.Container(&template.Spec, v1alpha1.ListenerContainerName).Image = ""
	return template
}

// ports returns the ports without a place on the node.
func (r *review) ports(place string, given []corev1.ContainerPort) (kept []corev1.ContainerPort) {
	for _, port := range limited(r, place, given) {
		if port.HostPort != 0 || port.HostIP != "" {
			r.refuse(
				element(place, strconv.Itoa(int(port.ContainerPort)))+".hostPort",
				"ports of the node are not for scale sets",
			)
		}
		kept = append(kept, corev1.ContainerPort{
			Name:          port.Name,
			ContainerPort: port.ContainerPort,
			Protocol:      port.Protocol,
		})
	}
	return kept
}

// variables returns those that refer to no Secret, and whose name refused has nothing against.
func (r *review) variables(
	place string, given []corev1.EnvVar, refused func(name string) string,
) (kept []corev1.EnvVar) {
	given = limited(r, place, given)
	for i := range given {
		variable, where := &given[i], element(place, given[i].Name)
		if reason := refused(variable.Name); reason != "" {
			r.refuse(where, reason)
			continue
		}
		allowed := corev1.EnvVar{Name: variable.Name, Value: variable.Value}
		if source := variable.ValueFrom; source != nil {
			allowed.ValueFrom = &corev1.EnvVarSource{}
			if ref := source.FieldRef; ref != nil {
				allowed.ValueFrom.FieldRef = &corev1.ObjectFieldSelector{
					APIVersion: ref.APIVersion,
					FieldPath:  ref.FieldPath,
				}
			}
			if ref := source.ConfigMapKeyRef; ref != nil {
				allowed.ValueFrom.ConfigMapKeyRef = &corev1.ConfigMapKeySelector{
					LocalObjectReference: ref.LocalObjectReference,
					Key:                  ref.Key,
					Optional:             ref.Optional,
				}
			}
			if source.SecretKeyRef != nil {
				r.refuse(
					where+".valueFrom.secretKeyRef", "the Secrets of the manager's namespace are not for scale sets",
				)
				continue
			}
			if *allowed.ValueFrom == (corev1.EnvVarSource{}) {
				continue
			}
		}
		kept = append(kept, allowed)
	}
	return kept
}

// proxyVariables are read by Go's HTTP client. The manager sets them from the set's proxy.
var proxyVariables = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"}

// variablePrefixes begin the names of variables that choose whom the listener trusts or what it runs. Go's own that
// change only the memory or CPU that the listener uses, such as GOGC, are not among them, nor is
// GITHUB_ACTIONS_FORCE_GHES, which is documented.
var variablePrefixes = map[string]string{
	"KUBERNETES_": "it chooses the API server that gets the listener's token",
	"KUBECONFIG":  "it chooses the API server that gets the listener's token",
	"LISTENER_":   "the manager tells the listener by it where its configuration is and where to listen",
	"SSL_CERT_":   "it replaces the authorities that the listener trusts; spec.githubServerTLS adds one",
	"GODEBUG":     "it turns off checks of TLS and HTTP",
	"LD_":         "it makes a program load other code",
}

// refusedVariable returns the reason why a variable of the listener can't be set, "" if it can.
func refusedVariable(name string) string {
	upper := strings.ToUpper(name)
	if slices.Contains(proxyVariables, upper) {
		return "the manager sets it from spec.proxy"
	}
	for prefix, reason := range variablePrefixes {
		if strings.HasPrefix(upper, prefix) {
			return reason
		}
	}
	return ""
}

// listenersOwn returns the reason why a volume can't be mounted at a path in the listener's container, "" if it can:
// the volume would hide one of the manager's, or lie in it, or replace the program.
func (r *review) listenersOwn(at string) string {
	inside := func(a, b string) bool { return b == "/" || a == b || strings.HasPrefix(a, b+"/") }
	mounted := path.Clean("/" + at)
	for _, own := range []string{config.MountPath, TokenPath, cmp.Or(r.policy.Program, DefaultProgram)} {
		if inside(own, mounted) || inside(mounted, own) {
			return "the listener has files of its own at " + own
		}
	}
	for _, system := range []string{"/proc", "/sys", "/dev"} {
		if inside(mounted, system) {
			return "the system has files of its own there"
		}
	}
	return ""
}

// mounts returns the mounts of the volumes that are left, at paths that refused has nothing against.
func (r *review) mounts(
	place string, given []corev1.VolumeMount, volumes []corev1.Volume, refused func(at string) string,
) (kept []corev1.VolumeMount) {
	for _, mount := range limited(r, place, given) {
		where := element(place, mount.MountPath)
		allowed := corev1.VolumeMount{
			Name:      mount.Name,
			MountPath: mount.MountPath,
			ReadOnly:  mount.ReadOnly,
			SubPath:   mount.SubPath,
		}
		switch reason := refused(mount.MountPath); {
		case reason != "":
			r.refuse(where, reason)
		case !slices.ContainsFunc(volumes, func(volume corev1.Volume) bool { return volume.Name == mount.Name }):
			r.refuse(where, "it mounts a volume that is left out")
		case slices.ContainsFunc(kept, func(other corev1.VolumeMount) bool {
			return other.MountPath == mount.MountPath
		}):
			r.refuse(where, "something else is mounted there")
		case mount != allowed:
			// Without one of the others it is another mount.
			r.refuse(where, "a mount can have name, mountPath, readOnly and subPath only")
		default:
			kept = append(kept, allowed)
		}
	}
	return kept
}

// probe returns a probe by HTTP or TCP. The kubelet sends it to the pod unless it has a host, and then to wherever the
// host is.
func (r *review) probe(place string, given *corev1.Probe) *corev1.Probe {
	if given == nil {
		return nil
	}
	kept := &corev1.Probe{
		InitialDelaySeconds:           given.InitialDelaySeconds,
		TimeoutSeconds:                given.TimeoutSeconds,
		PeriodSeconds:                 given.PeriodSeconds,
		SuccessThreshold:              given.SuccessThreshold,
		FailureThreshold:              given.FailureThreshold,
		TerminationGracePeriodSeconds: r.grace(place, given.TerminationGracePeriodSeconds),
	}
	const elsewhere = "the node would probe another host"
	if get := given.HTTPGet; get != nil {
		if get.Host != "" {
			r.refuse(place+".httpGet.host", elsewhere)
			return nil
		}
		kept.HTTPGet = &corev1.HTTPGetAction{
			Path:        get.Path,
			Port:        get.Port,
			Scheme:      get.Scheme,
			HTTPHeaders: slices.Clone(get.HTTPHeaders),
		}
	}
	if open := given.TCPSocket; open != nil {
		if open.Host != "" {
			r.refuse(place+".tcpSocket.host", elsewhere)
			return nil
		}
		kept.TCPSocket = &corev1.TCPSocketAction{Port: open.Port}
	}
	if kept.ProbeHandler == (corev1.ProbeHandler{}) {
		r.refuse(place+refusedHandler(given), "a probe must be by HTTP or TCP")
		return nil
	}
	return kept
}

// refusedHandler returns the field with which a probe names a command or a gRPC service, "" if it has neither.
func refusedHandler(given *corev1.Probe) string {
	switch {
	case given.Exec != nil:
		return ".exec"
	case given.GRPC != nil:
		return ".grpc"
	}
	return ""
}
