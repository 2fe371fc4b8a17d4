package ephemeralrunnerset

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
)

func TestNamesAreChosenThatNobodyHas(t *testing.T) {
	drawn := []string{"seen", "tried", "new-1", "new-1", "seen", "new-2", "new-3"}
	pick := func() string {
		name := drawn[0]
		drawn = drawn[1:]
		return name
	}
	got := withNew([]string{"tried"}, 3, sets.New("seen"), pick)
	if want := []string{"tried", "new-1", "new-2"}; !slices.Equal(got, want) {
		t.Errorf("names %v, want %v", got, want)
	}
}

func TestNamesInUseAreThoseSeenAndThoseExpected(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		f.bringUp()
		p := &pass{set: f.set(), views: []*runnerView{{name: "seen"}}}
		f.controller.expectations.Expect(setKey, "expected")
		if got := f.controller.namesInUse(p); !got.HasAll("seen", "expected") {
			t.Errorf("names in use: %v", sets.List(got))
		}
	}, newSet(1))
}
