package watch

import (
	"cmp"
	"maps"
	"slices"

	"github.com/harrier-ci/harrier/operations/history/ledger"
)

// maxBacklog bounds the memory of jobs that are not written yet: most take 1 KiB, and one whose texts somebody has made
// as long as they may be 6 KiB.
const maxBacklog = 64 << 20

// backlog has the jobs that are not written yet, by the namespaces that they are in. If there is no room for all, the
// namespace that takes most of it loses some of its own: others are not to pay for its flood.
type backlog struct {
	// most bounds their number.
	most  int
	jobs  map[string]map[string]ledger.Job
	bytes map[string]int
	// writing are the jobs that are being written.
	writing map[string]bool
}

func (b *backlog) number() (number int) {
	for _, jobs := range b.jobs {
		number += len(jobs)
	}
	return number
}

func (b *backlog) size() (size int) {
	for _, bytes := range b.bytes {
		size += bytes
	}
	return size
}

// add adds a report; facts of one that waits for the same job stay. It returns the number of jobs that had to go.
func (b *backlog) add(job ledger.Job) (dropped int) {
	of := b.jobs[job.Namespace]
	if of == nil {
		of = map[string]ledger.Job{}
		b.jobs[job.Namespace] = of
	}
	earlier, waits := of[job.RunnerUID]
	if waits {
		b.bytes[job.Namespace] -= ledger.Bytes(&earlier)
	}
	job = ledger.Cut(ledger.Fill(job, earlier))
	of[job.RunnerUID] = job
	b.bytes[job.Namespace] += ledger.Bytes(&job)
	for ; b.number() > b.most || b.size() > maxBacklog; dropped++ {
		largest := slices.MaxFunc(slices.Sorted(maps.Keys(b.jobs)), func(a, c string) int {
			return cmp.Compare(b.bytes[a], b.bytes[c])
		})
		for uid := range b.jobs[largest] {
			b.remove(largest, uid)
			break
		}
	}
	return dropped
}

func (b *backlog) remove(namespace, uid string) ledger.Job {
	job := b.jobs[namespace][uid]
	b.bytes[namespace] -= ledger.Bytes(&job)
	if delete(b.jobs[namespace], uid); len(b.jobs[namespace]) == 0 {
		delete(b.jobs, namespace)
		delete(b.bytes, namespace)
	}
	return job
}

// take takes out jobs to write, at most so many, some of each namespace in turn.
func (b *backlog) take(most int) (batch []ledger.Job) {
	for len(batch) < most && len(b.jobs) > 0 {
		for _, namespace := range slices.Sorted(maps.Keys(b.jobs)) {
			for uid := range b.jobs[namespace] {
				if len(batch) < most {
					batch = append(batch, b.remove(namespace, uid))
					b.writing[uid] = true
				}
				break
			}
		}
	}
	return batch
}
