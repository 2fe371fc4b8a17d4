//go:build unix && !linux

package process

// awaitStop does not wait: what else is called Unix has no way to ask that doesn't reap the child.
func awaitStop(int) error { return nil }
