// Package listenertemplate decides what a scale set may choose for the objects that the manager creates for it in the
// manager's own namespace: the listener's pod, its ServiceAccount, its Secret and the AutoscalingListener. Whoever
// writes scale sets usually has no rights there, and through a pod they would have those of its Secrets, accounts, node
// and images.
//
//	spec of the AutoscalingRunnerSet ─▶ Policy.Accept (pure) ─▶ what is used ─▶ AutoscalingListener ─▶ pod
//	                                             └─▶ what is refused, path by path ─▶ condition, doctor, validate
//
// What is allowed is copied into a new object, field by field. What is refused is found by comparing the two, so that a
// field which Kubernetes adds is refused, and reported, until somebody adds it here.
package listenertemplate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// The policies, as in the manager's flag --listener-template-policy.
const (
	Restricted   = "restricted"
	Unrestricted = "unrestricted"
)

// Names are the values of that flag.
var Names = []string{Restricted, Unrestricted}

// Volumes of the listener's pod that are the manager's.
const (
	// ConfigVolume has the configuration, and in it the credentials.
	ConfigVolume = "listener-config"
	// TokenVolume has the ServiceAccount token. It is mounted at TokenPath, where every client looks for it, in the
	// container of the listener alone.
	TokenVolume = "listener-token"
	TokenPath   = "/var/run/secrets/kubernetes.io/serviceaccount"
)

// DefaultProgram is the path of the listener in the manager's image.
const DefaultProgram = "/ghalistener"

// Policy is chosen by the operator of the manager. The zero value is the restricted policy, which adds nothing to
// what it lists.
type Policy struct {
	// Unrestricted lets through everything but the pod's identity and ARC's image.
	Unrestricted bool
	// SidecarImages are the images that further containers of a listener's pod may have, exactly as templates write
	// them.
	SidecarImages []string
	// MetadataKeys are keys of labels and annotations that scale sets may set besides those that hinder nobody, or all
	// of a domain as DOMAIN/*.
	MetadataKeys []string
	// PriorityClasses are the classes that a listener's pod may have.
	PriorityClasses []string
	// Program is the path of the listener's program in its container, which no volume may hide. Empty means
	// DefaultProgram.
	Program string
}

// Name returns the policy's name.
func (p Policy) Name() string {
	if p.Unrestricted {
		return Unrestricted
	}
	return Restricted
}

// Accepted is the part of a scale set's spec that a policy leaves.
type Accepted struct {
	Template                               *corev1.PodTemplateSpec
	Listener, ServiceAccount, ConfigSecret *v1alpha1.ResourceMeta
	// Refused is the rest. Paths begin in the scale set's spec: at listenerTemplate, or at the metadata's field.
	Refused Refusals
}

// Accept applies the policy to a scale set's spec, which stays as it is.
func (p Policy) Accept(spec *v1alpha1.AutoscalingRunnerSetSpec) Accepted {
	r := &review{policy: p}
	if p.Unrestricted {
		template := r.withoutARCImage(spec.ListenerTemplate)
		r.ofTemplate()
		return Accepted{
			Refused: r.refused, Template: template, Listener: spec.AutoscalingListenerMetadata,
			ServiceAccount: spec.ListenerServiceAccountMetadata, ConfigSecret: spec.ListenerConfigSecretMetadata,
		}
	}
	template := r.template(spec.ListenerTemplate)
	r.addLost(spec.ListenerTemplate, template)
	r.ofTemplate()
	accepted := Accepted{
		Template:       template,
		Listener:       r.metadata("autoscalingListener", spec.AutoscalingListenerMetadata),
		ServiceAccount: r.withoutAnnotations("listenerServiceAccountMetadata", spec.ListenerServiceAccountMetadata),
		ConfigSecret:   r.withoutAnnotations("listenerConfigSecretMetadata", spec.ListenerConfigSecretMetadata),
	}
	accepted.Refused = r.refused
	return accepted
}

// ofTemplate has the paths of what was refused so far begin at the template's place in the spec.
func (r *review) ofTemplate() {
	for i := range r.refused.First {
		r.refused.First[i].Path = "listenerTemplate." + r.refused.First[i].Path
	}
}

