package ephemeralrunnerset

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
)

func TestNamesAreChosenThatNobodyHas(t *testing.T) {
	drawn := []string{"seen", "tried", "expected", "new-1", "new-1", "seen", "new-2", "new-3"}
	pick := func() string {
		name := drawn[0]
		drawn = drawn[1:]
		return name
	}
	c := newCreations("tried")
	c.expected.Expect(setKey, "expected")
	var got []try
	for _, try := range c.begin(3, []*roster.Runner{{Name: "seen"}}, pick) {
		got = append(got, *try)
	}
	want := []try{{name: "tried", repeated: true}, {name: "new-1"}, {name: "new-2"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(try{})); diff != "" {
		t.Errorf("tries (-want +got):\n%s", diff)
	}
	pending := c.expected.Pending(setKey)
	for _, name := range []string{"tried", "expected", "new-1", "new-2"} {
		if _, expected := pending[name]; !expected {
			t.Errorf("%s is not expected", name)
		}
	}
}
