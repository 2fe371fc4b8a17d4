// Package runnerversion knows what is public of the versions of GitHub's runner: how to read one from an image's tag or
// a runner's record, which releases there are, until when GitHub gives them jobs, and which of them tell that they are
// refused. It is pure: what a set's own GitHub has said comes in as Known.
package runnerversion

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Version is the version of a runner, such as 2.337.0. The zero value is no version.
type Version struct{ Major, Minor, Patch int }

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// IsZero reports whether the version is not known.
func (v Version) IsZero() bool { return v == Version{} }

// Before reports whether v is older than other.
func (v Version) Before(other Version) bool {
	return cmp.Or(cmp.Compare(v.Major, other.Major), cmp.Compare(v.Minor, other.Minor),
		cmp.Compare(v.Patch, other.Patch)) < 0
}

// number matches a version of the runner and nothing that is shorter: since 2020 all of them are 2.N.P with three digits
// in the middle. A company's own image may be its 2.5.0, which says nothing about the runner.
var number = regexp.MustCompile(`(?:^|[^0-9.])v?(2\.[0-9]{3}\.[0-9]{1,3})(?:$|[^0-9.]|\.[^0-9])`)

// A tag has at most 128 characters, and a version needs less.
const longest = 128

// Parse reads a version as GitHub writes it, with or without a v. Anybody may have made it up: it is a version or none.
func Parse(text string) (Version, bool) {
	if strings.ContainsAny(text, "-+_ ") {
		return Version{}, false
	}
	return find(text)
}

// OfImage reads the version that an image's tag names, alone or beside other words. A tag that names two of them names
// none, and neither do latest or a digest. With a digest the tag is what somebody wrote beside it.
func OfImage(reference string) (Version, bool) {
	reference, _, _ = strings.Cut(reference, "@")
	name := reference[strings.LastIndex(reference, "/")+1:] // a registry may have a port
	_, tag, tagged := strings.Cut(name, ":")
	if !tagged {
		return Version{}, false
	}
	return find(tag)
}

// OfFile reads the version in the name of a file that GitHub offers, such as actions-runner-linux-x64-2.337.0.tar.gz.
func OfFile(name string) (Version, bool) { return find(name) }

// find returns the only version in a text.
func find(text string) (found Version, ok bool) {
	if len(text) > longest {
		return Version{}, false
	}
	for rest := text; ; {
		at := number.FindStringSubmatchIndex(rest)
		if at == nil {
			return found, ok
		}
		next := split(rest[at[2]:at[3]])
		if ok && next != found {
			return Version{}, false
		}
		found, ok = next, true
		rest = rest[at[3]:] // what follows the one may come before the next
	}
}

// split reads what number has matched.
func split(text string) Version {
	var v Version
	for i, part := range strings.SplitN(text, ".", 3) {
		n, _ := strconv.Atoi(part) // at most three digits
		*[]*int{&v.Major, &v.Minor, &v.Patch}[i] = n
	}
	return v
}
