package nodes

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

// Watched knows the nodes that a watch has shown, and finds them by the labels that say where they are. The zero value
// is not ready.
type Watched struct {
	mu     sync.RWMutex
	synced func() bool // nil while there is no watch
	nodes  map[string]node
	by     map[label]sets.Set[string] // names of nodes
}

type node struct {
	labels    map[string]string
	createdAt time.Time
	// usable is set if pods can come to the node, and it isn't about to go away.
	usable bool
}

type label struct{ key, value string }

// Await says how to find out whether the watch has shown all nodes that there are. Before that nobody may say that a
// node is not there.
func (w *Watched) Await(synced func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.synced = synced
}

// Known reports whether all nodes that there are have been shown.
func (w *Watched) Known() bool {
	w.mu.RLock()
	synced := w.synced
	w.mu.RUnlock()
	return synced != nil && synced()
}

// isUsable reports whether pods can come to a node, and it isn't about to go away. One that doesn't answer has a taint
// that says so, long before it is removed.
func isUsable(object *corev1.Node) bool {
	ill := slices.ContainsFunc(object.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeUnreachable || t.Key == corev1.TaintNodeNotReady
	})
	return !ill && SignsOf(object) == 0
}

// Put remembers a node as it is now.
func (w *Watched) Put(object *corev1.Node) {
	now := node{labels: placesOf(object), createdAt: object.CreationTimestamp.Time, usable: isUsable(object)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removeLocked(object.Name)
	if w.nodes == nil {
		w.nodes, w.by = map[string]node{}, map[label]sets.Set[string]{}
	}
	w.nodes[object.Name] = now
	for key, value := range now.labels {
		at := label{key, value}
		if w.by[at] == nil {
			w.by[at] = sets.New[string]()
		}
		w.by[at].Insert(object.Name)
	}
}

// Remove forgets a node that is gone.
func (w *Watched) Remove(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removeLocked(name)
}

func (w *Watched) removeLocked(name string) {
	for key, value := range w.nodes[name].labels {
		at := label{key, value}
		if w.by[at].Delete(name); w.by[at].Len() == 0 {
			delete(w.by, at)
		}
	}
	delete(w.nodes, name)
}

// Events returns the handler for a watch of nodes.
func (w *Watched) Events() cache.ResourceEventHandler {
	changed := func(object any) {
		if node, ok := object.(*corev1.Node); ok {
			w.Put(node)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, now any) { changed(now) },
		DeleteFunc: func(object any) {
			if name, err := cache.DeletionHandlingObjectToName(object); err == nil {
				w.Remove(name.Name)
			}
		},
	}
}

// Requirement is what a node must be like: its label, or its name if Label is empty, has one of the Values.
type Requirement struct {
	Label  string
	Values []string
}

// Find reports whether there is a node that meets all requirements, and whether one of those stays: pods can come to it,
// and it isn't about to go away.
func (w *Watched) Find(requirements []Requirement) (exists, stays bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if len(requirements) == 0 {
		return false, false
	}
	first := requirements[0]
	for _, value := range first.Values {
		candidates := sets.New(value)
		if first.Label != "" {
			candidates = w.by[label{first.Label, value}]
		}
		for name := range candidates {
			if found, there := w.nodes[name]; there && found.meets(name, requirements) {
				exists = true
				if found.usable {
					return true, true
				}
			}
		}
	}
	return exists, false
}

// Other reports whether a node stays that meets none of the alternatives.
func (w *Watched) Other(alternatives [][]Requirement) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for name, found := range w.nodes {
		if found.usable && !slices.ContainsFunc(alternatives, func(requirements []Requirement) bool {
			return found.meets(name, requirements)
		}) {
			return true
		}
	}
	return false
}

// Stays reports whether the named node is there, and in the same way stays, and when it was made.
func (w *Watched) Stays(name string) (createdAt time.Time, stays bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	found, there := w.nodes[name]
	return found.createdAt, there && found.usable
}

func (n *node) meets(name string, requirements []Requirement) bool {
	for i := range requirements {
		is := name
		if requirements[i].Label != "" {
			is = n.labels[requirements[i].Label]
		}
		if !slices.Contains(requirements[i].Values, is) {
			return false
		}
	}
	return true
}