// Template returns the part of a template that the policy allows, and reports no refusals. Applied to its own result,
// it changes nothing.
func (p Policy) Template(template *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	r := &review{policy: p}
	if p.Unrestricted {
		return r.withoutARCImage(template)
	}
	return r.template(template)
}

// Object returns the part of the metadata for a ServiceAccount or a Secret that the policy allows.
func (p Policy) Object(meta *v1alpha1.ResourceMeta) *v1alpha1.ResourceMeta {
	if p.Unrestricted {
		return meta
	}
	return (&review{policy: p}).withoutAnnotations("", meta)
}

// Refusal is a field that the policy leaves out.
type Refusal struct {
	// Path is for people, such as listenerTemplate.spec.volumes[ca].secret.
	Path   string
	Reason string
}

// At most maxRefusals refusals are kept, so that an object of a megabyte doesn't make ten megabytes of them.
const maxRefusals = 1000

// Refusals are the fields that a policy leaves out.
type Refusals struct {
	First []Refusal
	// More counts those that are not in First.
	More int
}

// List returns paths in about maxBytes, at least one unless there are none, and the number of further ones.
func (r Refusals) List(maxBytes int) string {
	var text strings.Builder
	for i, refusal := range r.First {
		if i > 0 && text.Len()+len(refusal.Path) > maxBytes {
			return fmt.Sprintf("%s and %d more", text.String(), len(r.First)-i+r.More)
		}
		if i > 0 {
			text.WriteString(", ")
		}
		text.WriteString(refusal.Path)
	}
	if r.More > 0 {
		fmt.Fprintf(&text, " and %d more", r.More)
	}
	return text.String()
}

// review collects what the policy refuses.
type review struct {
	policy  Policy
	refused Refusals
	// requested is what the containers so far request together.
	requested corev1.ResourceList
}

func (r *review) refuse(path, reason string) {
	if len(r.refused.First) == maxRefusals {
		r.refused.More++
		return
	}
	r.refused.First = append(r.refused.First, Refusal{path, reason})
}

// maxKey is the number of bytes of a name or a key that a path shows. Valid names have at most 63, and a key's own part
// as well.
const maxKey = 128

// element returns the path of an element of a list or a map. The key is a stranger's and may be anything.
func element(path, key string) string {
	if len(key) > maxKey {
		key = key[:maxKey] + "…"
	}
	printable := strings.Map(func(character rune) rune {
		if unicode.IsPrint(character) {
			return character
		}
		return utf8.RuneError
	}, key)
	return path + "[" + printable + "]"
}

// Only the first maxElements of a list count: the time to merge a template grows with their square.
const maxElements = 100

// limited returns the first elements of a list.
func limited[T any](r *review, path string, given []T) []T {
	if len(given) > maxElements {
		r.refuse(path, fmt.Sprintf("only the first %d count", maxElements))
		given = given[:maxElements]
	}
	return slices.Clone(given)
}

// metadata returns the labels and annotations that an object in the manager's namespace may have.
func (r *review) metadata(path string, meta *v1alpha1.ResourceMeta) *v1alpha1.ResourceMeta {
	if meta == nil {
		return nil
	}
	return &v1alpha1.ResourceMeta{
		Labels:      r.keys(path+".labels", label, meta.Labels),
		Annotations: r.keys(path+".annotations", annotation, meta.Annotations),
	}
}

// withoutAnnotations returns the labels alone: an annotation of a ServiceAccount can make it an identity of the cloud,
// and one of a Secret can have a controller copy it.
func (r *review) withoutAnnotations(path string, meta *v1alpha1.ResourceMeta) *v1alpha1.ResourceMeta {
	if meta == nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(meta.Annotations)) {
		r.refuse(
			element(path+".annotations", key),
			"ServiceAccounts and Secrets in the manager's namespace get no annotations",
		)
	}
	return &v1alpha1.ResourceMeta{Labels: r.keys(path+".labels", label, meta.Labels)}
}
