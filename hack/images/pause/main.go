// Command pause is the first process of every pod of the test cluster: it holds the pod's namespaces open, reaps what
// containers that share its process namespace leave behind, and ends on SIGTERM or SIGINT.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		reap()
	}
}

// reap collects every child that has ended; one SIGCHLD may stand for several of them.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err != nil || pid <= 0 {
			return
		}
	}
}
