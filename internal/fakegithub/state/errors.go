package state

import "fmt"

// Kind is the kind of fault in a request; the wire protocol decides by it.
type Kind int

// The refusals of the service.
const (
	Invalid Kind = iota + 1
	Unauthorized
	ScaleSetNotFound
	ScaleSetExists
	SessionConflict
	SessionExpired
	SessionNotFound
	RunnerExists
	RunnerNotFound
	JobStillRunning
	JobNotFound
	JITConfigUsed
	RunnerRemoved
	VersionDeprecated
	RunNotFound
	RunGoesOn
	RunExpired
	NotRerunnable
)

// Error is a refusal: its kind and a message for the caller.
type Error struct {
	Kind    Kind
	Message string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

func refuse(kind Kind, format string, args ...any) error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}
