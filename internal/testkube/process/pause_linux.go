package process

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// awaitStop returns when every thread of the child has stopped, or when the child has ended. A thread that runs on another
// CPU goes on for a moment after the signal was sent, long enough to write to a file or answer a request.
func awaitStop(pid int) error {
	for {
		// WNOWAIT leaves an end to be reaped by whoever waits for it.
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		switch {
		case err == nil, errors.Is(err, unix.ECHILD): // ECHILD: it has ended and was reaped
			return nil
		case !errors.Is(err, unix.EINTR):
			return fmt.Errorf("await that process %d has stopped: %w", pid, err)
		}
	}
}
