package listener

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listener/github"
	"github.com/harrier-ci/harrier/internal/listener/listenertest"
	"github.com/harrier-ci/harrier/internal/listener/serving"
)

// scriptedGitHub is a GitHub with one scale set whose queue a test fills. Hooks answer before the default does.
type scriptedGitHub struct {
	mu    sync.Mutex
	begun time.Time
	// calls lists the calls with their times, such as "0s open".
	calls      []string
	polls      []poll
	queue      []*actions.Message
	woken      chan struct{}
	statistics *actions.Statistics
	acquirable []actions.JobAvailable
	clients    []config.Credentials
	sessions   int
	evicted    bool
	// held is the ID of the session that is open, and polling the number of polls that are not answered yet.
	held    string
	polling int
	// heedless makes every poll return the oldest message, whatever the last one was.
	heedless bool
	// acquisitionsHang makes acquisitions hang until their callers give up. silent leaves statistics out of sessions.
	acquisitionsHang, silent bool
	// immediatePolls is the number of polls that are answered immediately, with or without a message.
	immediatePolls int
	// A poll is held for heldUntil, serving.PollHold if it is 0, and ends then with endOfHold.
	heldUntil time.Duration
	endOfHold error

	onConnect func() error
	onOpen    func() error
	onPoll    func() error
	onRead    func() error
	onSearch  func() error
	onAcquire func(requestIDs []int64) ([]int64, error)
	onDelete  func(messageID int64) error // never runs twice at a time, so that it may count
	onClose   func() error
	deleting  sync.Mutex // held while onDelete runs
}

// poll is one GetMessage.
type poll struct {
	at       string
	lastID   int64
	capacity int
}

