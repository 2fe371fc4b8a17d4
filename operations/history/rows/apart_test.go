package rows_test

import (
	"slices"
	"testing"

	"github.com/harrier-ci/harrier/operations/history/rows"
)

func TestJobsOfOneNameAndRunAreToldApart(t *testing.T) {
	jobs := []rows.Named{{1, "test", "0b0bd3c5-6e4c"}, {1, "lint", "11111111-1111"}, {2, "test", "22222222-2222"}, {1, "test", "9f"}}
	got := rows.Apart(len(jobs), func(i int) rows.Named { return jobs[i] })
	if want := []string{"0b0bd3c5", "", "", "9f"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
