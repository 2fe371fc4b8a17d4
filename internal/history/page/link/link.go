// Package link has the addresses of pages and tables, relative to each other: pages work below any path of an ingress
// or proxy.
package link

import "net/url"

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

// ToTable leads to a table with the query of a page, from its first row on.
func ToTable(name, of string, query url.Values, changes ...string) Table {
	changes = append(changes, "after", "")
	plain := To("api/v1/"+name, query, changes...)
	return Table{plain, To("api/v1/"+name, query, append(changes, "format", "csv")...), of}
}
