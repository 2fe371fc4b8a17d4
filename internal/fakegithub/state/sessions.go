package state

import (
	"time"

	"github.com/google/uuid"
)

// Session is a client's hold on the message queue of one scale set.
type Session struct {
	ID        string
	OwnerName string
	Set       *ScaleSet
	Token     string // the newest queue token

	tokens     map[string]time.Time // accepted until
	capacity   int                  // as last advertised; 0 before the first poll
	advertised bool                 // whether there was a poll
	lastSeen   time.Time
	polls      map[*Poll]bool
}

// CreateSession opens the session of a scale set. It fails with SessionConflict while another session lives, whoever
// owns it.
func (s *State) CreateSession(now time.Time, scope *Scope, setID int, owner string) (*Session, error) {
	set, err := s.ScaleSet(scope, setID)
	if err != nil {
		return nil, err
	}
	if set.session != nil {
		return nil, refuse(SessionConflict, "The runner scale set %s already has an active session for owner %s.", set.Name,
			set.session.OwnerName)
	}
	session := &Session{
		ID: uuid.NewString(), OwnerName: owner, Set: set, lastSeen: now,
		tokens: map[string]time.Time{}, polls: map[*Poll]bool{},
	}
	s.newToken(now, session)
	set.session = session
	s.sessions[session.ID] = session
	s.watchAbandonment(now, session)
	s.offerWaiting(now, set)
	return session, nil
}

// newToken adds a queue token; older ones stay good until their own end, as a
// poll that is under way must not fail because of a refresh.
func (s *State) newToken(now time.Time, session *Session) {
	session.Token = uuid.NewString()
	session.tokens[session.Token] = now.Add(s.cfg.QueueTokenLifetime)
}

// watchAbandonment ends the session when nobody has used it for its lifetime. One timer per session looks again later
// instead of one timer per request.
func (s *State) watchAbandonment(now time.Time, session *Session) {
	at := session.lastSeen.Add(s.cfg.SessionLifetime)
	if len(session.polls) > 0 {
		at = now.Add(s.cfg.SessionLifetime)
	}
	s.after(at, func(now time.Time) {
		if s.sessions[session.ID] != session {
			return
		}
		if len(session.polls) == 0 && !now.Before(session.lastSeen.Add(s.cfg.SessionLifetime)) {
			s.endSession(session)
			return
		}
		s.watchAbandonment(now, session)
	})
}

// RefreshSession gives a live session a new queue token, or fails with SessionNotFound.
func (s *State) RefreshSession(now time.Time, scope *Scope, setID int, id string) (*Session, error) {
	if _, err := s.ScaleSet(scope, setID); err != nil {
		return nil, err
	}
	session, ok := s.sessions[id]
	if !ok || session.Set.ID != setID {
		return nil, refuse(SessionNotFound, "The request referenced a session ID that doesn't exist: %s.", id)
	}
	session.lastSeen = now
	s.newToken(now, session)
	return session, nil
}

// DeleteSession ends a session, or fails with SessionExpired when it has ended before.
func (s *State) DeleteSession(scope *Scope, setID int, id string) error {
	if _, err := s.ScaleSet(scope, setID); err != nil {
		return err
	}
	session, ok := s.sessions[id]
	if !ok || session.Set.ID != setID {
		return refuse(SessionExpired, "The session identifier %s is not valid.", id)
	}
	s.endSession(session)
	return nil
}

// endSession also wakes polls under way, which find their session gone.
func (s *State) endSession(session *Session) {
	if session == nil {
		return
	}
	delete(s.sessions, session.ID)
	session.Set.session = nil
	session.wake()
}

func (session *Session) wake() {
	if session == nil {
		return
	}
	for poll := range session.polls {
		signal(poll.Wake)
	}
}

// EvictSessions ends the sessions of one scale set, or all with a set id of 0.
func (s *State) EvictSessions(setID int) int {
	evicted := 0
	for _, session := range s.sessions {
		if setID == 0 || session.Set.ID == setID {
			s.endSession(session)
			evicted++
		}
	}
	return evicted
}

// ExpireQueueTokens makes every queue token given out so far worthless.
func (s *State) ExpireQueueTokens() {
	for _, session := range s.sessions {
		clear(session.tokens)
	}
}

// authorize finds a live session and checks a queue token for it. An ended
// session looks like an expired token: the refresh that follows tells the truth.
func (s *State) authorize(now time.Time, id, token string) (*Session, error) {
	session, ok := s.sessions[id]
	if !ok {
		return nil, refuse(Unauthorized, "The message queue token is not valid.")
	}
	if until, ok := session.tokens[token]; !ok || !now.Before(until) {
		return nil, refuse(Unauthorized, "The message queue token is expired.")
	}
	session.lastSeen = now
	return session, nil
}
