package dryrun

import (
	"path"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Rules for the volumes of pods and their mounts.

func (t podSpec) checkVolumes(at *field.Path) (refused field.ErrorList) {
	names := map[string]bool{}
	for i := range t.Volumes {
		volume, at := &t.Volumes[i], at.Child("volumes").Index(i)
		refused = append(refused, invalid(at.Child("name"), volume.Name, validation.IsDNS1123Label(volume.Name))...)
		if names[volume.Name] {
			refused = append(refused, field.Duplicate(at.Child("name"), volume.Name))
		}
		names[volume.Name] = true
		refused = append(refused, checkSource(&volume.VolumeSource, at)...)
	}
	for i := range t.claims { // The set makes a volume of each for its runners.
		claim := &corev1.PersistentVolumeClaimTemplate{Spec: t.claims[i].Spec}
		refused = append(refused, checkClaim(claim, field.NewPath("spec", "volumeClaimTemplates").Index(i))...)
	}
	return refused
}

// checkSource checks the source of a volume. Without one it is an empty directory.
func checkSource(source *corev1.VolumeSource, at *field.Path) (refused field.ErrorList) {
	kinds := 0
	for kind := range reflect.ValueOf(*source).NumField() {
		if !reflect.ValueOf(*source).Field(kind).IsNil() {
			kinds++
		}
	}
	if kinds > 1 {
		refused = append(refused, field.Forbidden(at, "may not specify more than 1 volume type"))
	}
	if empty := source.EmptyDir; empty != nil && empty.SizeLimit != nil && empty.SizeLimit.Sign() < 0 {
		refused = append(refused, field.Forbidden(at.Child("emptyDir", "sizeLimit"),
			"SizeLimit field must be a valid resource quantity"))
	}
	if host := source.HostPath; host != nil {
		refused = append(refused, checkHostPath(host, at.Child("hostPath"))...)
	}
	if secret := source.Secret; secret != nil {
		refused = append(refused, required(secret.SecretName, at.Child("secret", "secretName"))...)
		refused = append(refused, checkFiles(secret.Items, secret.DefaultMode, at.Child("secret"))...)
	}
	if config := source.ConfigMap; config != nil {
		refused = append(refused, required(config.Name, at.Child("configMap", "name"))...)
		refused = append(refused, checkFiles(config.Items, config.DefaultMode, at.Child("configMap"))...)
	}
	if projected := source.Projected; projected != nil {
		refused = append(refused, checkProjected(projected.Sources, at.Child("projected", "sources"))...)
	}
	if claim := source.PersistentVolumeClaim; claim != nil {
		refused = append(refused, required(claim.ClaimName, at.Child("persistentVolumeClaim", "claimName"))...)
	}
	if claim := source.Ephemeral; claim != nil {
		refused = append(refused, checkClaim(claim.VolumeClaimTemplate, at.Child("ephemeral", "volumeClaimTemplate"))...)
	}
	if server := source.NFS; server != nil {
		refused = append(refused, required(server.Server, at.Child("nfs", "server"))...)
		if !path.IsAbs(server.Path) {
			refused = append(refused, field.Invalid(at.Child("nfs", "path"), server.Path, "must be an absolute path"))
		}
	}
	return refused
}

func checkHostPath(host *corev1.HostPathVolumeSource, at *field.Path) (refused field.ErrorList) {
	refused = required(host.Path, at.Child("path"))
	if slices.Contains(strings.Split(host.Path, "/"), "..") {
		refused = append(refused, field.Invalid(at.Child("path"), host.Path, "must not contain '..'"))
	}
	if host.Type == nil {
		return refused
	}
	return append(refused, oneOf(at.Child("type"), *host.Type, corev1.HostPathDirectoryOrCreate, corev1.HostPathDirectory,
		corev1.HostPathFileOrCreate,
		corev1.HostPathFile, corev1.HostPathSocket, corev1.HostPathCharDev, corev1.HostPathBlockDev)...)
}

func checkProjected(sources []corev1.VolumeProjection, at *field.Path) (refused field.ErrorList) {
	for i, source := range sources {
		at := at.Index(i)
		if secret := source.Secret; secret != nil {
			refused = append(refused, required(secret.Name, at.Child("secret", "name"))...)
			refused = append(refused, checkFiles(secret.Items, nil, at.Child("secret"))...)
		}
		if config := source.ConfigMap; config != nil {
			refused = append(refused, required(config.Name, at.Child("configMap", "name"))...)
			refused = append(refused, checkFiles(config.Items, nil, at.Child("configMap"))...)
		}
	}
	return refused
}

// checkClaim checks words of a claim; the doctor finds what is missing in one.
func checkClaim(template *corev1.PersistentVolumeClaimTemplate, at *field.Path) (refused field.ErrorList) {
	if template == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	spec, at := &template.Spec, at.Child("spec")
	for i, mode := range spec.AccessModes {
		refused = append(refused, oneOf(at.Child("accessModes").Index(i), mode,
			corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOncePod)...)
	}
	if class := spec.StorageClassName; class != nil && *class != "" {
		refused = append(refused, invalid(at.Child("storageClassName"), *class, validation.IsDNS1123Subdomain(*class))...)
	}
	if spec.VolumeMode != nil {
		refused = append(refused, oneOf(at.Child("volumeMode"), *spec.VolumeMode, corev1.PersistentVolumeBlock,
			corev1.PersistentVolumeFilesystem)...)
	}
	if storage, sized := spec.Resources.Requests[corev1.ResourceStorage]; sized && storage.Sign() <= 0 {
		refused = append(refused, field.Invalid(at.Child("resources", "requests", "storage"), storage.String(),
			"must be greater than zero"))
	}
	return refused
}

// checkFiles checks the files that a volume takes from a Secret or a ConfigMap, and their mode unless it is nil.
func checkFiles(items []corev1.KeyToPath, mode *int32, at *field.Path) (refused field.ErrorList) {
	refused = checkMode(mode, at.Child("defaultMode"))
	for i, item := range items {
		at := at.Child("items").Index(i)
		refused = append(refused, required(item.Key, at.Child("key"))...)
		refused = append(refused, required(item.Path, at.Child("path"))...)
		refused = append(refused, checkInside(item.Path, at.Child("path"))...)
		refused = append(refused, checkMode(item.Mode, at.Child("mode"))...)
	}
	return refused
}

func checkMode(mode *int32, at *field.Path) field.ErrorList {
	if mode == nil || (*mode >= 0 && *mode <= 0o777) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, *mode, "must be a number between 0 and 0777 (octal), both inclusive")}
}

