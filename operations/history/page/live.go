package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/operations/history/access"
)

const (
	// keepAlive is less than the time after which proxies end a connection without traffic.
	keepAlive = 15 * time.Second
	// An event may take slowClientTimeout to arrive.
	slowClientTimeout = 30 * time.Second
)

// follow sends the content of a page as a server-sent event, whenever it has changed, until the browser goes or the
// page has had its time. A page that can't be made takes no place. If too many pages are followed, the browser is told
// so, and its page stays as it is.
func (p *pages) follow(w http.ResponseWriter, r *http.Request, k *kind) {
	began := p.Clock.Now()
	content, err := p.content(r, k, began)
	if err != nil {
		p.refuse(w, r, k, err)
		return
	}
	own, leave := p.live.take(peerOf(r))
	if own == nil {
		http.Error(w, "too many pages are live", http.StatusServiceUnavailable)
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would keep events back
	control := http.NewResponseController(w)
	// The server's timeouts are for whole requests and answers; these have no end. A read that times out would end the
	// request, although nothing more is to be read.
	_ = control.SetReadDeadline(time.Time{}) // a recorder in a test has none
	send := func(text string) error {
		_ = control.SetWriteDeadline(time.Now().Add(slowClientTimeout))
		if _, err := fmt.Fprint(w, text); err != nil {
			return err
		}
		return control.Flush()
	}
	ticker := p.Clock.NewTicker(k.every)
	defer ticker.Stop()
	if send("retry: 5000\n\n"+event("content", content)) != nil {
		return
	}
	shown := sha256.Sum256(content) // pages of 200 KB would be kept for nothing else
	said := began
	for {
		now, last := p.pause(r.Context(), own, ticker)
		if last != "" {
			_ = send(last)
			return
		}
		content, err := p.content(r, k, now)
		switch {
		case err == nil && sha256.Sum256(content) != shown:
			shown = sha256.Sum256(content)
			err, said = send(event("content", content)), now
		case errors.Is(err, errBusy):
			err = nil // the next time
		case err != nil && r.Context().Err() == nil:
			// The page stays as it is; the ledger's log and metrics tell of the database.
			err, said = send(event("stale", []byte("the ledger does not answer"))), now
			shown = [sha256.Size]byte{}
		case now.Sub(said) >= keepAlive:
			err, said = send(": alive\n\n"), now
		}
		if err != nil {
			return
		}
	}
}

// pause waits until a page is made again, and returns when that is. At its end it returns what is said last.
func (p *pages) pause(ctx context.Context, own *place, ticker clock.Ticker) (now time.Time, last string) {
	select {
	case <-ctx.Done():
		return now, ": nobody listens\n\n"
	case <-own.taken:
		return now, event("crowded", []byte("too many pages are live"))
	case <-ticker.C():
	}
	if now = p.Clock.Now(); now.Sub(own.since) >= longestLive {
		return now, event("again", []byte("no connection lasts for ever"))
	}
	return now, ""
}

// peerOf returns who follows a page: the user or, if nobody knows one, the address that it came from.
func peerOf(r *http.Request) string {
	if user := access.UserOf(r.Context()); user != "" {
		return "user " + user
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// content returns the content of a page at a moment.
func (p *pages) content(r *http.Request, k *kind, now time.Time) ([]byte, error) {
	request, _, err := k.request(r, now)
	if err != nil {
		return nil, err
	}
	return p.make(r.Context(), k, request, "update")
}

// event returns a server-sent event: each line of its data has a name before it.
func event(name string, data []byte) string {
	var text bytes.Buffer
	fmt.Fprintf(&text, "event: %s\n", name)
	for line := range bytes.Lines(data) {
		text.WriteString("data: ")
		text.Write(bytes.TrimRight(line, "\r\n"))
		text.WriteByte('\n')
	}
	text.WriteByte('\n')
	return text.String()
}
