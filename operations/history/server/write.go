package server

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/harrier-ci/harrier/operations/history/ledger"
)

// part is a page of a table but that of jobs.
type part interface {
	Page() (rows any, next string, total int64)
}

// write answers with a table as JSON, or as CSV with a line of names. Headers have the place at which the next page begins,
// and how many rows or groups all pages have; in JSON a page of jobs has the first in itself.
func write(w http.ResponseWriter, answer any, asCSV bool) {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	if page, is := answer.(part); is {
		rows, next, total := page.Page()
		if next != "" {
			header.Set("X-Next", next)
		}
		if total > 0 {
			header.Set("X-Total", strconv.FormatInt(total, 10))
		}
		answer = rows
	}
	if !asCSV {
		header.Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // whoever has asked may be gone
		return
	}
	switch a := answer.(type) {
	case ledger.Page:
		if a.Next != "" {
			header.Set("X-Next", a.Next)
		}
		answer = a.Jobs
	case ledger.Job:
		answer = []ledger.Job{a}
	}
	header.Set("Content-Type", "text/csv; charset=utf-8; header=present")
	rows := reflect.ValueOf(answer)
	lines := csv.NewWriter(w)
	_ = lines.Write(names(rows.Type().Elem()))
	for i := range rows.Len() {
		if lines.Write(cells(rows.Index(i))) != nil {
			return
		}
	}
	lines.Flush()
}

// names returns the names that the fields have in JSON.
func names(of reflect.Type) (names []string) {
	for _, field := range columns(of) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// columns returns the fields of a row, with those of structs that are embedded in it.
func columns(of reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(of), func(field reflect.StructField) bool { return field.Anonymous })
}

// inert returns a text with an apostrophe before it if spreadsheets would take it for a formula: a workflow may name a
// job so that it runs a program of whoever opens the table.
func inert(text string) string {
	if text != "" && strings.ContainsAny(text[:1], "=+-@\t\r\n") {
		return "'" + text
	}
	if first, _ := utf8.DecodeRuneInString(text); strings.ContainsRune("＝＋－＠", first) {
		return "'" + text
	}
	return text
}

// cells returns the fields as text. Unknown values are empty.
func cells(row reflect.Value) (cells []string) {
	for _, column := range columns(row.Type()) {
		field := row.FieldByIndex(column.Index)
		if field.Kind() == reflect.Pointer {
			if field.IsNil() {
				cells = append(cells, "")
				continue
			}
			field = field.Elem()
		}
		switch value := field.Interface().(type) {
		case time.Time:
			text := ""
			if !value.IsZero() {
				text = value.Format(time.RFC3339)
			}
			cells = append(cells, text)
		case map[string]float64:
			text, _ := json.Marshal(value) // sorted by name
			cells = append(cells, string(text))
		case int, int64, float64, bool:
			cells = append(cells, fmt.Sprint(value))
		default:
			cells = append(cells, inert(fmt.Sprint(value)))
		}
	}
	return cells
}
