package held

import (
	"crypto/sha256"
	"crypto/x509"
	"sync"
	"weak"

	"github.com/harrier-ci/harrier/github/actions"
)

// Bundle is a text with certificate authorities, and what a client makes of it: up to 1 MiB and 0.8 MiB.
type Bundle struct {
	Text string
	Pool *x509.CertPool
}

// Bundles have one copy of each text, whoever names it, for as long as somebody uses it. The zero value is empty.
type Bundles struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]weak.Pointer[Bundle]
}

// Of returns the bundle of a text, nil for "". It fails as actions.CertPool does.
func (b *Bundles) Of(text string) (*Bundle, error) {
	if text == "" {
		return nil, nil
	}
	hash := sha256.Sum256([]byte(text))
	if found := b.get(hash); found != nil {
		return found, nil
	}
	// Outside of the lock, because a large text takes some milliseconds.
	pool, err := actions.CertPool(text)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if found := b.known[hash].Value(); found != nil {
		return found, nil // somebody was faster
	}
	if b.known == nil {
		b.known = map[[sha256.Size]byte]weak.Pointer[Bundle]{}
	}
	for other, pointer := range b.known {
		if pointer.Value() == nil {
			delete(b.known, other)
		}
	}
	made := &Bundle{Text: text, Pool: pool}
	b.known[hash] = weak.Make(made)
	return made, nil
}

func (b *Bundles) get(hash [sha256.Size]byte) *Bundle {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known[hash].Value()
}

// Copy returns the one copy of a text, or the text itself if it is no bundle that can be used.
func (b *Bundles) Copy(text string) string {
	if known, err := b.Of(text); err == nil && known != nil {
		return known.Text
	}
	return text
}
