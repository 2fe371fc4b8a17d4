package cluster

import (
	"fmt"
	"io"
	"time"
)

// A transfer says how far it is every reportInterval.
const reportInterval = time.Second

// metered reads from a file and says how much of it has been read.
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
