// Package releases is what the fake knows of the releases of GitHub's runner: when they came, what they exit with when
// they are refused, and until when GitHub takes them. It is written from public sources and asks nobody.
package releases

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Release is one release of GitHub's runner, with what its container does when the service refuses its version.
// Both are public: the days are those of the tags in github.com/actions/runner (that of 2.337.0 is the first on which
// public repositories name it), and the exit codes are in its src/Runner.Listener/Program.cs and, around that,
// src/Misc/layoutroot: run.sh with run-helper.sh.template, run.cmd with run-helper.cmd.template.
type Release struct {
	Version   string
	Published time.Time
	// Sh and Cmd are the exit codes of run.sh and run.cmd after a refusal, with
	// ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE=1. Without the variable all of them exit with 0: the program
	// itself exits with 1, which the helpers call terminated and turn into 0.
	Sh, Cmd int
}

// List has releases, oldest first.
type List []Release

// All are the releases that the fake plays, oldest first. Up to 2.332.0 the words are "is deprecated and
// cannot receive messages" and the code is 0 (actions/runner issues 4203 and 4305); from 2.333.0 on it is 7.
var All = List{
	{"2.328.0", released(2025, time.August, 13), 0, 0},
	{"2.329.0", released(2025, time.October, 14), 0, 0},
	{"2.330.0", released(2025, time.November, 19), 0, 0},
	{"2.331.0", released(2026, time.January, 9), 0, 0},
	{"2.332.0", released(2026, time.February, 25), 0, 0},
	{"2.333.0", released(2026, time.March, 18), 7, 7},
	{"2.333.1", released(2026, time.March, 27), 7, 7},
	{"2.334.0", released(2026, time.April, 21), 7, 7},
	{"2.335.0", released(2026, time.June, 8), 7, 7},
	{"2.335.1", released(2026, time.June, 9), 7, 7},
	{"2.336.0", released(2026, time.July, 20), 7, 7},
	{"2.337.0", released(2026, time.September, 11), 7, 7},
}

func released(year int, month time.Month, day int) time.Time {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// The rules that GitHub has announced for 2026: the oldest version that may register, and how long after the next
// release a version gets jobs.
const (
	oldestRegistering = "2.329.0"
	versionGrace      = 30 * 24 * time.Hour
)

// Of returns the release of a version. A version that is not in the table behaves as the newest one before it,
// and an older one than all as the oldest.
func Of(version string) Release {
	found := All[0]
	for _, r := range All {
		if versionNumber(r.Version) <= versionNumber(version) {
			found = r
		}
	}
	return found
}

// versionNumber orders versions; what is none comes first.
func versionNumber(version string) int {
	var major, minor, patch int
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); err != nil {
		return 0
	}
	return (major*1000+minor)*1000 + patch
}

// Refuses reports whether a runner of that version is refused at a time, by GitHub's rules.
func (l List) Refuses(version string, now time.Time) bool {
	if versionNumber(version) < versionNumber(oldestRegistering) {
		return true
	}
	for _, r := range l {
		if versionNumber(r.Version) > versionNumber(version) {
			return !now.Before(r.Published.Add(versionGrace))
		}
	}
	return false
}

// With returns the list with another release, which behaves as the newest one of All before it.
func (l List) With(version string, published time.Time) List {
	added := Of(version)
	added.Version, added.Published = version, published
	with := append(slices.Clone(l), added)
	slices.SortStableFunc(with, func(a, b Release) int {
		return cmp.Compare(versionNumber(a.Version), versionNumber(b.Version))
	})
	return with
}

// Until returns the releases that had come by a time.
func (l List) Until(now time.Time) List {
	return slices.DeleteFunc(slices.Clone(l), func(r Release) bool { return r.Published.After(now) })
}

// Download is a file that GitHub offers, as "List runner applications" of its REST API writes it.
type Download struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	URL          string `json:"download_url"`
	Filename     string `json:"filename"`
}

// Downloads are the files of the newest release of the list: GitHub offers it for six systems.
func (l List) Downloads() []Download {
	files := []Download{}
	if len(l) == 0 {
		return files
	}
	version := l[len(l)-1].Version
	for _, system := range [][3]string{{"linux", "x64", "tar.gz"}, {"linux", "arm64", "tar.gz"}, {"osx", "x64", "tar.gz"},
		{"osx", "arm64", "tar.gz"}, {"win", "x64", "zip"}, {"win", "arm64", "zip"}} {
		name := fmt.Sprintf("actions-runner-%s-%s-%s.%s", system[0], system[1], version, system[2])
		files = append(files, Download{OS: system[0], Architecture: system[1], Filename: name,
			URL: "https://github.com/actions/runner/releases/download/v" + version + "/" + name})
	}
	return files
}

// Published is a release as "List releases" of the REST API writes it.
type Published struct {
	TagName     string    `json:"tag_name"`
	PublishedAt time.Time `json:"published_at"`
	Draft       bool      `json:"draft"`
	Prerelease  bool      `json:"prerelease"`
}

// Newest are the newest releases of the list, at most so many, the newest first.
func (l List) Newest(most int) []Published {
	listed := []Published{}
	for _, r := range slices.Backward(l) {
		if len(listed) < most {
			listed = append(listed, Published{TagName: "v" + r.Version, PublishedAt: r.Published})
		}
	}
	return listed
}
