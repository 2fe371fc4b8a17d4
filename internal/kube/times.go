package kube

import "time"

// LaterOf returns the later of two moments.
func LaterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// EarlierOf returns the earlier of two moments. Zero means never.
func EarlierOf(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// SetIfZero sets a time unless it is set already, and reports whether it did.
func SetIfZero(t *time.Time, now time.Time) bool {
	if !t.IsZero() {
		return false
	}
	*t = now
	return true
}