func (g *scriptedGitHub) connect(settings *config.Config, _ func(actions.RequestInfo)) (github.Client, error) {
	if hook := listenertest.Guarded(&g.mu, &g.onConnect); hook != nil {
		if err := hook(); err != nil {
			return nil, err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.clients = append(g.clients, *settings.Credentials)
	return g, nil
}

func (g *scriptedGitHub) note(format string, values ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, at(time.Since(g.begun))+" "+fmt.Sprintf(format, values...))
}

// noted returns the number of times that a call was recorded.
func (g *scriptedGitHub) noted(call string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	count := 0
	for _, noted := range g.calls {
		var when string
		if _, err := fmt.Sscan(noted, &when); err == nil && noted[len(when)+1:] == call {
			count++
		}
	}
	return count
}

// acquisitions lists the requests for jobs, such as "acquire [1 2]".
func (g *scriptedGitHub) acquisitions() (requests []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, noted := range g.calls {
		if _, request, _ := strings.Cut(noted, " "); strings.HasPrefix(request, "acquire ") {
			requests = append(requests, request)
		}
	}
	return requests
}

func (g *scriptedGitHub) CloseIdleConnections() {}

func (g *scriptedGitHub) CreateSession(_ context.Context, scaleSetID int, _ string) (github.Session, error) {
	g.note("open %d", scaleSetID)
	if hook := listenertest.Guarded(&g.mu, &g.onOpen); hook != nil {
		if err := hook(); err != nil {
			return nil, err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sessions++
	g.held = fmt.Sprintf("session-%d", g.sessions)
	return &scriptedSession{github: g, id: g.held}, nil
}

func (g *scriptedGitHub) DeleteSession(_ context.Context, scaleSetID int, sessionID string) error {
	g.note("close %d %s", scaleSetID, sessionID)
	if hook := listenertest.Guarded(&g.mu, &g.onClose); hook != nil {
		if err := hook(); err != nil {
			return err
		}
	}
	g.closed(sessionID)
	return nil
}

func (g *scriptedGitHub) closed(sessionID string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held == sessionID {
		g.held = ""
	}
}

func (g *scriptedGitHub) GetRunnerScaleSetByID(context.Context, int) (*actions.RunnerScaleSet, error) {
	g.note("read")
	if hook := listenertest.Guarded(&g.mu, &g.onRead); hook != nil {
		if err := hook(); err != nil {
			return nil, err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return &actions.RunnerScaleSet{Statistics: g.statistics}, nil
}

func (g *scriptedGitHub) GetAcquirableJobs(context.Context, int) ([]actions.JobAvailable, error) {
	if hook := listenertest.Guarded(&g.mu, &g.onSearch); hook != nil {
		if err := hook(); err != nil {
			return nil, err
		}
	}
	return listenertest.Guarded(&g.mu, &g.acquirable), nil
}

// enqueue adds messages; the service says the last one's statistics from now on.
func (g *scriptedGitHub) enqueue(messages ...*actions.Message) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, message := range messages {
		g.queue = append(g.queue, message)
		if message.Statistics != nil {
			g.statistics = message.Statistics
		}
	}
	g.wake()
}

func (g *scriptedGitHub) wake() {
	if g.woken != nil {
		close(g.woken)
		g.woken = nil
	}
}

// next returns the oldest message after lastID or else a channel that is closed when there may be one.
func (g *scriptedGitHub) next(lastID int64) (*actions.Message, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, message := range g.queue {
		if message.ID > lastID || g.heedless {
			return message, nil
		}
	}
	if g.woken == nil {
		g.woken = make(chan struct{})
	}
	return nil, g.woken
}

func (g *scriptedGitHub) answersAtOnce() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.polls) <= g.immediatePolls
}

func (g *scriptedGitHub) pollTimes() (times []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, poll := range g.polls {
		times = append(times, poll.at)
	}
	return times
}

func (g *scriptedGitHub) lastPollAt() poll {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.polls[len(g.polls)-1]
}

func (g *scriptedGitHub) waiting() (ids []int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, message := range g.queue {
		ids = append(ids, message.ID)
	}
	return ids
}

type scriptedSession struct {
	github *scriptedGitHub
	id     string
}

func (s *scriptedSession) ID() string { return s.id }

func (s *scriptedSession) Statistics() *actions.Statistics {
	s.github.mu.Lock()
	defer s.github.mu.Unlock()
	if s.github.silent {
		return nil
	}
	return s.github.statistics
}

func (s *scriptedSession) GetMessage(ctx context.Context, lastID int64, capacity int) (*actions.Message, error) {
	g := s.github
	g.mu.Lock()
	g.polls = append(g.polls, poll{at(time.Since(g.begun)), lastID, capacity})
	g.polling++
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.polling--
	}()
	if hook := listenertest.Guarded(&g.mu, &g.onPoll); hook != nil {
		if err := hook(); err != nil {
			return nil, err
		}
	}
	held := time.After(cmp.Or(listenertest.Guarded(&g.mu, &g.heldUntil), serving.PollHold))
	for {
		if g.takeEviction() {
			return nil, actions.ErrSessionNotFound
		}
		message, woken := g.next(lastID)
		if message != nil || g.answersAtOnce() {
			return message, nil
		}
		select {
		case <-woken:
		case <-held:
			return nil, listenertest.Guarded(&g.mu, &g.endOfHold)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *scriptedSession) DeleteMessage(_ context.Context, id int64) error {
	if hook := listenertest.Guarded(&s.github.mu, &s.github.onDelete); hook != nil {
		s.github.deleting.Lock()
		err := hook(id)
		s.github.deleting.Unlock()
		if err != nil {
			return err
		}
	}
	s.github.note("delete %d", id)
	s.github.mu.Lock()
	defer s.github.mu.Unlock()
	s.github.queue = slices.DeleteFunc(s.github.queue, func(m *actions.Message) bool { return m.ID == id })
	return nil
}

func (s *scriptedSession) AcquireJobs(ctx context.Context, requestIDs []int64) ([]int64, error) {
	s.github.note("acquire %v", requestIDs)
	if listenertest.Guarded(&s.github.mu, &s.github.acquisitionsHang) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if hook := listenertest.Guarded(&s.github.mu, &s.github.onAcquire); hook != nil {
		return hook(requestIDs)
	}
	return requestIDs, nil
}

func (s *scriptedSession) Close(context.Context) error {
	s.github.note("close session %s", s.id)
	s.github.closed(s.id)
	return nil
}

// evict ends the poll under way as if the session were gone.
func (g *scriptedGitHub) evict() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.evicted = true
	g.wake()
}

// takeEviction reports, a single time, whether the session was evicted.
func (g *scriptedGitHub) takeEviction() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	evicted := g.evicted
	if g.evicted = false; evicted {
		g.held = ""
	}
	return evicted
}
