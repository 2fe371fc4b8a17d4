package rows

// Named is a job as people know it, and GitHub's id of it.
type Named struct {
	Run      int64
	Name, ID string
}

// shortID is the number of characters of an id that are enough to tell some hundred jobs apart: GitHub's ids are random.
const shortID = 8

// Apart returns for each of several jobs the beginning of its id if another one has its name and run, as those of a
// matrix whose name says nothing of their values; and nothing if its name tells it apart.
func Apart(number int, of func(i int) Named) []string {
	type known struct {
		run  int64
		name string
	}
	same := map[known]int{}
	for i := range number {
		job := of(i)
		same[known{job.Run, job.Name}]++
	}
	ids := make([]string, number)
	for i := range ids {
		if job := of(i); same[known{job.Run, job.Name}] > 1 {
			ids[i] = job.ID[:min(len(job.ID), shortID)]
		}
	}
	return ids
}
