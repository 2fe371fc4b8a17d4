package credentials

import (
	"crypto/sha256"
	"crypto/x509"
	"sync"
	"weak"

	"github.com/harrier-ci/harrier/github/actions"
)

// bundle is a text with certificate authorities, and what a client makes of it: up to 1 MiB and 0.8 MiB.
type bundle struct {
	text string
	pool *x509.CertPool
}

// bundles has one copy of each text, whoever names it, for as long as somebody uses it. The zero value is empty.
type bundles struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]weak.Pointer[bundle]
}

// of returns the bundle of a text, nil for "". It fails as actions.CertPool does.
func (b *bundles) of(text string) (*bundle, error) {
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
		b.known = map[[sha256.Size]byte]weak.Pointer[bundle]{}
	}
	for other, pointer := range b.known {
		if pointer.Value() == nil {
			delete(b.known, other)
		}
	}
	made := &bundle{text: text, pool: pool}
	b.known[hash] = weak.Make(made)
	return made, nil
}

func (b *bundles) get(hash [sha256.Size]byte) *bundle {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known[hash].Value()
}

// copyOf returns the one copy of a text, or the text itself if it is no bundle that can be used.
func (b *bundles) copyOf(text string) string {
	if known, err := b.of(text); err == nil && known != nil {
		return known.text
	}
	return text
}
