package turns_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/turns"
)

func named(i int) types.NamespacedName {
	return types.NamespacedName{Namespace: "n", Name: fmt.Sprint(i)}
}

// 200 listeners, each of which is away for eight seconds, are replaced one after the other: never more than five are
// away, no turn is free for long, and together they ask a few times a second.
func TestFiveOf200AreReplacedAtATime(t *testing.T) {
	const listeners, away = 200, 8 * time.Second
	var all turns.Turns
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	began := now
	asksAt, backAt := map[int]time.Time{}, map[int]time.Time{}
	for i := range listeners {
		asksAt[i] = now
	}
	asked := 0
	for len(asksAt)+len(backAt) > 0 {
		for i, at := range backAt {
			if !at.After(now) {
				all.Return(named(i))
				delete(backAt, i)
			}
		}
		for i, at := range asksAt {
			if at.After(now) {
				continue
			}
			asked++
			wait, taken := all.Take(named(i), now)
			if asksAt[i] = now.Add(wait); taken {
				delete(asksAt, i)
				backAt[i] = now.Add(away)
			}
		}
		if len(backAt) > 5 {
			t.Fatalf("%d listeners are away at once", len(backAt))
		}
		now = now.Add(100 * time.Millisecond)
	}
	took := now.Sub(began)
	if least := listeners / 5 * away; took < least || took > least*3/2 {
		t.Errorf("all were replaced after %s, want little more than %s", took, least)
	}
	if perSecond := float64(asked-listeners) / took.Seconds(); perSecond > 4 {
		t.Errorf("they asked %.1f times a second", perSecond)
	}
}

// Who doesn't come back gives its turn up after two minutes, who has one keeps it, and who is gone leaves nothing.
func TestTurnsEnd(t *testing.T) {
	var all turns.Turns
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	take := func(i int) bool {
		_, taken := all.Take(named(i), now)
		return taken
	}
	for range 2 { // who has one keeps it
		for i := range 5 {
			if !take(i) {
				t.Fatalf("listener %d has no turn", i)
			}
		}
	}
	if take(5) {
		t.Fatal("there are more than five turns")
	}
	all.Return(named(0))
	all.Return(named(7)) // which has none
	if !take(5) || take(6) {
		t.Error("the turn that was returned is not the only one")
	}
	now = now.Add(2*time.Minute + time.Second)
	if !take(6) {
		t.Error("a turn lasts longer than two minutes")
	}
}
