package meaning

import "slices"

// Names of phases that somebody looks for. All names are those of status.phases, metrics and the job's log.
const (
	PhaseLimited    = "limited"
	PhaseAssigned   = "assigned"
	PhaseCreated    = "created"
	PhaseRegistered = "registered"
	PhasePlaced     = "placed"
	PhaseStarted    = "started"
)

// Phase is the meaning of a phase that a job waits for.
type Phase struct {
	Name string
	// Few has one word for people, and Reached what had happened when it was reached.
	Few, Reached string
	// Whose says who or what takes its time, and until when.
	Whose string
	// Advice is the step that shortens it.
	Advice string
}

// Phases are in the order in which a job takes them.
func Phases() []Phase { return slices.Clone(phases) }

// OfPhase returns the meaning of a phase, and its number, from 1; of one that nobody knows, its name and 0.
func OfPhase(name string) (number int, phase Phase) {
	number = slices.IndexFunc(phases, func(p Phase) bool { return p.Name == name })
	if number < 0 {
		return 0, Phase{Name: name, Few: name}
	}
	return number + 1, phases[number]
}

var phases = []Phase{
	{
		Name: PhaseLimited, Few: "limit", Reached: "the scale set was below its limit, which is named beside it",
		Whose:  "the scale set's own limit",
		Advice: "the scale set was at a limit of its own: raise that if its jobs are to wait less",
	},
	{
		Name: PhaseAssigned, Few: "GitHub", Reached: "GitHub assigned the job to the scale set",
		Whose:  "GitHub, until it gave the job to the scale set",
		Advice: "the scale set had room, and GitHub took long to assign the job; see GitHub's status page",
	},
	{
		Name: PhaseCreated, Few: "queue", Reached: "its runner was created: the scale set had room for it",
		Whose: "the scale set, until it created a runner",
		Advice: "the runner set had no room, or listener and manager were behind; see the other findings and the " +
			"conditions of the scale set",
	},
	{
		Name: PhaseRegistered, Few: "registration", Reached: "GitHub registered the runner",
		Whose:  "GitHub, until the runner was registered",
		Advice: "GitHub, or its rate limit, was slow to register the runner; see gha_controller_jit_config_seconds",
	},
	{
		Name: PhasePlaced, Few: "node", Reached: "the pod had a node: room, quota, requests",
		Whose: "the cluster, until a node had room",
		Advice: "the cluster had no node with room; add nodes, lower the runners' requests, or keep idle runners " +
			"(minRunners)",
	},
	{
		Name: "imagePulled", Few: "image", Reached: "image, volumes and network were there",
		Whose: "the node, for image, volumes and network",
		Advice: "image, volumes or network of the pod took long; use a smaller image, have it on the nodes, or " +
			"keep idle runners (minRunners)",
	},
	{
		Name: "containerUp", Few: "container", Reached: "the container ran: init containers come before it",
		Whose:  "the pod's init containers",
		Advice: "the pod's init containers took long; see kubectl describe pod",
	},
	{
		Name: PhaseStarted, Few: "start", Reached: "the runner had connected to GitHub and taken the job",
		Whose: "the runner, until it had the job from GitHub",
		Advice: "the runner took long to connect to GitHub and to take the job; check proxy and network, and give " +
			"the container more CPU",
	},
}
