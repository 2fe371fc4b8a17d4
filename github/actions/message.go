package actions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"time"
)

const (
	// maxEntries bounds what a message may take of memory: 20 times the 50 entries that the service puts in one.
	maxEntries = 1000
	// maxProblems bounds the text that says what is wrong with a message.
	maxProblems = 50
)

// messageTypeJobs is the only type of envelope that exists.
const messageTypeJobs = "RunnerScaleSetJobMessages"

// Message is one message of a scale set's queue: up to 50 entries about jobs, sorted by kind, in the order they came.
type Message struct {
	// ID ascends within a scale set. It is neither small nor dense.
	ID int64
	// Statistics are current when the message is handed out, not when it was written; nil when it came without.
	Statistics    *Statistics
	JobsAvailable []JobAvailable
	JobsAssigned  []JobAssigned
	JobsStarted   []JobStarted
	JobsCompleted []JobCompleted
	// Entries counts all elements of the message, including unknown ones.
	Entries int
	// Unknown lists the types of elements that this client doesn't know, shortened. They are no error.
	Unknown []string
}

// JobMessageBase is what all entries about jobs have; not all of it has a reader in this module. Times are zero (IsZero) until
// they are known.
type JobMessageBase struct {
	RunnerRequestID    int64     `json:"runnerRequestId"`
	RepositoryName     string    `json:"repositoryName"`
	OwnerName          string    `json:"ownerName"`
	JobID              string    `json:"jobId"`
	JobWorkflowRef     string    `json:"jobWorkflowRef"`
	JobDisplayName     string    `json:"jobDisplayName"`
	WorkflowRunID      int64     `json:"workflowRunId"`
	EventName          string    `json:"eventName"`
	RequestLabels      []string  `json:"requestLabels"`
	QueueTime          time.Time `json:"queueTime"`
	ScaleSetAssignTime time.Time `json:"scaleSetAssignTime"`
	RunnerAssignTime   time.Time `json:"runnerAssignTime"`
	FinishTime         time.Time `json:"finishTime"`
}

// JobAvailable offers a job: acquire it by its RunnerRequestID.
type JobAvailable struct {
	JobMessageBase
}

// JobAssigned says that a job was given to the scale set.
type JobAssigned struct {
	JobMessageBase
}

// JobStarted says that a runner took a job.
type JobStarted struct {
	JobMessageBase
	RunnerID   int    `json:"runnerId"`
	RunnerName string `json:"runnerName"`
}

// JobCompleted says that a job ended, or was taken back before a runner had it (RunnerID 0).
type JobCompleted struct {
	JobMessageBase
	// Result is succeeded, failed, canceled or another word of GitHub's.
	Result     string `json:"result"`
	RunnerID   int    `json:"runnerId"`
	RunnerName string `json:"runnerName"`
}

// MalformedMessageError is a message that breaks the protocol. It can't become right by asking again: log it, use
// what could be read, and delete it.
type MalformedMessageError struct {
	// MessageID is 0 when not even the id could be read; such a message can't be deleted.
	MessageID int64
	// MessageType is the type of the envelope, as far as it could be read, shortened.
	MessageType string
	// Message is what could be read; never nil. Its Statistics are nil unless all of them could be read.
	Message *Message
	// Err lists all that is wrong.
	Err error
}

// Error implements error.
func (e *MalformedMessageError) Error() string {
	problems := strings.ReplaceAll(e.Err.Error(), "\n", "; ") // conditions show it in a line
	return fmt.Sprintf("message %d (type %q) breaks the protocol: %s", e.MessageID, e.MessageType, problems)
}

// Unwrap returns what is wrong.
func (e *MalformedMessageError) Unwrap() error { return e.Err }

// envelope leaves each field undecoded: one that is wrong must not hide the others.
type envelope struct {
	MessageID   json.RawMessage `json:"messageId"`
	MessageType json.RawMessage `json:"messageType"`
	Body        json.RawMessage `json:"body"`
	Statistics  json.RawMessage `json:"statistics"`
}

