package chaos

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

const (
	faultsPerRun = 8
	jobsPerRun   = 60
	// settlingJobs are queued when the last fault is over, so that there is a number of runners to return to.
	settlingJobs = 6
	// faultWindow is the time within which faults begin and end.
	faultWindow = time.Minute
	// firstFault leaves some seconds for the first runners to start.
	firstFault = 3 * time.Second
	// A fault whose effects last until the end of a run begins before early.
	early = 15 * time.Second
	// longestOutage bounds an outage of the API server.
	longestOutage = 20 * time.Second
)

// kind names a fault.
type kind string

const (
	killManager   kind = "kill manager"
	killListener  kind = "kill listener"
	apiServerDown kind = "API server down"
	apiServerHang kind = "API server hangs"
	etcdAway      kind = "etcd away"
	expireTokens  kind = "expire tokens"
	endSessions   kind = "end sessions"
	storm         kind = "storm of refusals"
	dropAnswers   kind = "drop connections"
	cutAnswers    kind = "truncate answers"
	hangDeletes   kind = "hang deletions"
	failRunners   kind = "runner containers die"
	rejectPods    kind = "node rejects pods"
	evictPods     kind = "evict pods"
	loseNode      kind = "lose node"
	slowWatch     kind = "slow watch"
	cutWatches    kind = "cut watches"
	refuseWrites  kind = "API server refuses"
	slowAPIServer kind = "slow API server"
	deletePods    kind = "delete pods"
	scaleManagers kind = "scale managers"
	cutOffLeader  kind = "cut off leader"
	wrongClock    kind = "wrong clock"
	countPhantoms kind = "GitHub counts jobs that don't exist"
	forgetRunners kind = "GitHub forgets idle runners"
	deleteRunners kind = "delete runner objects"
	newTemplate   kind = "reports lost, new template"
	lowerMaximum  kind = "reports lost, maximum lowered"
	maximumZero   kind = "maximum zero"
	imageOutdated kind = "image outdated"
)

// profile has the shortest and longest duration of a kind of fault, and its variants.
type profile struct {
	kind              kind
	shortest, longest time.Duration
	variants          []string
	// untilEnd is set if the fault has effects until the end of the run, so that it strikes early.
	untilEnd bool
}

// profiles are the faults from which a run draws. Those without a duration are over immediately.
var profiles = []profile{
	{kind: killManager, variants: []string{ofLeader, ofAll}},
	{kind: killListener},
	{kind: apiServerDown, shortest: 2 * time.Second, longest: longestOutage},
	{kind: apiServerHang, shortest: 2 * time.Second, longest: 10 * time.Second},
	{kind: etcdAway, shortest: 2 * time.Second, longest: 15 * time.Second, variants: []string{etcdFrozen, etcdKilled}},
	{kind: expireTokens},
	{kind: endSessions, variants: []string{sessionsEvicted, sessionsExpired}},
	{kind: storm, shortest: 2 * time.Second, longest: 10 * time.Second, variants: []string{"500", "502", "429"}},
	{kind: dropAnswers, shortest: 2 * time.Second, longest: 10 * time.Second, variants: []string{"before", "after"}},
	{kind: cutAnswers, shortest: 2 * time.Second, longest: 10 * time.Second},
	{kind: hangDeletes, shortest: 5 * time.Second, longest: 15 * time.Second,
		variants: []string{"delete-message", "delete-session", "remove-runner"}},
	{kind: failRunners, variants: []string{containerKilled, containerOOM}},
	// At most 6 s: a runner whose pod is rejected again, 5 s after the first time, waits 10 s for its third attempt.
	{kind: rejectPods, shortest: 2 * time.Second, longest: 6 * time.Second},
	{kind: evictPods, variants: []string{ofRunners, ofListener, ofManager}},
	{kind: loseNode, shortest: 5 * time.Second, longest: 20 * time.Second,
		variants: []string{nodeReturns, nodeCollected, nodePartitioned, nodeSilent}},
	{kind: slowWatch, shortest: 5 * time.Second, longest: 15 * time.Second},
	{kind: cutWatches, shortest: 2 * time.Second, longest: 10 * time.Second},
	{kind: refuseWrites, shortest: 2 * time.Second, longest: 10 * time.Second,
		variants: []string{tooManyRequests, internalError, timedOut, conflict}},
	{kind: slowAPIServer, shortest: 5 * time.Second, longest: 15 * time.Second},
	{kind: deletePods, variants: []string{podsByHand, podsPreempted}},
	// Long enough for a second manager to start and to wait for the Lease.
	{kind: scaleManagers, shortest: 10 * time.Second, longest: 20 * time.Second,
		variants: []string{scaledByHelm, scaledByHand}},
	// Longer than it takes another manager to get the Lease.
	{kind: cutOffLeader, shortest: 15 * time.Second, longest: 20 * time.Second,
		variants: []string{leaseHangs, leaseRefused, writesHang}},
	{kind: wrongClock, variants: []string{managerAhead, managerBehind, listenerAhead, listenerBehind}, untilEnd: true},
	{kind: countPhantoms, shortest: 5 * time.Second, longest: 40 * time.Second,
		variants: []string{phantomsConstant, phantomsSwinging}},
	{kind: forgetRunners},
}

