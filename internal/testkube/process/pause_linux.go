package process

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// awaitStop returns when every thread of the child has stopped, or the child has ended. After the signal was sent, a
// thread on another CPU keeps running for a moment, long enough to write to a file or answer a request.
func awaitStop(pid int) error {
	for {
		// WNOWAIT leaves a child that has ended to be reaped by Wait.
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		switch {
		case err == nil, errors.Is(err, unix.ECHILD): // ECHILD: it has ended and was reaped
			return nil
		case !errors.Is(err, unix.EINTR):
			return fmt.Errorf("wait for process %d to stop: %w", pid, err)
		}
	}
}
