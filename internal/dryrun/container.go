package dryrun

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Rules for the containers of pods.

// containerList is one of a template's lists of containers.
type containerList struct {
	name       string
	containers []corev1.Container
}

func (t podSpec) containerLists() []containerList {
	return []containerList{{"containers", t.Containers}, {"initContainers", t.InitContainers}}
}

func (t podSpec) checkContainers(at *field.Path) (refused field.ErrorList) {
	if len(t.Containers) == 0 && !t.partial {
		refused = append(refused, field.Required(at.Child("containers"), ""))
	}
	names := map[string]bool{}
	for _, list := range t.containerLists() {
		for i := range list.containers {
			container, at := &list.containers[i], at.Child(list.name).Index(i)
			if names[container.Name] {
				refused = append(refused, field.Duplicate(at.Child("name"), container.Name))
			}
			names[container.Name] = true
			refused = append(refused, t.checkContainer(container, at)...)
			if list.name == "initContainers" {
				refused = append(refused, checkEndOfInit(container, at)...)
			}
		}
	}
	return refused
}

// checkContainer checks what containers of all lists have in common.
func (t podSpec) checkContainer(container *corev1.Container, at *field.Path) (refused field.ErrorList) {
	if !t.partial || !strings.HasPrefix(container.Name, "$") { // container hooks name the job's container so
		refused = append(refused, invalid(at.Child("name"), container.Name, validation.IsDNS1123Label(container.Name))...)
	}
	switch {
	case container.Image == "" && !t.partial:
		refused = append(refused, field.Required(at.Child("image"), ""))
	case container.Image != strings.TrimSpace(container.Image):
		refused = append(refused, field.Invalid(at.Child("image"), container.Image,
			"must not have leading or trailing whitespace"))
	}
	refused = append(refused, oneOf(at.Child("imagePullPolicy"), container.ImagePullPolicy, corev1.PullAlways,
		corev1.PullIfNotPresent, corev1.PullNever)...)
	refused = append(refused, oneOf(at.Child("terminationMessagePolicy"), container.TerminationMessagePolicy,
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)...)
	refused = append(refused, checkPorts(container.Ports, at.Child("ports"))...)
	refused = append(refused, checkVariables(container, at)...)
	refused = append(refused, t.checkMounts(container, at.Child("volumeMounts"))...)
	refused = append(refused, checkResources(&container.Resources, at.Child("resources"))...)
	for name, probe := range map[string]*corev1.Probe{
		"livenessProbe":  container.LivenessProbe,
		"readinessProbe": container.ReadinessProbe,
		"startupProbe":   container.StartupProbe,
	} {
		if probe != nil {
			refused = append(refused, checkProbe(name, probe, at.Child(name))...)
		}
	}
	if container.Lifecycle != nil {
		for name, handler := range map[string]*corev1.LifecycleHandler{
			"postStart": container.Lifecycle.PostStart,
			"preStop":   container.Lifecycle.PreStop,
		} {
			if handler != nil {
				refused = append(refused, checkHandler(handler.Exec, handler.HTTPGet, handler.TCPSocket, handler.Sleep != nil,
					at.Child("lifecycle", name))...)
			}
		}
	}
	if own := container.SecurityContext; own != nil {
		refused = append(refused, checkPrivileges(own, at.Child("securityContext"))...)
	}
	return refused
}

// checkEndOfInit refuses probes and hooks of a container that ends before the others start: nobody watches it or tells
// it to stop.
func checkEndOfInit(container *corev1.Container, at *field.Path) (refused field.ErrorList) {
	if container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways {
		return nil
	}
	for name, set := range map[string]bool{
		"lifecycle": container.Lifecycle != nil, "livenessProbe": container.LivenessProbe != nil,
		"readinessProbe": container.ReadinessProbe != nil,
		"startupProbe":   container.StartupProbe != nil,
	} {
		if set {
			refused = append(refused, field.Forbidden(at.Child(name),
				"may not be set for init containers without restartPolicy=Always"))
		}
	}
	return refused
}

func checkPorts(ports []corev1.ContainerPort, at *field.Path) (refused field.ErrorList) {
	names := map[string]bool{}
	for i, port := range ports {
		at := at.Index(i)
		if port.Name != "" {
			refused = append(refused, invalid(at.Child("name"), port.Name, validation.IsValidPortName(port.Name))...)
			if names[port.Name] {
				refused = append(refused, field.Duplicate(at.Child("name"), port.Name))
			}
			names[port.Name] = true
		}
		refused = append(refused, invalid(at.Child("containerPort"), fmt.Sprint(port.ContainerPort),
			validation.IsValidPortNum(int(port.ContainerPort)))...)
		if port.HostPort != 0 {
			refused = append(refused, invalid(at.Child("hostPort"), fmt.Sprint(port.HostPort),
				validation.IsValidPortNum(int(port.HostPort)))...)
		}
		refused = append(refused, oneOf(at.Child("protocol"), port.Protocol, corev1.ProtocolTCP, corev1.ProtocolUDP,
			corev1.ProtocolSCTP)...)
	}
	return refused
}

