package ledger

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/harrier-ci/harrier/operations/history/rows"
)

// The rows are the API's. What an older ledger doesn't know is empty, zero or nil.
type (
	Job      = rows.Job
	Group    = rows.Group
	Usage    = rows.Usage
	Wait     = rows.Wait
	Size     = rows.Size
	Gap      = rows.Gap
	Spending = rows.Spending

	Trend  = rows.Trend
	Change = rows.Change
)

// Part is a page of a table if the filter has a limit or a place, else the whole table. An older ledger tells no Total.
type Part[T any] = rows.Part[T]

// CPU returns thousandths of a CPU as the template of a scale set has them.
func CPU(millis int64) string { return resource.NewMilliQuantity(millis, resource.DecimalSI).String() }

// Memory does the same for bytes, rounded up to whole MiB: nobody asks to be more exact.
func Memory(bytes int64) string {
	const mib = 1 << 20
	return resource.NewQuantity((bytes/mib+min(1, bytes%mib))*mib, resource.BinarySI).String()
}
