// Package link has the addresses of pages and tables, relative to each other: pages work below any path of an ingress
// or proxy.
package link

import (
	"net/url"
	"regexp"
	"strconv"
)

// To returns the address of a page with a query, with parts of the query changed: an empty value leaves its part out.
func To(page string, query url.Values, changes ...string) string {
	changed := url.Values{}
	for name, values := range query {
		changed[name] = values
	}
	for i := 0; i+1 < len(changes); i += 2 {
		if changes[i+1] == "" {
			changed.Del(changes[i])
		} else {
			changed.Set(changes[i], changes[i+1])
		}
	}
	if page == "overview" {
		page = "./"
	}
	if len(changed) == 0 {
		return page
	}
	return page + "?" + changed.Encode()
}

// Within returns the part of a query that chooses the time.
func Within(query url.Values) url.Values {
	times := url.Values{}
	for _, name := range []string{"from", "to"} {
		if value := query.Get(name); value != "" {
			times.Set(name, value)
		}
	}
	return times
}

// ToSet leads to a scale set, at the time that a query is about.
func ToSet(cluster, namespace, set string, query url.Values) string {
	return To("set", Within(query), "cluster", cluster, "namespace", namespace, "set", set)
}

// Choice is one of several, with the address that it leads to.
type Choice struct {
	Text, Value, Link string
	Chosen            bool
}

// Table is a table of the API, with the addresses of its JSON and CSV.
type Table struct{ JSON, CSV, Of string }

// ToGaps leads to the table of gaps at the time of a page. They are a cluster's; the namespace, if
// it is not empty, is that by whose right somebody sees them.
func ToGaps(query url.Values, namespace string) Table {
	return ToTable("gaps", "Gaps", Within(query), "cluster", query.Get("cluster"), "namespace", namespace)
}

// ToTable leads to a table with the query of a page, from its first row on.
func ToTable(name, of string, query url.Values, changes ...string) Table {
	changes = append(changes, "after", "")
	plain := To("api/v1/"+name, query, changes...)
	return Table{plain, To("api/v1/"+name, query, append(changes, "format", "csv")...), of}
}

// repositoryName matches OWNER/REPO.
var repositoryName = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9_]*/[-A-Za-z0-9._]+$`)

// ToRun leads to a run on GitHub, or to an attempt of it, and is empty if its address is not known.
func ToRun(github, repository string, run, attempt *int64) string {
	if github == "" || run == nil || !repositoryName.MatchString(repository) {
		return ""
	}
	address := github + "/" + repository + "/actions/runs/" + strconv.FormatInt(*run, 10)
	if attempt != nil {
		address += "/attempts/" + strconv.FormatInt(*attempt, 10)
	}
	return address
}

// ToLog leads to the log of a job of a run on GitHub, and is empty if its address is not known.
func ToLog(github, repository string, run, job *int64) string {
	address := ToRun(github, repository, run, nil)
	if address == "" || job == nil {
		return ""
	}
	return address + "/job/" + strconv.FormatInt(*job, 10)
}

// objectName matches texts that need no quotes in a shell: names of Kubernetes' objects, and GitHub's ids of jobs.
var objectName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9._]{0,251}[A-Za-z0-9])?$`)

// IsName reports whether a text may stand in a command without quotes.
func IsName(text string) bool { return objectName.MatchString(text) }
