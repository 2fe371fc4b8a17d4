package limited

// Known is the number of limits that are remembered.
func (l *Times) Known() (number int) {
	for _, times := range l.of {
		number += len(times)
	}
	return number
}
