package tenant

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// state has the content of objects that are not team b's: values by object and path, such as "roles manager
// .rules.0.verbs.1".
type state map[string]string

// passing are kinds whose objects come, go or change by themselves.
var passing = []string{"events", "leases", "endpoints", "endpointslices"}

// state returns the state of team a's namespace and of the manager's, without the objects made for team b's sets.
func (s *stage) state() state {
	s.Helper()
	found := state{}
	for _, namespace := range []string{s.victim.namespace, s.rig.SystemNamespace} {
		objects, err := everything(s.Context(), s.rig.Cluster.Config(), namespace,
			func(resource string) bool { return !slices.Contains(passing, resource) })
		if err != nil {
			s.Fatal(err)
		}
		for where, content := range objects {
			// Through JSON, so that all maps and lists are of the same types.
			encoded, err := json.Marshal(content)
			if err != nil {
				s.Fatal(err)
			}
			var plain map[string]any
			if err := json.Unmarshal(encoded, &plain); err != nil {
				s.Fatal(err)
			}
			metadata := plain["metadata"].(map[string]any)
			labels, _ := metadata["labels"].(map[string]any)
			if labels[v1alpha1.LabelScaleSetNamespace] == s.attacker.namespace ||
				(labels[v1alpha1.LabelComponent] == "controller-manager" && plain["kind"] == "Pod") {
				continue // whether the manager's pod has been restarted is looked at by itself
			}
			// Every write changes these, and status follows from what is compared and from jobs, which are looked at
			// themselves.
			for _, key := range []string{"managedFields", "resourceVersion", "generation"} {
				delete(metadata, key)
			}
			delete(plain, "status")
			found.add(namespace+" "+where, plain)
		}
	}
	return found
}

func (f state) add(path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, part := range value {
			f.add(path+" "+key, part)
		}
	case []any:
		for i, part := range value {
			f.add(fmt.Sprintf("%s %d", path, i), part)
		}
	default:
		f[path] = fmt.Sprint(value)
	}
}

// differences returns the paths at which two states differ.
func (f state) differences(other state) []string {
	paths := map[string]bool{}
	for path, value := range f {
		if later, still := other[path]; !still || later != value {
			paths[path] = true
		}
	}
	for path := range other {
		if _, before := f[path]; !before {
			paths[path] = true
		}
	}
	return slices.Sorted(maps.Keys(paths))
}

// changes lists what an attack has changed and a control run does not.
func (f state) changes(after state, control []string) (found []string) {
	before, now := f.objects(), after.objects()
	for _, path := range f.differences(after) {
		object := objectAt(path)
		switch {
		case slices.Contains(control, path):
		case !before[object]:
			found = append(found, object+" is new")
		case !now[object]:
			found = append(found, object+" is gone")
		default:
			found = append(found, fmt.Sprintf("%s: %.80q became %.80q", path, f[path], after[path]))
		}
	}
	return slices.Compact(found)
}

// objects returns the names of all objects.
func (f state) objects() map[string]bool {
	names := map[string]bool{}
	for path := range f {
		names[objectAt(path)] = true
	}
	return names
}

// objectAt returns the part of a path that names the object: namespace, kind and name.
func objectAt(path string) string {
	return strings.Join(strings.SplitN(path, " ", 4)[:3], " ")
}

// allBindings returns the subjects of all RoleBindings outside of team b's namespace, and of all ClusterRoleBindings.
func (s *stage) allBindings() map[string][]rbacv1.Subject {
	s.Helper()
	found := map[string][]rbacv1.Subject{}
	var everywhere rbacv1.ClusterRoleBindingList
	var bindings rbacv1.RoleBindingList
	for _, list := range []client.ObjectList{&everywhere, &bindings} {
		if err := s.rig.Cluster.Client().List(s.Context(), list); err != nil {
			s.Fatal(err)
		}
	}
	for _, binding := range everywhere.Items {
		found["ClusterRoleBinding "+binding.Name] = binding.Subjects
	}
	for _, binding := range bindings.Items {
		if binding.Namespace != s.attacker.namespace {
			found["RoleBinding "+binding.Namespace+"/"+binding.Name] = binding.Subjects
		}
	}
	return found
}

// summary shortens a list for a log.
func summary(lines []string) string {
	const most = 12
	text := strings.Join(lines[:min(most, len(lines))], "\n  ")
	if len(lines) > most {
		text += fmt.Sprintf("\n  and %d more", len(lines)-most)
	}
	return text
}
