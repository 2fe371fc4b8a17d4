// Package legacy reads objects of ARC's legacy mode as they were written: RunnerDeployments, RunnerReplicaSets,
// RunnerSets, Runners and HorizontalRunnerAutoscalers, alone or in lists. It knows the fields that nobody has looked at
// yet.
package legacy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/operations/files"
)

// The kinds that become scale sets, and the one with their numbers of runners.
const (
	Deployment = "RunnerDeployment"
	ReplicaSet = "RunnerReplicaSet"
	Set        = "RunnerSet"
	Runner     = "Runner"
	Autoscaler = "HorizontalRunnerAutoscaler"
)

const (
	group      = "actions.summerwind.dev"
	listSuffix = "List"
)

const (
	// maxObjects limits the objects that are read: ten times what clusters with a thousand sets have.
	maxObjects = 20_000
	// maxRunners limits those that become scale sets. One takes some 30 ms of a processor, most of it to validate its
	// values, so they are done within the minute that there is.
	maxRunners = 1000
)

// ErrTooMany reports more objects than are read, and ErrTooManySets more scale sets than can be made in time.
var (
	ErrTooMany = fmt.Errorf("there are more than %d objects: convert fewer at a time, such as those of one namespace",
		maxObjects)
	ErrTooManySets = fmt.Errorf("there are more than %d objects that become scale sets: convert fewer at a time, such "+
		"as those of one namespace", maxRunners)
)

// Object is one of the kinds above.
type Object struct {
	Kind, Namespace, Name string
	// Place is the document that it is in.
	Place string
	// Fields are all of its fields, with the types that JSON has.
	Fields map[string]any
}

// String names the object for people.
func (o *Object) String() string {
	if o.Name == "" {
		return o.Kind + " in " + o.Place
	}
	return o.Kind + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
}

// Target returns kind and name of the object that an autoscaler scales.
func (o *Object) Target() (kind, name string) {
	spec, _ := o.Fields["spec"].(map[string]any)
	reference, _ := spec["scaleTargetRef"].(map[string]any)
	kind, _ = reference["kind"].(string)
	name, _ = reference["name"].(string)
	return cmp.Or(kind, Deployment), name
}

// Scales reports whether an autoscaler names an object as its target. An object without a namespace may be in any.
func (o *Object) Scales(object *Object) bool {
	kind, name := o.Target()
	return kind == object.Kind && name == object.Name && name != "" &&
		(o.Namespace == object.Namespace || o.Namespace == "" || object.Namespace == "")
}

// Objects are those of the files.
type Objects struct {
	Runners, Autoscalers []*Object
	// Owned are objects that another one has made, and that have the same content.
	Owned []*Object
	// Others are kinds that stay as they are, with names.
	Others []string
	// Doubts are keys that a document has twice, by its place.
	Doubts []Doubt
}

// Doubt is about a text in a document that may not be meant so.
type Doubt struct{ Place, Text string }

// Read reads all documents of the files. namespace is that of objects that name none. It fails if a document is not
// YAML, or with ErrTooMany or ErrTooManySets.
func Read(inputs []files.Input, namespace string) (*Objects, error) {
	found := &Objects{}
	for _, file := range inputs {
		number := 0
		for document, err := range file.Documents() {
			number++
			place := fmt.Sprintf("document %d of %s", number, file.Name)
			if err != nil {
				return nil, fmt.Errorf("%s %w", place, err)
			}
			if err := yaml.UnmarshalStrict(document.Content, &map[string]any{}); err != nil {
				// a key that comes twice, of which the last one counts
				found.Doubts = append(found.Doubts, Doubt{place, err.Error()})
			}
			if document.Fields == nil { // comments only
				continue
			}
			if err := found.add(document.Fields, "", place, namespace); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// add sorts an object, or each entry of a list. An entry without a kind is of the kind that the list's own kind names.
func (o *Objects) add(fields map[string]any, listKind, place, namespace string) error {
	kind, _ := fields["kind"].(string)
	kind = cmp.Or(kind, listKind)
	if items, ok := fields["items"].([]any); ok && strings.HasSuffix(kind, listSuffix) {
		for i, item := range items {
			entry, _ := item.(map[string]any)
			if err := o.add(entry, strings.TrimSuffix(kind, listSuffix), fmt.Sprintf("%s, item %d", place, i+1),
				namespace); err != nil {
				return err
			}
		}
		return nil
	}
	metadata, _ := fields["metadata"].(map[string]any)
	object := &Object{Kind: kind, Namespace: namespace, Place: place, Fields: fields}
	object.Name, _ = metadata["name"].(string)
	if given, _ := metadata["namespace"].(string); given != "" {
		object.Namespace = given
	}
	version, _ := fields["apiVersion"].(string)
	ours := version == "" || strings.HasPrefix(version, group+"/") // examples leave it out
	switch {
	case ours && kind == Autoscaler:
		o.Autoscalers = append(o.Autoscalers, object)
	case !ours || !slices.Contains([]string{Deployment, ReplicaSet, Set, Runner}, kind):
		object.Kind = cmp.Or(kind, "something without a kind")
		o.Others = append(o.Others, object.String())
	case madeByAnother(metadata):
		o.Owned = append(o.Owned, object)
	default:
		o.Runners = append(o.Runners, object)
	}
	if len(o.Runners) > maxRunners {
		return ErrTooManySets
	}
	if len(o.Autoscalers)+len(o.Others)+len(o.Owned)+len(o.Runners) > maxObjects {
		return ErrTooMany
	}
	return nil
}

// madeByAnother reports whether one of these kinds owns an object.
func madeByAnother(metadata map[string]any) bool {
	owners, _ := metadata["ownerReferences"].([]any)
	return slices.ContainsFunc(owners, func(owner any) bool {
		reference, _ := owner.(map[string]any)
		version, _ := reference["apiVersion"].(string)
		return strings.HasPrefix(version, group+"/")
	})
}
