package podstatus

import (
	"encoding/json"
	"strings"
)

// Usage has the figures that the hook of jobLog leaves, as a line of JSON, in the termination message of a runner's
// container. A figure that is not known is nil. They come from the job's own container, so the job may have written
// anything.
type Usage struct {
	// PeakMemoryBytes includes the page cache. MemoryLimitBytes is nil without a limit, too.
	PeakMemoryBytes  *int64 `json:"peakMemoryBytes"`
	MemoryLimitBytes *int64 `json:"memoryLimitBytes"`
	// OOMKills counts processes that were killed at the limit.
	OOMKills *int64 `json:"oomKills"`
	// CPUMicroseconds is processor time, ThrottledMicroseconds the time that the container had to wait for more of it. Of
	// CPUPeriods, in which it was at work, ThrottledPeriods are those in which it was throttled.
	CPUMicroseconds       *int64 `json:"cpuMicroseconds"`
	ThrottledMicroseconds *int64 `json:"throttledMicroseconds"`
	CPUPeriods            *int64 `json:"cpuPeriods"`
	ThrottledPeriods      *int64 `json:"throttledPeriods"`
}

// usagePrefix begins the line. The number is that of its form.
const usagePrefix = `{"usage":1,`

// UsageIn returns the usage that a termination message tells, nil if it tells none, and the rest of the message.
func UsageIn(message string) (usage *Usage, rest string) {
	var others []string
	for line := range strings.Lines(message) {
		if strings.HasPrefix(line, volumePrefix) {
			continue // see VolumesIn
		}
		if !strings.HasPrefix(line, usagePrefix) {
			others = append(others, line)
			continue
		}
		told := &Usage{}
		if err := json.Unmarshal([]byte(line), told); err == nil {
			usage = told
		}
	}
	return usage, strings.TrimRight(strings.Join(others, ""), "\n")
}
