package ephemeralrunner

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// provisionMemory is the part of a runner's memory that is shared with its calls in the pool. A call that is under way keeps it
// though the runner is forgotten meanwhile. The zero value is that of a new runner. Safe for concurrent use.
type provisionMemory struct {
	mu        sync.Mutex
	abandoned bool          // a registration under way is not to be followed by Secret and Pod
	asked     bool          // this manager has asked GitHub for a registration
	anew      bool          // it has since the last pass, so the registration known before is void
	secret    types.UID     // of the Secret that is known to be the runner's, empty where none is
	unstored  *registration // for which no Secret could be made, nil where there is none
}

// abandon notes that nothing more is to be made for the runner: it is being deleted, or gone.
func (s *provisionMemory) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abandoned = true
}

func (s *provisionMemory) isAbandoned() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.abandoned
}

// noteAsked remembers that GitHub may have a registration of the runner, whatever becomes of the answer.
func (s *provisionMemory) noteAsked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.anew = true, true
}

func (s *provisionMemory) wasAsked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// takeAnew reports, once, that GitHub was asked for a registration since the last pass.
func (s *provisionMemory) takeAnew() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	anew := s.anew
	s.anew = false
	return anew
}

// noteSecret remembers the UID of the runner's Secret; an empty one where it is not known, or there is none.
func (s *provisionMemory) noteSecret(secret types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secret, s.unstored = secret, nil
}

// knownSecret returns the UID of the runner's Secret, empty where it is not known.
func (s *provisionMemory) knownSecret() types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.secret
}

// keepUnstored remembers a registration for which no Secret could be made. No pod is made before there is one, so its JIT
// config is unused until then, and another registration would cost GitHub four calls for each try.
func (s *provisionMemory) keepUnstored(registered *registration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unstored = registered
}

// unstoredWith returns the registration with that id where no Secret could be made for it, else nil.
func (s *provisionMemory) unstoredWith(id int) *registration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unstored == nil || s.unstored.id != id {
		return nil
	}
	return s.unstored
}
