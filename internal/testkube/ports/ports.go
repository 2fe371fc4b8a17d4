// Package ports finds TCP ports for programs that tests start and that have to be told where to listen. Until such a program
// listens, or while it is away, nobody else takes its port: neither another test, which may be of another process, nor
// a connection or a server that lets the kernel choose.
package ports

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// first and end bound what is given out: below where kernels choose (16000 and up, most of them 32768 and up).
	first, end = 11000, 16000
	// blockSize is how many ports a process gets to itself: it listens on the first one of them for as long as it lives.
	blockSize = 250
	// restFor is how long a port is not given out again: who got it may not listen yet, or be away for a while.
	restFor = 5 * time.Minute
)

// port is one of this process's blocks.
type port struct {
	number int
	given  time.Time
}

var (
	mu sync.Mutex
	// guards listen on the first ports of this process's blocks.
	guards []net.Listener
	// queue are the other ports of the blocks, those first that were given out longest ago.
	queue []port
)

// Take returns n ports of 127.0.0.1 on which nobody listens.
func Take(n int) ([]int, error) {
	mu.Lock()
	defer mu.Unlock()
	taken := make([]int, 0, n)
	for range n {
		number, err := next(time.Now())
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		taken = append(taken, number)
	}
	return taken, nil
}

// next lets the kernel choose where all blocks are in use, as by thousands of programs: then a port may be taken meanwhile.
func next(now time.Time) (int, error) {
	if number := rested(now); number != 0 {
		return number, nil
	}
	if claim() {
		return next(now)
	}
	probe, err := listen(0)
	if err != nil {
		return 0, err
	}
	return probe.Addr().(*net.TCPAddr).Port, probe.Close()
}

// rested returns a port of this process's blocks, 0 where there is none.
func rested(now time.Time) int {
	for i, candidate := range queue {
		if now.Sub(candidate.given) < restFor {
			break // as have all that follow
		}
		if probe, err := listen(candidate.number); err == nil {
			_ = probe.Close() // nobody has connected, so the port is free at once
			queue = append(slices.Delete(queue, i, i+1), port{candidate.number, now})
			return candidate.number
		}
	}
	return 0
}

// claim adds a block on whose first port no process listens, and says whether there was one.
func claim() bool {
	for block := first; block < end; block += blockSize {
		guard, err := listen(block)
		if err != nil {
			continue
		}
		guards = append(guards, guard)
		fresh := make([]port, 0, blockSize-1+len(queue))
		for number := block + 1; number < block+blockSize; number++ {
			fresh = append(fresh, port{number: number})
		}
		queue = append(fresh, queue...)
		return true
	}
	return false
}

func listen(number int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(number)))
}
