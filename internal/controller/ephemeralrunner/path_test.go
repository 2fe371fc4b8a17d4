package ephemeralrunner_test

import "testing"

// make path counts the files that the first of these tests runs and the second doesn't: what somebody has to read who
// wants to know how a new runner gets its pod.

func TestPathToThePod(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		if f.pod() == nil {
			t.Error("no pod")
		}
	}, newRunner())
}

func TestPathWithoutAPass(t *testing.T) {
	inBubble(t, func(*fixture) {}, newRunner())
}
