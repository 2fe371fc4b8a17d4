package cluster

import (
	"fmt"
	"io"
	"time"
)

// A transfer reports its progress every reportInterval.
const reportInterval = time.Second

// metered reads from a file and reports the amount that has been read.
type metered struct {
	from        io.Reader
	what        string
	read, total int64
	progress    io.Writer
	reported    time.Time
}

func (m *metered) Read(buffer []byte) (int, error) {
	count, err := m.from.Read(buffer)
	m.read += int64(count)
	if now := time.Now(); count > 0 && (m.read == m.total || now.Sub(m.reported) >= reportInterval) {
		m.reported = now
		const megabyte = 1e6
		next := ""
		if m.read == m.total {
			next = ", unpacking"
		}
		_, _ = fmt.Fprintf(m.progress, "cluster: %s: %.0f of %.0f MB%s\n", m.what, float64(m.read)/megabyte,
			float64(m.total)/megabyte, next)
	}
	return count, err
}

// progress shows the step that is under way.
type progress struct{ target io.Writer }

// step writes the name of a step before it begins and, when it is done, its duration. Failures to write are ignored.
func (p progress) step(what string, do func() error) error {
	begin := time.Now()
	_, _ = fmt.Fprintf(p.target, "cluster: %s\n", what)
	if err := do(); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(p.target, "cluster: %s: done in %.1f s\n", what, time.Since(begin).Seconds())
	return nil
}
