package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// judged are the directories that are measured by default: those of the product.
var judged = []string{"cmd", "github", "internal", "operations"}

// wholes are measured with all rooms below them, too: whoever walls off a part of a package has moved arrows, and may
// not have made the way through it shorter.
var wholes = []string{
	"internal/controller/ephemeralrunner", "internal/controller/ephemeralrunnerset",
	"internal/controller/autoscalingrunnerset", "internal/controller/autoscalinglistener",
	"internal/listener", "github/actions",
}

// limits are the most that a package may have. Zero in an entry of exceptions means the limit of all packages.
type limits struct {
	// A file may use so many other files of its package, on average.
	arrows float64
	// So many private functions of at most fragmentLines may be used a single time, in another file.
	fragments int
}

// wanted holds for each package that has no exception: a file that uses two or three others can be read without them.
var wanted = limits{arrows: 2.5}

// Beyond these there is a warning only. A room with more files can't be kept in mind, a longer file is seldom one
// subject; but one subject isn't cut in two to meet a figure.
const (
	expectedFiles     = 10
	expectedFileLines = 400
)

// These are wished of a controller with its rooms: arrows a file, and arrows in circles.
const (
	expectedArrows  = 4.0
	expectedCircles = 25
)

// exceptions have what packages measured that were cut before there was a limit. An entry may fall and go, and never
// rises; none is added.
var exceptions = map[string]limits{
	"internal/fakegithub":        {arrows: 4.5, fragments: 13},
	"internal/fakegithub/state":  {arrows: 5.4, fragments: 6},
	"internal/testkube":          {fragments: 3},
	"internal/testkube/fakenode": {arrows: 3.5, fragments: 5},
	"internal/testkube/process":  {fragments: 3},
}

// limitsOf returns the limits that a package must keep.
func limitsOf(directory string) limits {
	exception := exceptions[directory]
	return limits{
		arrows:    cmp.Or(exception.arrows, wanted.arrows),
		fragments: cmp.Or(exception.fragments, wanted.fragments),
	}
}

// rounding is what figures that are written with one digit leave out.
const rounding = 0.05

// beyond names the limits that the package exceeds.
func (m *measured) beyond(most limits) (exceeded []string) {
	if m.arrowsPerFile() > most.arrows+rounding {
		exceeded = append(exceeded, fmt.Sprintf("has files that use %.1f others on average, at most %.1f are allowed",
			m.arrowsPerFile(), most.arrows))
	}
	if len(m.Fragments) > most.fragments {
		exceeded = append(exceeded, fmt.Sprintf("has %d short functions that are used a single time, in another "+
			"file, at most %d are allowed: "+
			"join them with their callers (-list names them)", len(m.Fragments), most.fragments))
	}
	return exceeded
}

// warnings names what is larger than one subject should be: packages, files (tests count), controllers with their
// rooms.
func warnings(packages, whole []measured, lines map[string]int) (found []string) {
	for _, p := range packages {
		if p.Files > expectedFiles {
			found = append(found, fmt.Sprintf("%s has %d files, more than %d: are they one subject?", p.Directory,
				p.Files, expectedFiles))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		if lines[name] > expectedFileLines {
			found = append(found, fmt.Sprintf("%s has %d lines, more than %d: is it one subject?", name, lines[name],
				expectedFileLines))
		}
	}
	for _, w := range whole {
		if w.arrowsPerFile() > expectedArrows+rounding || w.Circles > expectedCircles {
			found = append(found, fmt.Sprintf("%s with its rooms has %.1f arrows a file and %d in circles; wanted are "+
				"%.1f and %d", w.Directory, w.arrowsPerFile(), w.Circles, expectedArrows, expectedCircles))
		}
	}
	return found
}
