// Package waiting decides when a pod that waits for a node keeps its claims, and when it changes them. Pure.
//
// A volume can often be used in one place only: a zone, or a node. So the place is what is blamed, and what is decided
// holds for all claims there. A claim with content is worth a wait: while nothing is known, its pod waits as long as a
// pod may take to start (pendingTimeout), by a clock that begins when the scheduler has found no node. It changes
// earlier only if it is known that its place has no node and that there is something better.
package waiting

import (
	"time"

	"github.com/harrier-ci/harrier/internal/volumeclaims/places"
)

// Grace is the time for which no pod changes anything: watches may be behind each other, and a node that starts again
// is away for a moment.
const Grace = 20 * time.Second

// Pod is what is known of a pod whose claims have volumes, and that has no node.
type Pod struct {
	// Waits is the time for which it has had none, and Patience that for which it may wait.
	Waits, Patience time.Duration
	// Place is the state of the place where its volumes can be used.
	Place places.State
	// Announced is set if an autoscaler has said that it makes a node for the pod, Denied if it has said that it can't.
	Announced, Denied bool
	// Settled is set if its set has nodes elsewhere: its pods have run there, or other volumes can be used there.
	// Outside is set if there may be a node anywhere else.
	Settled, Outside bool
	// NodesCome is set if a node was made while a pod of the set waited for one.
	NodesCome bool
	// Overtaken is set if a later pod with other claims has got a node elsewhere that nobody else has been let go for.
	Overtaken bool
	// Bypassed is set if several later pods with claims of the same place have got nodes: then it isn't the place.
	Bypassed bool
	// Tried is set while another pod of the set shows whether there is a node elsewhere.
	Tried bool
	// Instead is what the pod would get.
	Instead Instead
}

// Instead is what there is for a pod that gives its claims up.
type Instead struct {
	// Used: a claim with content is free whose place has a node. Other: a claim of another place is free, whatever is
	// known of that.
	Used, Other bool
	// Fresh: a new claim may be made. Directory: an empty directory would do.
	Fresh, Directory bool
}

func (i Instead) any() bool { return i.Used || i.Other || i.Fresh || i.Directory }

// Verdict is what a pod does.
type Verdict struct {
	Change bool
	// Discard is set if its claim has to go, because there is nothing else and no room for a new one.
	Discard bool
	// Try is set if nothing shows that the change will help.
	Try bool
	// Claim is set if not the place is to blame, but the claim alone.
	Claim bool
	// Why follows on "the pod got no node: ".
	Why string
}

type rule struct {
	name    string
	applies func(*Pod) bool
	verdict func(*Pod) Verdict
}

// rules are all. The first that applies decides; a pod for which none does keeps its claims.
var rules = []rule{
	{"the first moments", func(p *Pod) bool { return p.Waits < Grace },
		func(*Pod) Verdict { return Verdict{} }},
	{"its node is no more", func(p *Pod) bool { return p.Place == places.Gone },
		func(p *Pod) Verdict {
			return Verdict{Change: true, Discard: !p.Instead.any(), Why: "its volume is on a node that is no more"}
		}},
	{"an autoscaler makes a node for it", func(p *Pod) bool { return p.Announced && p.Waits < p.Patience },
		func(*Pod) Verdict { return Verdict{} }},
	{"its place has no node, and something better is known", func(p *Pod) bool {
		return p.Place == places.Empty && (p.Instead.Used ||
			(p.Instead.any() && (p.Denied || (p.Settled && !p.NodesCome))))
	}, func(*Pod) Verdict {
		return Verdict{Change: true, Why: "there is no node where its volume can be used, and there is elsewhere"}
	}},
	{"a node may come", func(p *Pod) bool { return p.Waits < p.Patience },
		func(*Pod) Verdict { return Verdict{} }},
	{"no node has come to its place, and there are some elsewhere", func(p *Pod) bool {
		return p.Place == places.Empty && p.Settled
	}, func(p *Pod) Verdict {
		return Verdict{Change: true, Discard: !p.Instead.any(),
			Why: "for pendingTimeout there was no node where its volume can be used, and there are some elsewhere"}
	}},
	{"others have got nodes elsewhere", func(p *Pod) bool {
		return p.Overtaken && (p.Instead.Other || p.Instead.Fresh)
	}, func(*Pod) Verdict { return Verdict{Change: true, Why: "a later pod has got one elsewhere"} }},
	{"others have got nodes where its place is", func(p *Pod) bool {
		return p.Bypassed && (p.Instead.Other || p.Instead.Fresh)
	}, func(*Pod) Verdict {
		return Verdict{Change: true, Claim: true, Why: "later pods with claims of the same place have got one"}
	}},
	{"one of the set's pods tries another place", func(p *Pod) bool {
		return !p.Tried && p.Outside && (p.Instead.Other || p.Instead.Fresh)
	}, func(*Pod) Verdict {
		return Verdict{Change: true, Try: true, Why: "perhaps there is one elsewhere"}
	}},
}

// Decide decides what a pod does.
func Decide(pod *Pod) Verdict {
	for i := range rules {
		if rules[i].applies(pod) {
			return rules[i].verdict(pod)
		}
	}
	return Verdict{}
}
