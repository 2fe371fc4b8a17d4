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

	"github.com/harrier-ci/harrier/github/actions/failure"
)

const (
	// maxEntries bounds the memory that a message takes: 20 times the 50 entries that the service puts in one.
	maxEntries = 1000
	// maxProblems bounds the text about what is wrong with a message.
	maxProblems = 50
)

// messageTypeJobs is the only type of envelope that exists.
const messageTypeJobs = "RunnerScaleSetJobMessages"

// Message is a message from a scale set's queue: up to 50 entries about jobs, by kind, each kind in the order of the
// message.
type Message struct {
	// ID is the message's ID. IDs ascend within a scale set, with gaps. GitHub's were observed to begin at about
	// 100,000,000.
	ID int64
	// Statistics are current as of the delivery of the message, not of its creation. They are nil if the message has
	// none.
	Statistics *Statistics
	// JobsAvailable are the jobs on offer, at services that do not assign jobs by themselves.
	JobsAvailable []JobAvailable
	// JobsAssigned are the jobs that are now the scale set's.
	JobsAssigned []JobAssigned
	// JobsStarted are the jobs that runners have taken.
	JobsStarted []JobStarted
	// JobsCompleted are the jobs that have ended or were withdrawn.
	JobsCompleted []JobCompleted
	// Entries counts all entries of the message, including those of unknown types.
	Entries int
	// Unknown lists the types of the entries that this client does not know, cut after 512 bytes. They are not an
	// error.
	Unknown []string
}

// JobMessageBase has what all entries about jobs have in common. A time is zero (IsZero) as long as it is not known.
type JobMessageBase struct {
	// RunnerRequestID identifies the job in [Session.AcquireJobs]. It is 0 at services that assign jobs by themselves.
	RunnerRequestID int64 `json:"runnerRequestId"`
	// RepositoryName and OwnerName are the job's repository, without its owner, and that owner.
	RepositoryName string `json:"repositoryName"`
	OwnerName      string `json:"ownerName"`
	// JobID identifies the job. It is empty if the server does not send it.
	JobID string `json:"jobId"`
	// JobWorkflowRef is the job's workflow: OWNER/REPOSITORY/PATH@REF.
	JobWorkflowRef string `json:"jobWorkflowRef"`
	// JobDisplayName is the job's name. The workflow's author chooses it, and it can have any length.
	JobDisplayName string `json:"jobDisplayName"`
	// WorkflowRunID identifies the run of the workflow, as in its address on GitHub.
	WorkflowRunID int64 `json:"workflowRunId"`
	// EventName is the event that started the run, such as push.
	EventName string `json:"eventName"`
	// RequestLabels are the labels that the job asks for in runs-on.
	RequestLabels []string `json:"requestLabels"`
	// The job was queued at QueueTime, assigned to the scale set at ScaleSetAssignTime, taken by a runner at
	// RunnerAssignTime, and ended at FinishTime.
	QueueTime          time.Time `json:"queueTime"`
	ScaleSetAssignTime time.Time `json:"scaleSetAssignTime"`
	RunnerAssignTime   time.Time `json:"runnerAssignTime"`
	FinishTime         time.Time `json:"finishTime"`
}

// JobAvailable offers a job: acquire it by its RunnerRequestID.
type JobAvailable struct {
	JobMessageBase
}

// JobAssigned says that a job was assigned to the scale set.
type JobAssigned struct {
	JobMessageBase
}

// JobStarted says that a runner took a job.
type JobStarted struct {
	JobMessageBase
	// RunnerID and RunnerName identify the runner; see [RunnerReference].
	RunnerID   int    `json:"runnerId"`
	RunnerName string `json:"runnerName"`
}

// JobCompleted says that a job ended, or was withdrawn before a runner had it. GitHub was observed to withdraw a job
// that is not taken in time with the result canceled, and to assign it again up to three times.
type JobCompleted struct {
	JobMessageBase
	// Result is succeeded, failed, canceled or another of GitHub's words.
	Result string `json:"result"`
	// RunnerID and RunnerName identify the runner. They are 0 and empty if the job was withdrawn.
	RunnerID   int    `json:"runnerId"`
	RunnerName string `json:"runnerName"`
}

