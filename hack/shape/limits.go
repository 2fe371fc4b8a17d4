package main

import (
	"cmp"
	"fmt"
)

// judged are the directories that are measured by default: those of the product.
var judged = []string{"cmd", "github", "internal"}

// limits are the most that a package may have. Zero in an entry of exceptions means the limit of all packages.
type limits struct {
	files int
	// A file may use so many other files of its package, on average.
	arrows float64
	// So many private functions of at most fragmentLines may be used a single time, in another file.
	fragments int
}

// wanted holds for each package that has no exception: ten files can be kept in mind, and a file that uses two or three
// others can be read without them.
var wanted = limits{files: 10, arrows: 2.5}

// exceptions have what packages measured that were cut before there was a limit. An entry may fall and go, and never
// rises; none is added.
var exceptions = map[string]limits{
	"internal/fakegithub":        {arrows: 4.5, fragments: 13},
	"internal/fakegithub/state":  {files: 15, arrows: 5.4, fragments: 6},
	"internal/testkube":          {fragments: 3},
	"internal/testkube/fakenode": {files: 14, arrows: 3.5, fragments: 5},
	"internal/testkube/process":  {fragments: 3},
}

// limitsOf returns the limits that a package must keep.
func limitsOf(directory string) limits {
	exception := exceptions[directory]
	return limits{
		files:     cmp.Or(exception.files, wanted.files),
		arrows:    cmp.Or(exception.arrows, wanted.arrows),
		fragments: cmp.Or(exception.fragments, wanted.fragments),
	}
}

// beyond names the limits that the package exceeds.
func (p *measured) beyond(most limits) (exceeded []string) {
	if p.Files > most.files {
		exceeded = append(exceeded, fmt.Sprintf("has %d files, at most %d are allowed", p.Files, most.files))
	}
	const rounding = 0.05 // exceptions are written with one digit
	if p.arrowsPerFile() > most.arrows+rounding {
		exceeded = append(exceeded, fmt.Sprintf("has files that use %.1f others on average, at most %.1f are allowed",
			p.arrowsPerFile(), most.arrows))
	}
	if len(p.Fragments) > most.fragments {
		exceeded = append(exceeded, fmt.Sprintf("has %d short functions that are used a single time, in another "+
			"file, at most %d are allowed: "+
			"join them with their callers (-list names them)", len(p.Fragments), most.fragments))
	}
	return exceeded
}
