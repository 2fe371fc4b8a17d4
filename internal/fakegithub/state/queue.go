package state

import (
	"slices"
	"time"
)

// maxEntries is the service's limit of job messages in one message.
const maxEntries = 50

// The types of job messages.
const (
	JobAvailable = "JobAvailable"
	JobAssigned  = "JobAssigned"
	JobStarted   = "JobStarted"
	JobCompleted = "JobCompleted"
)

// WireTime is a time as the service writes it: a zone and seven fractional
// digits, year 1 when unset.
type WireTime time.Time

// MarshalJSON writes the time in the service's format.
func (t WireTime) MarshalJSON() ([]byte, error) {
	if time.Time(t).IsZero() {
		return []byte(`"0001-01-01T00:00:00Z"`), nil
	}
	return []byte(time.Time(t).UTC().Format(`"2006-01-02T15:04:05.0000000Z07:00"`)), nil
}

// JobMessage is one event of a job as the queue delivers it.
type JobMessage struct {
	Type            string   `json:"messageType"`
	AcquireJobURL   string   `json:"acquireJobUrl,omitempty"`
	RunnerRequestID int64    `json:"runnerRequestId"`
	Repository      string   `json:"repositoryName"`
	Owner           string   `json:"ownerName"`
	JobID           string   `json:"jobId"`
	WorkflowRef     string   `json:"jobWorkflowRef"`
	DisplayName     string   `json:"jobDisplayName"`
	WorkflowRunID   int64    `json:"workflowRunId"`
	EventName       string   `json:"eventName"`
	RequestLabels   []string `json:"requestLabels"`
	QueueTime       WireTime `json:"queueTime"`
	AssignTime      WireTime `json:"scaleSetAssignTime"`
	RunnerTime      WireTime `json:"runnerAssignTime"`
	FinishTime      WireTime `json:"finishTime"`
	RunnerID        *int     `json:"runnerId,omitempty"`
	RunnerName      *string  `json:"runnerName,omitempty"`
	Result          string   `json:"result,omitempty"`
}

// Message is up to 50 events under one id. Its content never changes, however
// often it is delivered.
type Message struct {
	ID      int64
	Entries []JobMessage
}

// Poll is one long poll under way.
type Poll struct {
	Session *Session
	// Wake receives when Collect may have something.
	Wake   chan struct{}
	lastID int64
}

// StartPoll begins a long poll after checking the queue token. capacity is the number of jobs that the set may have
// assigned in total, from now until the next poll. End the poll with EndPoll.
func (s *State) StartPoll(now time.Time, sessionID, token string, lastID int64, capacity int) (*Poll, error) {
	session, err := s.authorize(now, sessionID, token)
	if err != nil {
		return nil, err
	}
	poll := &Poll{Session: session, Wake: make(chan struct{}, 1), lastID: lastID}
	session.polls[poll] = true
	if capacity == 0 && !session.Set.advertisesZero() {
		s.anomaly(now, ZeroAdvertised, nil, nil, "the session of scale set "+session.Set.Name+" advertised a capacity of 0")
	}
	session.capacity, session.advertised = capacity, true
	s.place(now, session.Set)
	return poll, nil
}

// Collect returns the first undeleted message after the poll's last one, or nil
// when there is none yet. It fails when the session has ended meanwhile.
func (s *State) Collect(poll *Poll) (*Message, error) {
	if s.sessions[poll.Session.ID] != poll.Session {
		return nil, refuse(Unauthorized, "The session %s has ended.", poll.Session.ID)
	}
	set := poll.Session.Set
	for i := range set.messages {
		if set.messages[i].ID > poll.lastID {
			return &set.messages[i], nil
		}
	}
	return s.pack(set, poll.lastID), nil
}

// pack makes a message of what is pending. Offers that were taken or cancelled
// meanwhile are left out.
func (s *State) pack(set *ScaleSet, after int64) *Message {
	set.pending = slices.DeleteFunc(set.pending, func(m JobMessage) bool {
		return m.Type == JobAvailable && s.jobs[m.RunnerRequestID].State != Queued
	})
	if len(set.pending) == 0 {
		return nil
	}
	n := min(len(set.pending), maxEntries)
	// A client's own idea of the last id must not hide what comes next.
	s.nextMessage = max(s.nextMessage, after+1)
	message := Message{ID: s.nextMessage, Entries: slices.Clone(set.pending[:n])}
	s.nextMessage++
	set.pending = slices.Delete(set.pending, 0, n)
	set.messages = append(set.messages, message)
	return &message
}

// EndPoll must follow every StartPoll; the session counts as used until then.
func (s *State) EndPoll(now time.Time, poll *Poll) {
	delete(poll.Session.polls, poll)
	poll.Session.lastSeen = now
}

// DeleteMessage acknowledges a message; one that is gone already is no error.
func (s *State) DeleteMessage(now time.Time, sessionID, token string, id int64) error {
	session, err := s.authorize(now, sessionID, token)
	if err != nil {
		return err
	}
	set := session.Set
	set.messages = slices.DeleteFunc(set.messages, func(m Message) bool { return m.ID == id })
	return nil
}

// post queues an event of a job for the client of a set.
func (set *ScaleSet) post(kind string, job *Job) {
	m := JobMessage{
		Type: kind, RunnerRequestID: job.RequestID, JobID: job.JobID, WorkflowRunID: job.RunID,
		WorkflowRef: job.Spec.WorkflowRef,
		DisplayName: job.Spec.Name, EventName: job.Spec.Event, RequestLabels: job.Spec.Labels,
		QueueTime: WireTime(job.QueuedAt), AssignTime: WireTime(job.AssignedAt), RunnerTime: WireTime(job.StartedAt),
		FinishTime: WireTime(job.CompletedAt),
	}
	m.Owner, m.Repository = job.repository(set)
	setDefault(&m.WorkflowRef, defaultWorkflow(m.Owner, m.Repository))
	switch kind {
	case JobStarted, JobCompleted:
		m.RunnerID, m.RunnerName = new(int), new(string)
		if job.runner != nil {
			*m.RunnerID, *m.RunnerName = job.runner.ID, job.runner.Name
		}
		m.Result = job.Result
	case JobAvailable:
		m.AcquireJobURL = "acquirejob"
	}
	set.pending = append(set.pending, m)
	set.session.wake()
}

// repository returns the job's owner and repository, by default those of the set that runs it.
func (j *Job) repository(set *ScaleSet) (owner, name string) {
	owner, name = j.Spec.Owner, j.Spec.Repository
	if set != nil {
		setDefault(&owner, set.Scope.Owner)
		setDefault(&name, set.Scope.Repo)
	}
	setDefault(&name, "demo")
	return owner, name
}