// MalformedMessageError reports a message that breaks the protocol. The next delivery would be no better: log it, use
// what could be read, and delete it.
type MalformedMessageError struct {
	// MessageID is the message's ID, or 0 if not even that could be read. Such a message can't be deleted.
	MessageID int64
	// MessageType is the type of the envelope as far as it could be read, cut after 512 bytes.
	MessageType string
	// Message has everything that could be read, and is never nil. Its Statistics are nil unless all of them could be
	// read.
	Message *Message
	// Err lists everything that is wrong.
	Err error
}

// Error names the message and lists what is wrong with it, in one line.
func (e *MalformedMessageError) Error() string {
	problems := strings.ReplaceAll(e.Err.Error(), "\n", "; ") // conditions show it in one line
	return fmt.Sprintf("message %d (type %q) breaks the protocol: %s", e.MessageID, e.MessageType, problems)
}

// Unwrap returns what is wrong.
func (e *MalformedMessageError) Unwrap() error { return e.Err }

// envelope leaves each field undecoded, so that one that is wrong does not hide the others.
type envelope struct {
	MessageID   json.RawMessage `json:"messageId"`
	MessageType json.RawMessage `json:"messageType"`
	Body        json.RawMessage `json:"body"`
	Statistics  json.RawMessage `json:"statistics"`
}

// parseMessage decodes the message in an answer to a request that carried the secrets. It fails with ErrTruncated if the
// text ends too early, and with *MalformedMessageError if anything else is wrong.
func parseMessage(text []byte, secrets ...string) (*Message, error) {
	var outer envelope
	err := json.NewDecoder(bytes.NewReader(text)).Decode(&outer)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %w", failure.ErrTruncated, io.ErrUnexpectedEOF)
	}
	if err != nil {
		return nil, &MalformedMessageError{Message: &Message{}, Err: failure.Short(err, secrets...)}
	}
	message, kind := &Message{}, ""
	problems := []error{
		decodeField("messageId", outer.MessageID, &message.ID),
		decodeField("messageType", outer.MessageType, &kind),
	}
	if outer.Statistics != nil { // if there are none, the last ones still hold
		problems = append(problems, decodeOptional("statistics", outer.Statistics, &message.Statistics))
	}
	if kind == messageTypeJobs {
		problems = append(problems, message.addBody(outer.Body))
	} else {
		kind = failure.Quote(kind, secrets...)
		problems = append(problems, fmt.Errorf("messageType %q is unknown", kind))
	}
	for i := range message.Unknown {
		message.Unknown[i] = failure.Quote(message.Unknown[i], secrets...)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, &MalformedMessageError{
			MessageID: message.ID, MessageType: kind, Message: message, Err: failure.Redacted(err, secrets...),
		}
	}
	return message, nil
}

func decodeField[T any](name string, text json.RawMessage, into *T) error {
	if len(text) == 0 || string(text) == "null" {
		return fmt.Errorf("%s is missing", name)
	}
	return decodeOptional(name, text, into)
}

// decodeOptional leaves into as it is if the field can't be read: statistics read in part would say that there are no
// jobs.
func decodeOptional[T any](name string, text json.RawMessage, into *T) error {
	var value T
	if err := json.Unmarshal(text, &value); err != nil {
		return problem(name, err)
	}
	*into = value
	return nil
}

// problem returns an error about a part of a message. It shortens the cause, which may quote all of that part.
func problem(part string, err error) error { return fmt.Errorf("%s: %w", part, failure.Short(err)) }

// addBody decodes the entries, which are an array inside a string. An empty or missing string has none.
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
		return errors.New("body: it is not an array of entries")
	}
	return m.addEntries(entries)
}

// addEntries reads the array to its end, or as far as it goes. One bad entry doesn't hide the others.
func (m *Message) addEntries(entries *json.Decoder) error {
	var problems []error
	for ; entries.More(); m.Entries++ {
		if m.Entries == maxEntries || len(problems) == maxProblems {
			return errors.Join(append(
				problems, fmt.Errorf("body: entries after the first %d are ignored", m.Entries),
			)...)
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
	m.Unknown = append(m.Unknown, kind.MessageType)
	return nil
}

// appendDecoded appends the entry even if a time in it can't be read, which is left zero: times serve metrics only, and
// must not cost a job. It still returns the problem.
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

// withoutUnreadableTimes returns an entry without the times that can't be decoded.
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
