package podstatus

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/internal/kube"
)

// VolumeUse is how full a volume of a runner was at the end of its job, as the hook of jobLog leaves it, as a line of JSON
// for each volume, in the termination message. It comes from the job's own container, so it decides nothing but what
// becomes of that volume, which the job could have filled or emptied.
type VolumeUse struct {
	// Name is that of the volume in the pod.
	Name string `json:"name"`
	// Bytes are those that the job may use of it, and UsedBytes those of them that are used.
	Bytes     int64 `json:"bytes"`
	UsedBytes int64 `json:"usedBytes"`
}

// volumePrefix begins such a line. The number is that of its form.
const volumePrefix = `{"volume":1,`

// Percent returns the used part, rounded down.
func (u VolumeUse) Percent() int { return int(float64(u.UsedBytes) / float64(u.Bytes) * 100) }

// maxVolumes limits the volumes that are read of one pod: a set has at most so many claim templates.
const maxVolumes = 16

// VolumesIn returns how full the volumes are that a termination message tells of. What can't be is left out.
func VolumesIn(message string) []VolumeUse {
	var told []VolumeUse
	for line := range strings.Lines(message) {
		var use VolumeUse
		if len(told) < maxVolumes && strings.HasPrefix(line, volumePrefix) && json.Unmarshal([]byte(line), &use) == nil &&
			use.Name != "" && use.Bytes > 0 && use.UsedBytes >= 0 && use.UsedBytes <= use.Bytes {
			told = append(told, use)
		}
	}
	return told
}

// VolumesOf returns the same of a pod whose container has ended.
func VolumesOf(pod *corev1.Pod, container string) []VolumeUse {
	status := kube.ContainerStatus(pod, container)
	if status == nil || status.State.Terminated == nil {
		return nil
	}
	return VolumesIn(status.State.Terminated.Message)
}
