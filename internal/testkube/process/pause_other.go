//go:build unix && !linux

package process

// awaitStop does not wait: other Unix systems offer no way to ask that would not reap the child.
func awaitStop(int) error { return nil }
