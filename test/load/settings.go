package load

import (
	"flag"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/test/rig"
)

// settings are the flags of a measurement. The default latencies are those of docs/performance.md.
type settings struct {
	scenario   string
	jobs       int
	sets       int
	maxRunners int
	rate       float64
	length     time.Duration
	job        time.Duration
	jit        time.Duration
	latency    time.Duration
	claims     bool
	jsonPath   string
	profile    string
	product    rig.Product
}

// register declares the flags. Their values are set when the flags are parsed.
func register(flags *flag.FlagSet) *settings {
	s := &settings{}
	flags.StringVar(&s.scenario, "scenario", "check",
		"what to do: check, burst, latency, churn, sets, hang, drain, soak, big, limit, idle")
	flags.IntVar(&s.jobs, "n", 0, "jobs, of each set in sets and hang; 0 is the scenario's own number")
	flags.IntVar(&s.sets, "sets", 50, "number of scale sets in sets, hang and idle")
	flags.IntVar(&s.maxRunners, "max-runners", 0, "maxRunners of the scale set; 0 is one for each job")
	flags.Float64Var(&s.rate, "rate", 5, "jobs a second in churn and soak")
	flags.DurationVar(&s.length, "length", 10*time.Minute, "how long jobs arrive in soak, and how long idle measures")
	flags.DurationVar(&s.job, "job", 2*time.Second, "how long a job runs")
	flags.DurationVar(&s.jit, "jit-latency", 300*time.Millisecond, "how long GitHub takes for a JIT config")
	flags.DurationVar(&s.latency, "latency", 100*time.Millisecond, "how long GitHub takes for every other call")
	flags.BoolVar(&s.claims, "claims", false, "give each runner a claim that outlives it")
	flags.StringVar(&s.jsonPath, "json", "", "file for the result")
	flags.StringVar(&s.profile, "profile", "", "directory for profiles of the manager and the audit log")
	flags.StringVar(&s.product.Manager, "manager", "", "manager program to measure instead of ours")
	flags.StringVar(&s.product.Listener, "listener", "", "listener program to measure instead of ours")
	flags.StringVar(&s.product.Controller, "controller-chart", "", "directory of its controller chart")
	flags.StringVar(&s.product.Set, "set-chart", "", "directory of its scale set chart")
	return s
}

// rigOptions returns options with which the product is installed at its charts' defaults. Only ports are set, because
// all programs share one address here.
func (s *settings) rigOptions(maxRunners int) rig.Options {
	values := rig.Values{
		"flags": rig.Values{"healthProbeBindAddress": ":8081"},
		"metrics": rig.Values{"controllerManagerAddr": ":8080", "listenerAddr": ":8080",
			"listenerEndpoint": "/metrics"},
	}
	if s.profile != "" {
		values["pprof"] = rig.Values{"addr": profileAddress}
	}
	if s.maxRunners > 0 {
		maxRunners = s.maxRunners
	}
	options := rig.Options{
		GitHub:     fakegithub.Options{JITLatency: s.jit, Latency: s.latency},
		MaxRunners: maxRunners, ControllerValues: values, Product: s.product,
	}
	if s.claims {
		options.ScaleSetValues = rig.Values{"volumeClaimTemplates": rig.ClaimTemplates("cache")}
	}
	return options
}
