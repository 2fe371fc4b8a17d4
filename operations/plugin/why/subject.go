// Package why tells what became of a job, and why it waits or was lost: from runners, pods, Events and the jobs that
// listeners know to wait, as far as the caller may read them, and of jobs whose runners are gone from the ledger, if it
// can be asked.
//
//	subject ─▶ gather (API server) ─▶ facts ─▶ tell (pure) ─┐
//	       ─▶ forgotten (ledger) ─▶ jobs ─▶ recall (pure) ─┴▶ stories ─▶ text or JSON
package why

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/harrier-ci/harrier/internal/output"
)

// Subject is what the user asks about: a workflow run, a job, a runner or a pod. A text that may be several of these is
// all of them.
type Subject struct {
	// Run is the id of a workflow run, and Repository that of its address, OWNER/REPO; empty if the user gave a number
	// only.
	Run        int64
	Repository string
	// Job is the id of a job in the Actions service, and Name that of a runner or a pod.
	Job, Name string
	// Note is what the user should know about the answer.
	Note string
}

// longestSubject is more than the address of a run can have.
const longestSubject = 1000

// runPath is the path of a workflow run's page, and of pages below it.
var runPath = regexp.MustCompile(`^/([^/]+/[^/]+)/actions/runs/([0-9]{1,19})(/.*)?$`)

// prefixes may be before names, as kubectl writes them.
var prefixes = []string{"pod/", "pods/", "po/", "runner/", "er/", "ephemeralrunner/", "ephemeralrunners/",
	"ephemeralrunner.actions.github.com/", "ephemeralrunners.actions.github.com/"}

// Parse reads what the user typed. It fails for an address that is none of a workflow run, and for what can't be a
// name.
func Parse(text string) (Subject, error) {
	quoted := strconv.QuoteToASCII(output.Cut(text, longestSubject))
	switch {
	case text == "" || len(text) > longestSubject:
		return Subject{}, fmt.Errorf("%s is neither an id, an address nor a name", quoted)
	case strings.Contains(text, "://"):
		return parseAddress(text, quoted)
	}
	for _, prefix := range prefixes {
		if name, is := strings.CutPrefix(text, prefix); is {
			return checked(Subject{Name: name}, quoted)
		}
	}
	subject := Subject{Job: text, Name: text}
	if run, err := strconv.ParseInt(text, 10, 64); err == nil && run > 0 {
		subject.Run = run
	}
	return checked(subject, quoted)
}

func parseAddress(text, quoted string) (Subject, error) {
	address, err := url.Parse(text)
	if err == nil {
		if found := runPath.FindStringSubmatch(address.Path); found != nil {
			run, err := strconv.ParseInt(found[2], 10, 64)
			if err == nil && run > 0 {
				subject := Subject{Run: run, Repository: found[1]}
				if strings.Contains(found[3], "/job/") {
					subject.Note = "Runners are not told the number that the address has for the job, so these are " +
						"all jobs of its run."
				}
				return subject, nil
			}
		}
	}
	return Subject{}, fmt.Errorf("%s is no address of a workflow run: one is "+
		"https://github.com/OWNER/REPO/actions/runs/123", quoted)
}

// name matches ids of jobs and names of objects.
var name = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9._]{0,251}[A-Za-z0-9])?$`)

func checked(s Subject, quoted string) (Subject, error) {
	if !name.MatchString(s.Name) {
		return Subject{}, fmt.Errorf("%s is neither an id, an address of a workflow run, nor the name of a runner "+
			"or a pod", quoted)
	}
	return s, nil
}