func checkVariables(container *corev1.Container, at *field.Path) (refused field.ErrorList) {
	for i, variable := range container.Env {
		at := at.Child("env").Index(i)
		if variable.Name == "" {
			refused = append(refused, field.Required(at.Child("name"), ""))
		} else {
			refused = append(refused, invalid(at.Child("name"), variable.Name, validation.IsRelaxedEnvVarName(variable.Name))...)
		}
		if variable.ValueFrom != nil {
			refused = append(refused, checkValueFrom(&variable, at.Child("valueFrom"))...)
		}
	}
	for i, source := range container.EnvFrom {
		at := at.Child("envFrom").Index(i)
		switch {
		case source.ConfigMapRef == nil && source.SecretRef == nil:
			refused = append(refused, field.Invalid(at, "", "must specify one of: `configMapRef` or `secretRef`"))
		case source.ConfigMapRef != nil && source.SecretRef != nil:
			refused = append(refused, field.Invalid(at, "", "may not have more than one field specified at a time"))
		case source.ConfigMapRef != nil:
			refused = append(refused, required(source.ConfigMapRef.Name, at.Child("configMapRef", "name"))...)
		default:
			refused = append(refused, required(source.SecretRef.Name, at.Child("secretRef", "name"))...)
		}
	}
	return refused
}