// parseMessage decodes a message. It fails with ErrTruncated when the text ends too early, else with
// *MalformedMessageError.
func parseMessage(text []byte) (*Message, error) {
	var outer envelope
	err := json.NewDecoder(bytes.NewReader(text)).Decode(&outer)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %w", ErrTruncated, io.ErrUnexpectedEOF)
	}
	if err != nil {
		return nil, &MalformedMessageError{Message: &Message{}, Err: &shortError{err}}
	}
	message, kind := &Message{}, ""
	problems := []error{
		decodeField("messageId", outer.MessageID, &message.ID),
		decodeField("messageType", outer.MessageType, &kind),
	}
	if outer.Statistics != nil { // without them the last ones hold
		problems = append(problems, decodeOptional("statistics", outer.Statistics, &message.Statistics))
	}
	if kind == messageTypeJobs {
		problems = append(problems, message.addBody(outer.Body))
	} else {
		kind = shorten(kind)
		problems = append(problems, fmt.Errorf("messageType %q is unknown", kind))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, &MalformedMessageError{MessageID: message.ID, MessageType: kind, Message: message, Err: err}
	}
	return message, nil
}

func decodeField[T any](name string, text json.RawMessage, into *T) error {
	if len(text) == 0 || string(text) == "null" {
		return fmt.Errorf("%s is missing", name)
	}
	return decodeOptional(name, text, into)
}

// decodeOptional leaves into as it is where the field can't be read: statistics that are read in part would say that there are
// no jobs.
func decodeOptional[T any](name string, text json.RawMessage, into *T) error {
	var value T
	if err := json.Unmarshal(text, &value); err != nil {
		return problem(name, err)
	}
	*into = value
	return nil
}

// problem says what is wrong with a part of a message. The cause may quote all of it: a number that is out of range, a time.
func problem(part string, err error) error { return fmt.Errorf("%s: %w", part, &shortError{err}) }

// addBody decodes the entries: an array inside a string. An empty or missing string has none.
func (m *Message) addBody(text json.RawMessage) error {
	var body string
	if len(text) > 0 {
		if err := json.Unmarshal(text, &body); err != nil {
			return problem("body", err)
		}
	}
	if body == "" {
		return nil
	}
	entries := json.NewDecoder(strings.NewReader(body))
	opening, err := entries.Token()
	switch {
	case err != nil:
		return problem("body", err)
	case opening == nil: // null
		return nil
	case opening != json.Delim('['):
		return errors.New("body: it is no array of entries")
	}
	return m.addEntries(entries)
}

// addEntries reads the array to its end, or as far as it goes. One bad entry doesn't hide the others.
func (m *Message) addEntries(entries *json.Decoder) error {
	var problems []error
	for ; entries.More(); m.Entries++ {
		if m.Entries == maxEntries || len(problems) == maxProblems {
			return errors.Join(append(problems, fmt.Errorf("body: it goes on after entry %d, that is ignored", m.Entries))...)
		}
		var entry json.RawMessage
		if err := entries.Decode(&entry); err != nil {
			return errors.Join(append(problems, problem("body", err))...)
		}
		if err := m.addEntry(entry); err != nil {
			problems = append(problems, problem("entry "+strconv.Itoa(m.Entries), err))
		}
	}
	if _, err := entries.Token(); err != nil {
		problems = append(problems, problem("body", err))
	}
	return errors.Join(problems...)
}

func (m *Message) addEntry(text json.RawMessage) error {
	var kind struct {
		MessageType string `json:"messageType"`
	}
	if err := json.Unmarshal(text, &kind); err != nil {
		return err
	}
	switch kind.MessageType {
	case "JobAvailable":
		return appendDecoded(&m.JobsAvailable, text)
	case "JobAssigned":
		return appendDecoded(&m.JobsAssigned, text)
	case "JobStarted":
		return appendDecoded(&m.JobsStarted, text)
	case "JobCompleted":
		return appendDecoded(&m.JobsCompleted, text)
	}
	m.Unknown = append(m.Unknown, shorten(kind.MessageType))
	return nil
}

// appendDecoded appends the entry even where a time in it can't be read, which is zero then: times are for metrics, and must
// not cost a job.
func appendDecoded[T any](to *[]T, text json.RawMessage) error {
	var entry T
	problem := json.Unmarshal(text, &entry)
	if problem != nil {
		entry = *new(T)
		if err := json.Unmarshal(withoutUnreadableTimes(text), &entry); err != nil {
			return problem
		}
	}
	*to = append(*to, entry)
	return problem
}

// withoutUnreadableTimes returns an entry without those of its times that can't be decoded.
func withoutUnreadableTimes(entry json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(entry, &fields) != nil {
		return entry
	}
	maps.DeleteFunc(fields, func(name string, value json.RawMessage) bool {
		return strings.HasSuffix(strings.ToLower(name), "time") && json.Unmarshal(value, new(time.Time)) != nil
	})
	readable, err := json.Marshal(fields)
	if err != nil {
		return entry
	}
	return readable
}
