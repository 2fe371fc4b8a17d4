// Package pool runs slow calls outside of the reconcile workers: with a limit for the whole process, fair between
// namespaces and, in each, between scale sets, and at most one call per key at a time.
//
// A reconciler that needs something from GitHub requests a call here and returns. When the call has ended, the object
// is reconciled again and finds the answer (see Calls). So neither a worker nor a lock is ever held across a call that
// another scale set might have to wait for.
package pool

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// One manager has at most Limit calls in flight, or up to twice as many if other sets' calls came first (see
	// mayStart). With GitHub's 0.3–0.7 s for a JIT config that makes 180–430 registrations a second,
	// more than an API server on two cores can handle, and it is far below the number of connections that would strain
	// a host.
	Limit = 128

	// A call that takes longer than slowGrace leaves its place to another. If GitHub hangs, calls run into their 30 s
	// deadline, and other scale sets must not wait until then. It is twice the slowest ordinary call.
	slowGrace = 2 * time.Second
)

// Pool runs tasks in the background. The zero value is not usable; see New.
type Pool struct {
	limit int
	clock clock.WithDelayedExecution

	mu      sync.Mutex
	ctx     context.Context
	running int            // places taken (see mayStart)
	groups  map[string]int // tasks of a group in flight, including slow ones, at most limit
	waiting map[string][]task
	order   []string            // namespaces with waiting tasks, the one whose turn is next first
	turns   map[string][]string // by namespace, its groups with waiting tasks, likewise
	active  sync.WaitGroup
}

type task struct {
	group string
	run   func(context.Context)
}

// New returns a pool that runs limit tasks at a time, or more while most of them belong to groups that came first.
// Tasks wait until Start is called.
func New(limit int, clk clock.WithDelayedExecution) *Pool {
	return &Pool{
		limit:   limit,
		clock:   clk,
		groups:  map[string]int{},
		waiting: map[string][]task{},
		turns:   map[string][]string{},
	}
}

// Start runs tasks until the context ends, then waits for the tasks in flight, whose own context has ended too.
// It implements controller-runtime's Runnable.
func (p *Pool) Start(ctx context.Context) error {
	p.mu.Lock()
	p.ctx = ctx
	p.dispatch()
	p.mu.Unlock()
	<-ctx.Done()
	p.mu.Lock()
	p.ctx = nil // no task starts any more, so Wait has nothing to race with
	p.mu.Unlock()
	p.active.Wait()
	return nil
}

// Go queues a task on behalf of a group, which is a scale set as NAMESPACE/NAME. Namespaces take turns, and in each its
// groups, so neither a group with a thousand tasks nor a namespace with a thousand groups delays another's first task.
// Go never blocks.
func (p *Pool) Go(group string, run func(context.Context)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting[group]) == 0 {
		p.queue(group)
	}
	p.waiting[group] = append(p.waiting[group], task{group: group, run: run})
	p.dispatch()
}

// queue puts a group at the end of its namespace's turns.
func (p *Pool) queue(group string) {
	namespace, _, _ := strings.Cut(group, "/")
	if len(p.turns[namespace]) == 0 {
		p.order = append(p.order, namespace)
	}
	p.turns[namespace] = append(p.turns[namespace], group)
}

// Waiting reports whether tasks wait: the group's own, for any reason, or those of others, for a place. If places are
// free, a group that waits has as many tasks in flight as it may have: its calls hang, which doesn't make other groups
// wait.
func (p *Pool) Waiting(group string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting[group]) > 0 || (p.running >= p.limit && len(p.order) > 0)
}

// dispatch starts the tasks that may start, by turns. The caller holds the lock.
func (p *Pool) dispatch() {
	if p.ctx == nil {
		return
	}
	share := p.evenShare()
	for passed := 0; passed < len(p.order); {
		namespace := p.order[0]
		p.order = p.order[1:]
		group, found := p.next(namespace, share)
		if len(p.turns[namespace]) > 0 {
			p.order = append(p.order, namespace)
		}
		if !found {
			passed++
			continue
		}
		p.start(p.take(group))
		passed = 0
	}
}

// next removes and returns the first group of a namespace that may start a task. Those before it go behind the others.
func (p *Pool) next(namespace string, share int) (group string, found bool) {
	turns := p.turns[namespace]
	i := slices.IndexFunc(turns, func(group string) bool { return p.mayStart(group, share) })
	if i < 0 {
		return "", false
	}
	group = turns[i]
	if turns = append(turns[i+1:], turns[:i]...); len(turns) > 0 {
		p.turns[namespace] = turns
	} else {
		delete(p.turns, namespace)
	}
	return group, true
}

// evenShare returns the number of tasks that each group may have in flight if all groups with tasks get the same
// number, at least one.
func (p *Pool) evenShare() int {
	groups := len(p.groups)
	for group := range p.waiting {
		if p.groups[group] == 0 {
			groups++
		}
	}
	return max(1, p.limit/max(1, groups))
}

// mayStart reports whether a group may start a task. Places go to the groups that come first. But the tasks that came
// first may all be calls to a GitHub that hangs, so a group with less than its share doesn't wait for a free place. For
// moments there can be up to twice the limit.
func (p *Pool) mayStart(group string, share int) bool {
	inFlight := p.groups[group]
	return (p.running < p.limit && inFlight < p.limit) || (p.running < 2*p.limit && inFlight < share)
}

// take removes the group's first task, and gives the group another turn if it has more.
func (p *Pool) take(group string) task {
	queue := p.waiting[group]
	next := queue[0]
	queue[0] = task{}
	if len(queue) == 1 {
		delete(p.waiting, group)
	} else {
		p.waiting[group] = queue[1:]
		p.queue(group)
	}
	return next
}

func (p *Pool) start(t task) {
	p.running++
	p.groups[t.group]++
	p.active.Add(1)
	place, ctx := &place{pool: p}, p.ctx
	slow := p.clock.AfterFunc(slowGrace, place.giveBack)
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

// place is one of the pool's places. It is given back when its task ends or proves slow, whichever comes first.
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