func checkValueFrom(variable *corev1.EnvVar, at *field.Path) (refused field.ErrorList) {
	from, sources := variable.ValueFrom, 0
	if from.FieldRef != nil {
		sources++
		known := []string{"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
			"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}
		old := from.FieldRef.FieldPath == "spec.host" // the API server takes it for spec.nodeName
		if part, _, subscripted := strings.Cut(from.FieldRef.FieldPath, "["); !old &&
			(!subscripted || (part != "metadata.labels" && part != "metadata.annotations")) {
			refused = append(refused, oneOf(at.Child("fieldRef", "fieldPath"), from.FieldRef.FieldPath, known...)...)
		}
	}
	if from.ResourceFieldRef != nil {
		sources++
	}
	if ref := from.ConfigMapKeyRef; ref != nil {
		sources++
		refused = append(refused, checkKeyReference(ref.Name, ref.Key, at.Child("configMapKeyRef"))...)
	}
	if ref := from.SecretKeyRef; ref != nil {
		sources++
		refused = append(refused, checkKeyReference(ref.Name, ref.Key, at.Child("secretKeyRef"))...)
	}
	if from.FileKeyRef != nil {
		sources++
	}
	switch {
	case sources == 0:
		refused = append(refused, field.Invalid(at, "",
			"must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"))
	case variable.Value != "":
		refused = append(refused, field.Invalid(at, "", "may not be specified when `value` is not empty"))
	case sources > 1:
		refused = append(refused, field.Invalid(at, "", "may not have more than one field specified at a time"))
	}
	return refused
}

func checkKeyReference(name, key string, at *field.Path) field.ErrorList {
	refused := required(name, at.Child("name"))
	if key == "" {
		return append(refused, field.Required(at.Child("key"), ""))
	}
	return append(refused, invalid(at.Child("key"), key, validation.IsConfigMapKey(key))...)
}

// checkResources checks names and amounts. A resource without a domain is one of Kubernetes' own few. Of a device,
// requests must equal limits.
func checkResources(resources *corev1.ResourceRequirements, at *field.Path) (refused field.ErrorList) {
	for list, given := range map[string]corev1.ResourceList{"limits": resources.Limits, "requests": resources.Requests} {
		for name, amount := range given {
			refused = append(refused, checkResource(name, amount, at.Child(list).Child(string(name)))...)
		}
	}
	for name, amount := range resources.Requests {
		limit, limited := resources.Limits[name]
		at := at.Child("requests").Child(string(name))
		amount.RoundUp(resource.Milli) // as the API server does
		limit.RoundUp(resource.Milli)
		switch {
		case !limited && isDevice(name):
			refused = append(refused, field.Required(at, "Limit must be set for non overcommitable resources"))
		case limited && isDevice(name) && amount.Cmp(limit) != 0:
			refused = append(refused, field.Invalid(at, amount.String(),
				fmt.Sprintf("must be equal to %s limit of %s", name, limit.String())))
		case limited && amount.Cmp(limit) > 0:
			refused = append(refused, field.Invalid(at, amount.String(),
				fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		}
	}
	return refused
}

func checkResource(name corev1.ResourceName, amount resource.Quantity, at *field.Path) (refused field.ErrorList) {
	refused = invalid(at, string(name), validation.IsQualifiedName(string(name)))
	if !strings.Contains(string(name), "/") && !isStandardResource(name) {
		refused = append(refused, field.Invalid(at, name, "must be a standard resource for containers"))
	}
	if amount.Sign() < 0 {
		refused = append(refused, field.Invalid(at, amount.String(), "must be greater than or equal to 0"))
	}
	if isDevice(name) && amount.MilliValue()%1000 != 0 {
		refused = append(refused, field.Invalid(at, amount.String(), "must be an integer"))
	}
	return refused
}

func isStandardResource(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage ||
		strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// isDevice: the resource is counted in whole pieces, and no two containers share one.
func isDevice(name corev1.ResourceName) bool {
	return strings.Contains(string(name), "/") && !strings.Contains(string(name), "kubernetes.io/")
}

func checkProbe(name string, probe *corev1.Probe, at *field.Path) (refused field.ErrorList) {
	refused = checkHandler(probe.Exec, probe.HTTPGet, probe.TCPSocket, probe.GRPC != nil, at)
	for name, seconds := range map[string]int32{
		"initialDelaySeconds": probe.InitialDelaySeconds, "timeoutSeconds": probe.TimeoutSeconds,
		"periodSeconds":    probe.PeriodSeconds,
		"successThreshold": probe.SuccessThreshold, "failureThreshold": probe.FailureThreshold,
	} {
		if seconds < 0 {
			refused = append(refused, field.Invalid(at.Child(name), seconds, "must be greater than or equal to 0"))
		}
	}
	if name != "readinessProbe" && probe.SuccessThreshold > 1 {
		refused = append(refused, field.Invalid(at.Child("successThreshold"), probe.SuccessThreshold, "must be 1"))
	}
	return refused
}

// checkHandler checks that there is exactly one way to look or to act. other: there is one that isn't among the
// arguments.
func checkHandler(
	exec *corev1.ExecAction, get *corev1.HTTPGetAction, socket *corev1.TCPSocketAction, other bool, at *field.Path,
) (refused field.ErrorList) {
	ways := 0
	for _, set := range []bool{exec != nil, get != nil, socket != nil, other} {
		if set {
			ways++
		}
	}
	if ways == 0 {
		refused = append(refused, field.Required(at, "must specify a handler type"))
	}
	if ways > 1 {
		refused = append(refused, field.Forbidden(at, "may not specify more than 1 handler type"))
	}
	if exec != nil && len(exec.Command) == 0 {
		refused = append(refused, field.Required(at.Child("exec", "command"), ""))
	}
	if get != nil {
		refused = append(refused, checkPort(get.Port, at.Child("httpGet", "port"))...)
		refused = append(refused, oneOf(at.Child("httpGet", "scheme"), get.Scheme, corev1.URISchemeHTTP,
			corev1.URISchemeHTTPS)...)
	}
	if socket != nil {
		refused = append(refused, checkPort(socket.Port, at.Child("tcpSocket", "port"))...)
	}
	return refused
}

func checkPort(port intstr.IntOrString, at *field.Path) field.ErrorList {
	if port.Type == intstr.String {
		return invalid(at, port.StrVal, validation.IsValidPortName(port.StrVal))
	}
	return invalid(at, port.String(), validation.IsValidPortNum(port.IntValue()))
}

func checkPrivileges(own *corev1.SecurityContext, at *field.Path) (refused field.ErrorList) {
	refused = checkIdentity(at, own.RunAsUser, own.RunAsGroup, own.SeccompProfile)
	if own.AllowPrivilegeEscalation == nil || *own.AllowPrivilegeEscalation {
		return refused
	}
	if isPrivileged(own) {
		refused = append(refused, field.Invalid(at, "",
			"cannot set `allowPrivilegeEscalation` to false and `privileged` to true"))
	}
	if own.Capabilities != nil && slices.Contains(own.Capabilities.Add, "CAP_SYS_ADMIN") {
		refused = append(refused, field.Invalid(at, "",
			"cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"))
	}
	return refused
}

// checkIdentity checks what pods and containers have in common.
func checkIdentity(at *field.Path, user, group *int64, seccomp *corev1.SeccompProfile) (refused field.ErrorList) {
	refused = append(checkID(at.Child("runAsUser"), user), checkID(at.Child("runAsGroup"), group)...)
	if seccomp == nil {
		return refused
	}
	at = at.Child("seccompProfile")
	refused = append(refused, oneOf(at.Child("type"), seccomp.Type, corev1.SeccompProfileTypeUnconfined,
		corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeLocalhost)...)
	if file := seccomp.LocalhostProfile; seccomp.Type == corev1.SeccompProfileTypeLocalhost && file == nil {
		refused = append(refused, field.Required(at.Child("localhostProfile"), "must be set when seccomp type is Localhost"))
	} else if seccomp.Type != corev1.SeccompProfileTypeLocalhost && file != nil {
		refused = append(refused, field.Invalid(at.Child("localhostProfile"), *file,
			"can only be set when seccomp type is Localhost"))
	}
	return refused
}
