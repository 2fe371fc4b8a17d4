package ephemeralrunner

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// provisionMemory is the part of a runner's memory that is shared with its calls in the pool. A call under way keeps it even
// if the runner is forgotten in the meantime. The zero value is that of a new runner. Safe for concurrent use.
type provisionMemory struct {
	mu                 sync.Mutex
	abandoned          bool          // no Secret or Pod may follow a registration that is under way
	asked              bool          // this manager has asked GitHub for a registration
	askedSinceLastPass bool          // GitHub was asked since the last pass, so the registration known before is void
	secret             types.UID     // UID of the Secret that is known to be the runner's, empty if none is
	unstored           *registration // registration for which no Secret could be created, nil if there is none
}

// abandon notes that nothing more must be created for the runner: it is being deleted, or gone.
func (s *provisionMemory) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abandoned = true
}

// resume takes abandon back: the runner was not deleted after all.
func (s *provisionMemory) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abandoned = false
}

func (s *provisionMemory) isAbandoned() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.abandoned
}

// noteAsked notes that GitHub may have a registration of the runner, whatever the answer.
func (s *provisionMemory) noteAsked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.askedSinceLastPass = true, true
}

func (s *provisionMemory) wasAsked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// takeAsked reports, once, that GitHub was asked for a registration since the last pass.
func (s *provisionMemory) takeAsked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.askedSinceLastPass
	s.askedSinceLastPass = false
	return asked
}

// noteSecret remembers the UID of the runner's Secret, empty if it is not known or there is none.
func (s *provisionMemory) noteSecret(secret types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secret, s.unstored = secret, nil
}

// knownSecret returns the UID of the runner's Secret, empty if it is not known.
func (s *provisionMemory) knownSecret() types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.secret
}

// keepUnstored remembers a registration for which no Secret could be created. No pod is created without a Secret, so the JIT
// config remains unused, and each new registration would cost four calls to GitHub.
func (s *provisionMemory) keepUnstored(registered *registration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unstored = registered
}

// unstoredWith returns the registration with that id if no Secret could be created for it, otherwise nil.
func (s *provisionMemory) unstoredWith(id int) *registration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unstored == nil || s.unstored.id != id {
		return nil
	}
	return s.unstored
}
