package apiserver

import (
	"maps"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Backup is what a server had at a moment.
type Backup struct {
	objects map[resource]map[key]*stored
	uids    map[string]place
	applied map[string]map[string]any
}

// Backup keeps what there is.
func (s *Server) Backup() *Backup {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := &Backup{map[resource]map[key]*stored{}, maps.Clone(s.uids), maps.Clone(s.applied)}
	for of, objects := range s.objects {
		kept.objects[of] = maps.Clone(objects)
	}
	return kept
}

// Restore takes the server back to a backup, as an administrator does with etcd: versions go on above those that have
// been, all watches end, and none resumes from before. The garbage collector, whose watches end, too, looks at all that
// has owners. A backup is restored once.
func (s *Server) Restore(kept *Backup) {
	const bump = 1_000_000 // as the documentation of etcd says
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version += bump
	s.compacted, s.history = s.version, nil
	close(s.cut)
	s.cut = make(chan struct{})
	was, wasThere := s.objects, s.uids
	s.objects, s.uids, s.applied = kept.objects, kept.uids, kept.applied
	for of, objects := range was {
		for _, gone := range objects {
			if _, stays := s.uids[string(gone.object.GetUID())]; !stays {
				s.observed(Change{of.plural, gone.object, nil})
			}
		}
	}
	for of, objects := range s.objects {
		for name, found := range objects {
			if _, stayed := wasThere[string(found.object.GetUID())]; !stayed {
				s.observed(Change{of.plural, nil, found.object})
			}
			s.collectLater(place{of, name}, found.object)
		}
	}
}

// Silence has watches tell nothing for so long, without an error; then they tell all of it.
func (s *Server) Silence(lasts time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = time.Now().Add(lasts)
}

// Settle patches an object, status and all, as Kubernetes' own controllers do, unless it is gone.
func (s *Server) Settle(plural string, object *unstructured.Unstructured, patch []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, known := s.uids[string(object.GetUID())]
	if !known || at.plural != plural {
		return
	}
	before := s.objects[at.resource][at.key]
	merged, err := jsonpatch.MergePatch(before.raw, patch)
	if err != nil {
		panic(err) // a patch of a test
	}
	after, err := decode(merged)
	if err != nil {
		panic(err)
	}
	s.store(at, before, &unstructured.Unstructured{Object: after})
}
