package runnerversion_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/runnerversion"
)

func TestVersionOfAnImage(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("a", 64)
	for reference, want := range map[string]string{
		"ghcr.io/actions/actions-runner:2.330.0":                   "2.330.0",
		"ghcr.io/actions/actions-runner:2.330.0" + digest:          "2.330.0",
		"ghcr.io/actions/actions-runner:v2.333.1":                  "2.333.1",
		"registry.example.com:5000/ci/runner:2.336.0-ubuntu-24.04": "2.336.0",
		"registry.example.com/ci/runner:ubuntu-24.04-2.336.0":      "2.336.0",
		"registry.example.com/ci/runner:runner-v2.336.0.build7":    "2.336.0",
		"registry.example.com/ci/runner:2.336.0-2.336.0":           "2.336.0",
		"ghcr.io/actions/actions-runner:latest":                    "",
		"ghcr.io/actions/actions-runner":                           "",
		"ghcr.io/actions/actions-runner" + digest:                  "",
		"registry.example.com:2.330.0/runner":                      "",
		"registry.example.com/2.330.0/runner:1":                    "",
		"registry.example.com/ci/runner:2.330.0-2.331.0":           "",
		"registry.example.com/ci/runner:2.5.0":                     "",
		"registry.example.com/ci/runner:12.330.0":                  "",
		"registry.example.com/ci/runner:2.330.0.1":                 "",
		"registry.example.com/ci/runner:2.330.0000":                "",
		"registry.example.com/ci/runner:2.330":                     "",
		"runner:" + strings.Repeat("x", 200) + "-2.330.0":          "",
		"": "",
	} {
		got, ok := runnerversion.OfImage(reference)
		if ok != (want != "") || (ok && got.String() != want) {
			t.Errorf("%s: %s, %t, want %q", reference, got, ok, want)
		}
	}
}

func TestVersionOfARecord(t *testing.T) {
	for text, want := range map[string]string{
		"2.330.0": "2.330.0", "v2.330.0": "2.330.0", "": "", "2.330.0; rm -rf": "", "3.0.0": "", "2.330.0-beta": "",
		strings.Repeat("2.330.0", 100): "",
	} {
		if got, ok := runnerversion.Parse(text); ok != (want != "") || (ok && got.String() != want) {
			t.Errorf("%q: %s, %t, want %q", text, got, ok, want)
		}
	}
}

// The list is in order, so that the next release of each is the one after it.
func TestReleasesAreInOrder(t *testing.T) {
	if !slices.IsSortedFunc(runnerversion.Releases, func(a, b runnerversion.Release) int {
		if a.Version.Before(b.Version) && !b.Published.Before(a.Published) {
			return -1
		}
		return 1
	}) {
		t.Error("the releases are not sorted by version and day")
	}
}

func TestRefusal(t *testing.T) {
	day := func(year int, month time.Month, day int) time.Time {
		return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	}
	hosted, server := runnerversion.Known{Hosted: true}, runnerversion.Known{Offered: version(t, "2.331.0")}
	for name, test := range map[string]struct {
		known     runnerversion.Known
		version   string
		now       time.Time
		connected bool
		// refuses and silently are what is known of the version, and of a runner that exited with 0 without a job.
		refuses, silently bool
	}{
		"29 days after the next":                  {hosted, "2.331.0", day(2026, time.March, 26), false, false, false},
		"30 days after the next":                  {hosted, "2.331.0", day(2026, time.March, 27), false, true, true},
		"31 days after the next":                  {hosted, "2.332.0", day(2026, time.April, 18), false, true, true},
		"too old to register":                     {hosted, "2.328.0", day(2026, time.October, 1), false, true, true},
		"it would tell":                           {hosted, "2.333.0", day(2026, time.November, 1), false, true, false},
		"it would tell, and had connected":        {hosted, "2.333.0", day(2026, time.November, 1), true, true, true},
		"the newest that is known":                {hosted, runnerversion.Newest().Version.String(), day(2030, 1, 1), true, false, false},
		"newer than known":                        {hosted, "2.999.0", day(2030, 1, 1), true, false, false},
		"Enterprise Server offers a newer one":    {server, "2.330.0", day(2025, time.December, 1), false, true, true},
		"Enterprise Server offers it":             {server, "2.331.0", day(2030, 1, 1), true, false, false},
		"Enterprise Server doesn't say":           {runnerversion.Known{}, "2.330.0", day(2026, time.November, 1), false, true, true},
		"Enterprise Server doesn't say, recently": {runnerversion.Known{}, "2.330.0", day(2026, time.January, 10), false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := version(t, test.version)
			if got := test.known.Refuses(v, test.now); got != test.refuses {
				t.Errorf("refuses: %t", got)
			}
			if got := test.known.RefusedSilently(v, test.connected, test.now); got != test.silently {
				t.Errorf("refused silently: %t", got)
			}
		})
	}
	if hosted.Refuses(runnerversion.Version{}, day(2030, 1, 1)) {
		t.Error("an unknown version is refused")
	}
}

func version(t *testing.T, text string) runnerversion.Version {
	t.Helper()
	v, ok := runnerversion.Parse(text)
	if !ok {
		t.Fatalf("%q is no version", text)
	}
	return v
}

func FuzzOfImage(f *testing.F) {
	f.Add("ghcr.io/actions/actions-runner:2.330.0")
	f.Fuzz(func(t *testing.T, reference string) {
		if v, ok := runnerversion.OfImage(reference); ok && !strings.Contains(reference, v.String()) &&
			!strings.Contains(reference, ".0") {
			t.Errorf("%q: %s", reference, v)
		}
	})
}
