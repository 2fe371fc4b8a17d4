// Package pool runs slow calls away from the reconcile workers: bounded for the whole process, fair between scale sets,
// at most one call for a key at a time.
//
// A reconciler that needs something from GitHub asks for it here and returns; when the call has ended the object is
// reconciled again and finds the answer (see Calls). So neither a worker nor a lock is ever held across a call that
// another scale set could have to wait for.
package pool

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// Limit is how many calls one manager has in flight, or up to twice that where many are another set's (see mayStart). With
	// GitHub's 0.3–0.7 s for a JIT config it makes 180–430 registrations a second, more than an API server takes on two cores,
	// and stays far below what a host would have to open connections for.
	Limit = 128

	// slowAfter is how long a call may take before its place is given to another: calls to a GitHub that hangs run into
	// their 30 s deadline, and must not keep other scale sets waiting until then. It is twice the slowest ordinary call.
	slowAfter = 2 * time.Second
)

// Pool runs tasks in the background. The zero value is not usable; see New.
type Pool struct {
	limit int
	clock clock.WithDelayedExecution

	mu      sync.Mutex
	ctx     context.Context
	running int            // places taken (see mayStart)
	groups  map[string]int // tasks of a group in flight, slow ones included, at most limit
	waiting map[string][]task
	order   []string // groups with waiting tasks, the next in turn first
	active  sync.WaitGroup
}

type task struct {
	group string
	run   func(context.Context)
}

// New returns a pool that has limit tasks in flight, or more while groups that came first have most of them. Tasks wait until
// Start is called.
func New(limit int, clk clock.WithDelayedExecution) *Pool {
	return &Pool{limit: limit, clock: clk, groups: map[string]int{}, waiting: map[string][]task{}}
}

// Start runs tasks until the context ends, then waits for those in flight, whose own context has ended too.
// It implements controller-runtime's Runnable.
func (p *Pool) Start(ctx context.Context) error {
	p.mu.Lock()
	p.ctx = ctx
	p.dispatch()
	p.mu.Unlock()
	<-ctx.Done()
	p.mu.Lock()
	p.ctx = nil // nothing starts any more, so nothing joins those that are waited for
	p.mu.Unlock()
	p.active.Wait()
	return nil
}

// Go queues a task in the name of a group, which is a scale set. Groups take turns, so that one with a thousand tasks
// does not keep another's first one waiting. It never blocks.
func (p *Pool) Go(group string, run func(context.Context)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting[group]) == 0 {
		p.order = append(p.order, group)
	}
	p.waiting[group] = append(p.waiting[group], task{group: group, run: run})
	p.dispatch()
}

// Waiting reports whether tasks wait: the group's own for whatever reason, or others' for a place. A group that has as many in
// flight as it may, while places are free, waits for nobody but itself: its calls hang, which is no reason for another to wait.
func (p *Pool) Waiting(group string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting[group]) > 0 || p.running >= p.limit && len(p.order) > 0
}

// dispatch starts what may start, in turn. The caller holds the lock.
func (p *Pool) dispatch() {
	if p.ctx == nil {
		return
	}
	share := p.evenShare()
	for passed := 0; passed < len(p.order); {
		group := p.order[0]
		p.order = p.order[1:]
		if !p.mayStart(group, share) {
			p.order = append(p.order, group)
			passed++
			continue
		}
		p.start(p.take(group))
		passed = 0
	}
}

// evenShare is how many tasks a group has in flight when all that have any get the same, but one at least.
func (p *Pool) evenShare() int {
	groups := len(p.groups)
	for _, group := range p.order {
		if p.groups[group] == 0 {
			groups++
		}
	}
	return max(1, p.limit/max(1, groups))
}

// mayStart: places are for whoever comes first, but a group that has less than its share doesn't wait until one is free, as the
// tasks that came first may all be calls to a GitHub that hangs. That makes at most twice the limit, for moments.
func (p *Pool) mayStart(group string, share int) bool {
	inFlight := p.groups[group]
	return p.running < p.limit && inFlight < p.limit || p.running < 2*p.limit && inFlight < share
}

// take removes the group's first task and puts the group at the end of the turn if it has more.
func (p *Pool) take(group string) task {
	queue := p.waiting[group]
	next := queue[0]
	queue[0] = task{}
	if len(queue) == 1 {
		delete(p.waiting, group)
	} else {
		p.waiting[group] = queue[1:]
		p.order = append(p.order, group)
	}
	return next
}

func (p *Pool) start(t task) {
	p.running++
	p.groups[t.group]++
	p.active.Add(1)
	place, ctx := &place{pool: p}, p.ctx
	slow := p.clock.AfterFunc(slowAfter, place.giveBack)
	go func() {
		defer p.active.Done()
		t.run(ctx)
		slow.Stop()
		p.finish(t.group, place)
	}()
}

func (p *Pool) finish(group string, place *place) {
	place.giveBack()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.groups[group]--; p.groups[group] == 0 {
		delete(p.groups, group)
	}
	p.dispatch()
}

// place is one of the pool's places. It is given back when its task ends or turns out to be slow, whichever is first.
type place struct {
	pool *Pool
	once sync.Once
}

func (p *place) giveBack() {
	p.once.Do(func() {
		p.pool.mu.Lock()
		defer p.pool.mu.Unlock()
		p.pool.running--
		p.pool.dispatch()
	})
}
