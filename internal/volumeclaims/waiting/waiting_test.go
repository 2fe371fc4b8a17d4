package waiting_test

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/volumeclaims/places"
	"github.com/harrier-ci/harrier/internal/volumeclaims/waiting"
)

const patience = 10 * time.Minute

// broken are what must never be, whatever is known of a pod.
var broken = map[string]func(*waiting.Pod, waiting.Verdict) bool{
	"changes in the first moments": func(p *waiting.Pod, v waiting.Verdict) bool {
		return v.Change && p.Waits < waiting.Grace
	},
	"changes before pendingTimeout though nothing is known of its place": func(p *waiting.Pod, v waiting.Verdict) bool {
		return v.Change && p.Waits < patience && p.Place < places.Empty
	},
	"doesn't wait for its autoscaler": func(p *waiting.Pod, v waiting.Verdict) bool {
		return v.Change && p.Waits < patience && p.Place == places.Empty && p.Announced
	},
	"doesn't wait for a node, though some come, for nothing better": func(p *waiting.Pod, v waiting.Verdict) bool {
		return v.Change && p.Waits < patience && p.Place == places.Empty && p.NodesCome && !p.Denied && !p.Instead.Used
	},
	"loses a claim though its place may be good, or there is something else": func(p *waiting.Pod, v waiting.Verdict) bool {
		return v.Discard && (!v.Change || !nothing(p) || p.Place < places.Empty)
	},
	"loses a claim of a zone too early": func(p *waiting.Pod, v waiting.Verdict) bool {
		return v.Discard && p.Place == places.Empty && (p.Waits < patience || !p.Settled)
	},
	"changes for nothing": func(p *waiting.Pod, v waiting.Verdict) bool {
		return v.Change && nothing(p) && !v.Discard
	},
	"waits for what is gone": func(p *waiting.Pod, v waiting.Verdict) bool {
		return !v.Change && p.Waits >= waiting.Grace && p.Place == places.Gone
	},
	"gives no reason": func(_ *waiting.Pod, v waiting.Verdict) bool { return v.Change == (v.Why == "") },
}

func nothing(p *waiting.Pod) bool { return p.Instead == waiting.Instead{} }

func TestWhatNeverIs(t *testing.T) {
	for _, waits := range []time.Duration{0, waiting.Grace - 1, waiting.Grace, patience - 1, patience, time.Hour} {
		for _, place := range []places.State{places.Reachable, places.Unknown, places.Empty, places.Gone} {
			for facts := range 1 << 11 {
				is := func(bit int) bool { return facts>>bit&1 == 1 }
				pod := waiting.Pod{Waits: waits, Patience: patience, Place: place,
					Announced: is(0), Denied: is(1), Settled: is(2), Outside: is(3), NodesCome: is(4), Overtaken: is(5),
					Tried: is(6), Bypassed: is(10), Instead: waiting.Instead{Used: is(7), Other: is(7), Fresh: is(8), Directory: is(9)}}
				verdict := waiting.Decide(&pod)
				for what, is := range broken {
					if is(&pod, verdict) {
						t.Fatalf("%+v %s: %+v", pod, what, verdict)
					}
				}
			}
		}
	}
}