// questions are faults after which the product has to ask GitHub whether runners may be removed. Some of them have a
// job, and the product must respect that GitHub calls these busy. Every run has the first two questions, some also have
// the last.
var questions = []profile{
	{kind: deleteRunners},
	{kind: newTemplate},
	// Longer than the 30 s after which surplus runners are removed.
	{kind: lowerMaximum, shortest: 36 * time.Second, longest: 40 * time.Second},
}

// closures are faults during which the set takes no jobs, or can't run them, while more are queued. Every run has one.
var closures = []profile{
	{kind: maximumZero, shortest: 4 * time.Second, longest: 12 * time.Second},
	{kind: imageOutdated, shortest: 4 * time.Second, longest: 12 * time.Second},
}

const (
	// closureStream is the stream of PCG from which closures are drawn, so that they change nothing else of a seed's
	// run.
	closureStream = 1
	// closureJobs are queued during a closure, beside jobsPerRun, closureJobsAfter its beginning.
	closureJobs      = 4
	closureJobsAfter = 3 * time.Second
)

const (
	// One of maximumLoweredEvery runs lowers maxRunners. More would be a waste, because few jobs run meanwhile.
	maximumLoweredEvery = 3
	// longJobs is the number of jobs that outlast a lowered maximum.
	longJobs = 6
)

// Variants that select what a fault does. Those of other faults are parameters of a call.
const (
	sessionsEvicted = "evicted"
	sessionsExpired = "expired with their tokens"
	etcdFrozen      = "frozen"
	etcdKilled      = "killed"
	containerKilled = "killed"
	containerOOM    = "out of memory"
	ofRunners       = "runners"
	ofListener      = "listener"
	ofManager       = "manager"
	ofLeader        = "leader"
	ofAll           = "all"
	nodeReturns     = "without power, comes back"
	nodeCollected   = "without power, pods collected"
	nodePartitioned = "partitioned"
	nodeSilent      = "silent"
	tooManyRequests = "429"
	internalError   = "500"
	timedOut        = "504 after it was done"
	conflict        = "409"
	podsByHand      = "by hand"
	podsPreempted   = "preempted"
	scaledByHelm    = "by helm upgrade"
	scaledByHand    = "by hand"
	leaseHangs      = "Lease hangs"
	leaseRefused    = "Lease refused"
	writesHang      = "writes hang"
	managerAhead    = "manager ahead"
	managerBehind   = "manager behind"
	listenerAhead   = "listener ahead"
	listenerBehind  = "listener behind"

	phantomsConstant = "constant"
	phantomsSwinging = "now and then"
)