// required checks that a text is not empty, such as the name of another object.
func required(given string, at *field.Path) field.ErrorList {
	if given == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return nil
}

func (t podSpec) checkMounts(container *corev1.Container, at *field.Path) (refused field.ErrorList) {
	has := func(name string) bool {
		return slices.ContainsFunc(t.claims,
			func(claim v1alpha1.VolumeClaimTemplate) bool { return claim.Metadata.Name == name }) ||
			slices.ContainsFunc(t.Volumes, func(volume corev1.Volume) bool { return volume.Name == name })
	}
	paths := map[string]bool{}
	for i, mount := range container.VolumeMounts {
		at := at.Index(i)
		if !has(mount.Name) && !t.partial {
			refused = append(refused, field.NotFound(at.Child("name"), mount.Name))
		}
		if mount.MountPath == "" {
			refused = append(refused, field.Required(at.Child("mountPath"), ""))
		} else if paths[mount.MountPath] {
			refused = append(refused, field.Invalid(at.Child("mountPath"), mount.MountPath, "must be unique"))
		}
		paths[mount.MountPath] = true
		if mount.SubPath != "" && mount.SubPathExpr != "" {
			refused = append(refused, field.Invalid(at.Child("subPathExpr"), mount.SubPathExpr,
				"subPathExpr and subPath are mutually exclusive"))
		}
		refused = append(refused, checkInside(mount.SubPath, at.Child("subPath"))...)
		refused = append(refused, checkInside(mount.SubPathExpr, at.Child("subPathExpr"))...)
		if mount.MountPropagation != nil {
			refused = append(refused, oneOf(at.Child("mountPropagation"), *mount.MountPropagation,
				corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)...)
			if *mount.MountPropagation == corev1.MountPropagationBidirectional && !isPrivileged(container.SecurityContext) {
				refused = append(refused, field.Forbidden(at.Child("mountPropagation"),
					"Bidirectional mount propagation is available only to privileged containers"))
			}
		}
	}
	return refused
}

func isPrivileged(own *corev1.SecurityContext) bool {
	return own != nil && own.Privileged != nil && *own.Privileged
}

// checkInside checks a path in a volume.
func checkInside(given string, at *field.Path) (refused field.ErrorList) {
	if path.IsAbs(given) {
		refused = append(refused, field.Invalid(at, given, "must be a relative path"))
	}
	if slices.Contains(strings.Split(given, "/"), "..") {
		refused = append(refused, field.Invalid(at, given, "must not contain '..'"))
	}
	return refused
}
