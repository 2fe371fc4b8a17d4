package fakegithub

import (
	"crypto/rsa"
	"crypto/tls"
	"time"

	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/internal/fakegithub/checks"
	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// The vocabulary of package state that users of a Server meet.
type (
	// Rules are the settings of what GitHub does; state.Config has the defaults.
	Rules = state.Config
	// Flow is the way in which jobs come to a scale set: Acquire or AutoAssign.
	Flow = state.Flow
	// Job is one job with its history.
	Job = state.JobView
	// JobState is the state of a job.
	JobState = state.JobState
	// Anomaly is something a correct controller never causes.
	Anomaly = state.Anomaly
	// AnomalyKind names it.
	AnomalyKind = state.AnomalyKind
	// Registration is one registration of a runner, which may have been removed.
	Registration = state.RegistrationView
	// Step is a step of a job that its runner adds by itself.
	Step = state.Step
	// CheckRun is a check run on a commit.
	CheckRun = checks.CheckRun
	// Snapshot is everything worth knowing at one moment.
	Snapshot = state.Snapshot
	// Statistics is the service's view of one scale set.
	Statistics = state.Statistics
)

// The two flows.
const (
	Acquire    = state.Acquire
	AutoAssign = state.AutoAssign
)

// App is a GitHub App that may authenticate.
type App struct {
	// ID and ClientID are both accepted as issuer; either may be empty.
	ID, ClientID string
	// Installations lists the installation ids the app has; empty accepts any.
	Installations []int64
	PublicKey     *rsa.PublicKey
}

// Options are the settings of a Server. The zero value is a hosted GitHub as
// of today with the real service's times, accepting any non-empty PAT.
type Options struct {
	Rules

	// PATs are the tokens accepted; nil accepts any that is not empty.
	PATs []string
	// PATExpires is the time at which they expire, as GitHub says; zero means never. They are accepted all the same.
	PATExpires time.Time
	// RegistrationLimit is the number of registration tokens for which a credential may ask in an hour; default 10,000.
	RegistrationLimit int
	// Apps are the apps accepted.
	Apps []App
	// Permissions are those of the Apps' installations in the REST API beside registering runners, such as actions:
	// write; nil means all.
	Permissions map[string]string
	// RunnerGroups are created beside the default group.
	RunnerGroups []string
	// AdminTokenLifetime is the life of an admin token; default 1 h.
	AdminTokenLifetime time.Duration
	// An empty long poll is held for PollLength; default 50 s.
	PollLength time.Duration
	// JITLatency and Latency delay generatejitconfig and every other call of the
	// REST API, the service and the queue.
	JITLatency, Latency time.Duration
	// Clock defaults to the real one.
	Clock clock.WithTicker
	// PublicURL is the address put into answers (service, queue); by default the
	// one the request was sent to.
	PublicURL string
	// RunnerURL is the address runners use; default PublicURL, else the address
	// the request was sent to. Needed when runners see the fake under another name.
	RunnerURL string
	// TLS, if set, makes Start serve https with it.
	TLS *tls.Config
	// Seed makes random durations and the probability of faults repeatable; default 1.
	Seed uint64
}

func (o *Options) setDefaults() {
	setDefault(&o.AdminTokenLifetime, time.Hour)
	setDefault(&o.PollLength, 50*time.Second)
	setDefault(&o.RegistrationLimit, registrationLimit)
	setDefault(&o.Seed, 1)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
