package cluster

import (
	"fmt"
	"io"
	"time"
)

// progress shows what is being waited for.
type progress struct{ target io.Writer }

// step writes what is about to happen and, when it is done, how long it took. Failures to write are ignored.
func (p progress) step(what string, do func() error) error {
	begin := time.Now()
	_, _ = fmt.Fprintf(p.target, "cluster: %s\n", what)
	if err := do(); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(p.target, "cluster: %s: done in %.1f s\n", what, time.Since(begin).Seconds())
	return nil
}
