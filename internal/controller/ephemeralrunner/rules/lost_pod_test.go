package rules_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

func endedBy(ending podstatus.Ending) func(*rules.World) {
	return func(o *rules.World) { o.PodEnding = ending }
}

// sawEnd has a pass see how the container ended, before the pod was gone.
func sawEnd(phase podstatus.Phase) func(*rules.World) {
	return func(o *rules.World) { o.Ending = phase }
}

// Whose fault it is that a runner without a job has lost its pod: somebody took it away, unless its last state says
// otherwise. A pod that never shows may lack our labels, as every other would.
func TestWhoTookAPodThatIsGone(t *testing.T) {
	const vanished = "the pod is gone though the runner had not finished"
	deadline := podstatus.Ending{Cause: crash.Cause, Outside: true, Message: "the pod reached its activeDeadlineSeconds"}
	refused := podstatus.Ending{Cause: nodeRestart.Cause, Fault: podstatus.FaultCluster, Message: "OutOfcpu"}
	late := after(rules.UnseenTimeout)
	for title, test := range map[string]struct {
		observation     *rules.World
		reason, message string
		disruption      bool
	}{
		"it vanished":                           {given(podstatus.Missing, hadPod), "PodLost", vanished, true},
		"it vanished after its launch":          {given(podstatus.Missing, hadPod, provisioned), "PodLost", vanished, true},
		"it vanished before this manager":       {given(podstatus.Missing, runningReported), "PodLost", vanished, true},
		"it was created and never shown":        {given(podstatus.Missing, provisioned, late), "PodLost", vanished, false},
		"it was evicted":                        {given(podstatus.Missing, hadPod, endedBy(drain)), "Evicted", drain.Message, true},
		"it was evicted after its launch":       {given(podstatus.Missing, hadPod, provisioned, endedBy(drain)), "Evicted", drain.Message, true},
		"it reached its deadline":               {given(podstatus.Missing, hadPod, endedBy(deadline)), "ContainerFailed", deadline.Message, false},
		"it was deleted by hand":                {given(podstatus.Missing, hadPod, endedBy(removal)), "PodLost", removal.Message, true},
		"it crashed before":                     {given(podstatus.Missing, hadPod, sawEnd(podstatus.Failed), endedBy(crash)), "ContainerFailed", crash.Message, false},
		"its node restarted before":             {given(podstatus.Missing, hadPod, sawEnd(podstatus.Failed), endedBy(nodeRestart)), "PodLost", nodeRestart.Message, true},
		"its node refused it before":            {given(podstatus.Missing, hadPod, sawEnd(podstatus.NeverStarted), endedBy(refused)), "PodLost", refused.Message, false},
		"it vanished, as is remembered":         {given(podstatus.Missing, hadPod, endedBy(unseenEnd)), "PodLost", vanished, true},
		"its predecessor's deadline is no sign": {given(podstatus.Missing, runningReported, endedBy(deadline)), "PodLost", vanished, true},
	} {
		t.Run(title, func(t *testing.T) {
			agreed(test.observation)
			want := rules.Decision{Step: rules.Reregister, Reason: test.reason, Message: test.message,
				Disruption: test.disruption}
			if got := rules.Plan(test.observation); got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// Earlier failures are forgotten if a runner has been up for a minute before an end from outside, or for five before
// any end.
func TestWhichEndsStartANewRow(t *testing.T) {
	for title, test := range map[string]struct {
		up     time.Duration
		ending podstatus.Ending
		want   string
	}{
		"vanished after 59 s":                      {59 * time.Second, noLoss, "3 failures, 1 disruptions"},
		"vanished after a minute":                  {time.Minute, noLoss, "0 failures, 1 disruptions"},
		"evicted after 59 s":                       {59 * time.Second, drain, "3 failures, 1 disruptions"},
		"evicted after a minute":                   {time.Minute, drain, "0 failures, 1 disruptions"},
		"crashed after a minute":                   {time.Minute, crash, "4 failures, 0 disruptions"},
		"crashed after almost five minutes":        {5*time.Minute - time.Second, crash, "4 failures, 0 disruptions"},
		"crashed after five minutes":               {5 * time.Minute, crash, "1 failures, 0 disruptions"},
		"lost with its node after a minute":        {time.Minute, nodeRestart, "3 failures, 1 disruptions"},
		"lost with its node after five minutes":    {5 * time.Minute, nodeRestart, "0 failures, 1 disruptions"},
		"vanished, and was never seen to have run": {0, noLoss, "3 failures, 1 disruptions"},
	} {
		t.Run(title, func(t *testing.T) {
			o := given(podstatus.Missing, hadPod, agreed, failedTimes(3, noon), endedAt(noon), endedBy(test.ending))
			if test.up != 0 {
				o.StartedAt = noon.Add(-test.up)
			}
			if !test.ending.Outside && test.ending != noLoss {
				sawEnd(podstatus.Failed)(o)
			}
			status := &o.Runner.Status
			rules.Record(status, "pod-uid", rules.Plan(o), noon)
			got := fmt.Sprintf("%d failures, %d disruptions", len(status.Failures), len(status.Disruptions))
			if got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}
