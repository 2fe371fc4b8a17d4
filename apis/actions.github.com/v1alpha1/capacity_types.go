package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PlannedCapacity has what a user plans beyond one runner for each job. Not in ARC.
type PlannedCapacity struct {
	// Windows of time in which other numbers of runners are in force than minRunners and maxRunners. Of several open
	// windows the highest minRunners and the lowest maxRunners count; a number that no open window has is the spec's.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	Schedules []Schedule `json:"schedules,omitempty"`

	// Idle runners in proportion to running jobs. The larger of this and minRunners is kept idle.
	// +optional
	Headroom *Headroom `json:"headroom,omitempty"`

	// How long a runner that is too many is kept, in case the next job comes. Default 30s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('8760h')",message="must be at most 8760h, a year"
	ScaleDownDelay *metav1.Duration `json:"scaleDownDelay,omitempty"`

	// How long a runner may be idle before it is replaced, one at a time and with GitHub's consent. Default 0s, which
	// is for ever.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('8760h') && (duration(self) == duration('0s') || duration(self) >= duration('1m'))",message="must be 0s, or at least 1m and at most 8760h, a year"
	MaxIdleTime *metav1.Duration `json:"maxIdleTime,omitempty"`

	// How many runners may be created in any minute. Default 0, which is any number.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	MaxStartsPerMinute int `json:"maxStartsPerMinute,omitempty"`
}

// Headroom is the number of runners that are kept idle in proportion to running jobs.
type Headroom struct {
	// Percent of the running jobs, rounded up: none while nothing runs.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Percent int `json:"percent"`
	// At most so many. Default 0, which is any number.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	Max int `json:"max,omitempty"`
}

// Schedule opens a window at the times of a cron expression, for a duration.
// +kubebuilder:validation:XValidation:rule="has(self.minRunners) || has(self.maxRunners)",fieldPath=".minRunners",messageExpression="'schedule ' + self.name + ' sets neither minRunners nor maxRunners, so its window would change nothing'"
// +kubebuilder:validation:XValidation:rule="!self.schedule.contains('=') && !self.schedule.contains('@')",fieldPath=".schedule",messageExpression="'schedule ' + self.name + ' must have the five fields of cron, such as 0 7 * * 1-5, without @every or @daily; the time zone is the field timeZone'"
// +kubebuilder:validation:XValidation:rule="duration(self.duration) > duration('0s') && duration(self.duration) <= duration('8784h')",fieldPath=".duration",messageExpression="'schedule ' + self.name + ' must have a duration of more than 0s and at most 8784h, 366 days'"
type Schedule struct {
	// Status, Events and metrics call the schedule by this name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// When its window opens: minute, hour, day of the month, month and day of the week, as cron has them, such as 0 7 *
	// * 1-5.
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=1024
	Schedule string `json:"schedule"`
	// How long its window stays open, such as 11h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=64
	Duration metav1.Duration `json:"duration"`
	// IANA time zone of the schedule, such as Europe/Berlin. Default UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
	// Idle runners while the window is open; absent leaves that number to others. It is cut to the maximum.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	MinRunners *int `json:"minRunners,omitempty"`
	// Maximum number of runners while the window is open; absent leaves that number to others.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	MaxRunners *int `json:"maxRunners,omitempty"`
	// Of several open windows that set a number, those with the highest priority count, and of these the highest
	// minRunners and the lowest maxRunners. So a window with a priority may raise the maximum of another one. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Priority int `json:"priority,omitempty"`
}

// EffectiveCapacity has the numbers of runners that are in force. Not in ARC.
type EffectiveCapacity struct {
	// Idle runners to keep: minRunners of the spec or of open schedules, at most effectiveMaxRunners.
	// +optional
	// +kubebuilder:default=0
	EffectiveMinRunners int `json:"effectiveMinRunners,omitempty"`
	// Maximum number of runners: maxRunners of the spec or of open schedules, cut to the manager's limit for each set.
	// Absent means no limit.
	// +optional
	EffectiveMaxRunners *int `json:"effectiveMaxRunners,omitempty"`
	// When a schedule may change these numbers next. Absent means never.
	// +optional
	EffectiveUntil *metav1.Time `json:"effectiveUntil,omitempty"`
	// Names of the schedules whose windows are open.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	ActiveSchedules []string `json:"activeSchedules,omitempty"`
}

// LimitKind is the sort of a limit.
type LimitKind string

// Limit is what keeps a set from running more jobs: the first that holds, of several.
type Limit struct {
	// Sort of the limit, such as NoJobs, Outdated, Nodes, Quota, Claims, Starts, Failures, Pace, Announced, Ceiling or
	// Maximum.
	Kind LimitKind `json:"kind"`
	// Names it, as the condition that reports it does, or MaxRunnersReached, MaxRunnersZero or Drained.
	Reason string `json:"reason"`
	// What is known about it, such as the number that is reached and whose it is.
	// +optional
	Message string `json:"message,omitempty"`
	// Since when it limits the set. Moments without it don't count.
	Since metav1.Time `json:"since"`
}