// clockError is the distance of a wrong clock from the right time.
const clockError = time.Hour

// fault is one fault of a run.
type fault struct {
	kind    kind
	variant string
	at      time.Duration // since the beginning of the run
	lasts   time.Duration
	// percent is the share of pods or calls that are hit.
	percent int
	// pause is the delay of a slow watch, twice that of a slow API server, or the Retry-After of a refusal.
	pause time.Duration
}

func (f fault) end() time.Duration { return f.at + f.lasts }

// String describes the fault, without its time.
func (f fault) String() string {
	line := string(f.kind)
	if f.variant != "" {
		line += " (" + f.variant + ")"
	}
	if f.lasts > 0 {
		line += fmt.Sprintf(" for %.1f s", f.lasts.Seconds())
	}
	return line
}

// batch is a number of jobs that are queued at the same time, with their durations.
type batch struct {
	at        time.Duration
	durations []time.Duration
}

// schedule is everything about a run that its seed decides.
type schedule struct {
	seed                   uint64
	minRunners, maxRunners int
	// managers is one or two.
	managers int
	// GitHub's clock is ahead of all others by gitHubAhead, or behind if negative.
	gitHubAhead time.Duration
	// acquire says that jobs are offered and have to be acquired, instead of being assigned.
	acquire bool
	claims  claims
	// zeroIsFinal says that GitHub never gives a set what was queued while its session announced 0.
	zeroIsFinal bool
	faults      []fault
	batches     []batch
	settling    batch // queued when the last fault is over
	// reruns says that lost jobs are run again.
	reruns bool
}

// stream is the first of PCG's with which twelve seeds cover every fault in every variant; with those before it more
// are needed. TestTheSeedsOfCIHaveEveryFault fails where a new fault asks for another search.
const stream = 161460

// newSchedule derives a run from its seed.
func newSchedule(seed uint64) schedule {
	random := rand.New(rand.NewPCG(seed, stream))
	s := schedule{
		seed: seed, minRunners: random.IntN(4), maxRunners: 8 + random.IntN(13), acquire: random.IntN(2) == 0,
		faults: newFaults(random),
	}
	s.batches = s.newBatches(random)
	s.addClosure(rand.New(rand.NewPCG(seed, closureStream)))
	ofClaims := rand.New(rand.NewPCG(seed, claimsStream))
	s.claims = newClaims(ofClaims, s.maxRunners)
	s.addTrouble(ofClaims)
	s.settling = batch{at: s.lastFault(), durations: jobDurations(random, settlingJobs, 12*time.Second, 16*time.Second)}
	s.managers = s.newManagers(random)
	s.gitHubAhead = time.Duration(random.IntN(3)-1) * clockError
	return s
}

// newManagers draws the number of managers. If a leader is cut off, another manager has to be there. If managers are
// scaled, they go from one to two and back: the one that was alone must not act beside the second.
func (s schedule) newManagers(random *rand.Rand) int {
	managers := 1 + random.IntN(3)/2
	switch {
	case s.has(cutOffLeader):
		return 2
	case s.has(scaleManagers):
		return 1
	default:
		return managers
	}
}

// newFaults draws faults of different kinds, so that over many runs every pair of kinds coincides, and adds the
// questions.
func newFaults(random *rand.Rand) []fault {
	var faults []fault
	for _, i := range random.Perm(len(profiles))[:faultsPerRun] {
		faults = append(faults, newFault(random, profiles[i]))
	}
	for _, p := range questions {
		if p.kind != lowerMaximum || random.IntN(maximumLoweredEvery) == 0 {
			faults = append(faults, newFault(random, p))
		}
	}
	slices.SortFunc(faults, func(a, b fault) int { return cmp.Compare(a.at, b.at) })
	return faults
}

