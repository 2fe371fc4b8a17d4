// Package ports hands out TCP ports for programs that tests start and that have to be told where to listen, such as
// those of testkube and fakenode. For 5 minutes nobody else gets such a port, whether its program listens already or is
// being restarted: neither another test, even one of another process, nor a connection or a server for which the kernel
// chooses the port.
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
	// first and end bound the ports that are handed out: below those that kernels choose from, which begin at 16000 on
	// some systems and at 32768 on most.
	first, end = 11000, 16000
	// A process reserves blockSize ports at a time. It listens on the first of them for as long as it lives, and so
	// reserves the others.
	blockSize = 250
	// A port is not handed out again for restFor: its program may not listen yet, or be away for a while.
	restFor = 5 * time.Minute
)

// port is one of this process's blocks.
type port struct {
	number int
	given  time.Time
}

var (
	mu sync.Mutex
	// guards listen on the first ports of this process's blocks and so reserve these.
	guards []net.Listener
	// queue has the other ports of the blocks, the one that was handed out longest ago first.
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

// next returns a free port of this process's blocks. If all blocks are in use, as by thousands of programs, it lets the
// kernel choose; somebody else may then take the port before its program listens.
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

// rested returns a port of this process's blocks on which nobody listens and which has not been handed out for restFor,
// 0 if there is none.
func rested(now time.Time) int {
	for i, candidate := range queue {
		if now.Sub(candidate.given) < restFor {
			break // all that follow were handed out later still
		}
		if probe, err := listen(candidate.number); err == nil {
			_ = probe.Close() // nobody has connected, so the port is free immediately
			queue = append(slices.Delete(queue, i, i+1), port{candidate.number, now})
			return candidate.number
		}
	}
	return 0
}

// claim reserves another block, one on whose first port nobody listens, and reports whether there was one.
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
