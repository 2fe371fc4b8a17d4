package watch

// Waiting returns the number of jobs that are not written yet, and about how many bytes they take.
func (r *Recorder) Waiting() (number, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.backlog.number(), r.backlog.size()
}
