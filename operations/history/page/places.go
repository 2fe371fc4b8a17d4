package page

import (
	"net"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// At most maxLive pages are kept up to date: each is made again every few seconds. Of these a peer has at most
	// maxOfPeer. Whoever forwards a port looks like everybody else who does, so loopback has all that one other peer
	// leaves over.
	maxLive       = 32
	maxOfPeer     = 8
	maxOfLoopback = maxLive - maxOfPeer
	// A page keeps its place for turn whatever happens, and for longestLive if nobody wants it. Then its browser asks
	// again, and with that whether it still may.
	turn        = time.Minute
	longestLive = 10 * time.Minute
)

// place is that of one page that is kept up to date.
type place struct {
	peer  string
	since time.Time
	// taken is closed when another page gets the place.
	taken chan struct{}
}

// places has those of all pages, the oldest first.
type places struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	all   []*place
}

// take returns a place for a page of a peer, and what gives it back; nil if there is none. A peer that has as many as it
// may loses its oldest for it. Where all places are taken, whoever has most of them loses its oldest, to a peer that has
// fewer: nobody keeps others out for longer than a turn, by holding places or by coming back at once.
func (p *places) take(peer string) (got *place, leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := map[string]int{}
	for _, one := range p.all {
		held[one.peer]++
	}
	loser := ""
	switch {
	case held[peer] >= mostOf(peer):
		loser = peer
	case len(p.all) >= maxLive:
		for other, number := range held {
			if number > max(held[loser], held[peer]+1) || number == held[loser] && other < loser {
				loser = other
			}
		}
		if loser == "" {
			return nil, nil
		}
	}
	now := p.clock.Now()
	if loser != "" {
		oldest := slices.IndexFunc(p.all, func(one *place) bool { return one.peer == loser })
		if now.Sub(p.all[oldest].since) < turn {
			return nil, nil
		}
		close(p.all[oldest].taken)
		p.all = slices.Delete(p.all, oldest, oldest+1)
	}
	got = &place{peer: peer, since: now, taken: make(chan struct{})}
	p.all = append(p.all, got)
	return got, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all = slices.DeleteFunc(p.all, func(one *place) bool { return one == got })
	}
}

func mostOf(peer string) int {
	if ip := net.ParseIP(peer); ip != nil && ip.IsLoopback() {
		return maxOfLoopback
	}
	return maxOfPeer
}