// addClosure adds a time during which the set takes no jobs, and the jobs that are queued meanwhile.
func (s *schedule) addClosure(random *rand.Rand) {
	s.zeroIsFinal = random.IntN(2) == 0
	f := newFault(random, closures[random.IntN(len(closures))])
	s.add(f)
	s.batches = append(s.batches, batch{
		at:        f.at + closureJobsAfter,
		durations: jobDurations(random, closureJobs, time.Second, 4*time.Second),
	})
}

func (s *schedule) add(f fault) {
	s.faults = append(s.faults, f)
	slices.SortFunc(s.faults, func(a, b fault) int { return cmp.Compare(a.at, b.at) })
}

func newFault(random *rand.Rand, p profile) fault {
	f := fault{kind: p.kind, lasts: between(random, p.shortest, p.longest)}
	latest := faultWindow - f.lasts
	if p.untilEnd {
		latest = early
	}
	f.at = between(random, firstFault, latest)
	f.percent = 30 + random.IntN(71)
	f.pause = between(random, time.Second, 4*time.Second)
	if len(p.variants) > 0 {
		f.variant = p.variants[random.IntN(len(p.variants))]
	}
	return f
}

func (s schedule) newBatches(random *rand.Rand) []batch {
	var batches []batch
	left := jobsPerRun - settlingJobs
	for _, f := range s.faults {
		if f.kind == lowerMaximum {
			batches = append(batches, batch{
				at:        f.at - firstFault,
				durations: jobDurations(random, longJobs, f.lasts+4*time.Second, f.lasts+8*time.Second),
			})
			left -= longJobs
		}
	}
	for left > 0 {
		count := min(left, 3+random.IntN(10))
		batches = append(batches, batch{
			at:        between(random, 0, faultWindow-5*time.Second),
			durations: jobDurations(random, count, 500*time.Millisecond, 8*time.Second),
		})
		left -= count
	}
	slices.SortFunc(batches, func(a, b batch) int { return cmp.Compare(a.at, b.at) })
	return batches
}

func jobDurations(random *rand.Rand, count int, shortest, longest time.Duration) []time.Duration {
	var durations []time.Duration
	for range count {
		durations = append(durations, between(random, shortest, longest))
	}
	return durations
}

// between draws a duration in steps of 0.1 s, the precision with which it is printed.
func between(random *rand.Rand, shortest, longest time.Duration) time.Duration {
	const step = 100 * time.Millisecond
	return shortest + time.Duration(random.Int64N(int64((longest-shortest)/step)+1))*step
}

// lastFault returns the time at which the last fault is over.
func (s schedule) lastFault() time.Duration {
	var last time.Duration
	for _, f := range s.faults {
		last = max(last, f.end())
	}
	return last
}

// jobs returns the number of jobs that are queued in all.
func (s schedule) jobs() int {
	count := len(s.settling.durations)
	for _, b := range s.batches {
		count += len(b.durations)
	}
	return count
}

// has reports whether the run has a fault of one of the kinds.
func (s schedule) has(kinds ...kind) bool {
	return slices.ContainsFunc(s.faults, func(f fault) bool { return slices.Contains(kinds, f.kind) })
}

// String describes the whole run for a report.
func (s schedule) String() string {
	var text strings.Builder
	fmt.Fprintf(&text,
		"seed %d: minRunners %d, maxRunners %d, managers %d, jobs are acquired: %t, zero is final: %t, GitHub's "+
			"clock is ahead by %s, %s\n",
		s.seed, s.minRunners, s.maxRunners, s.managers, s.acquire, s.zeroIsFinal, s.gitHubAhead, s.claims)
	for _, f := range s.faults {
		fmt.Fprintf(&text, "%5.1f s  %s\n", f.at.Seconds(), f)
	}
	for _, b := range s.batches {
		fmt.Fprintf(&text, "%5.1f s  queue %d jobs\n", b.at.Seconds(), len(b.durations))
	}
	fmt.Fprintf(&text, "%5.1f s  queue the last %d jobs\n", s.settling.at.Seconds(), len(s.settling.durations))
	return text.String()
}
