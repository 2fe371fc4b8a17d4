package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/internal/kube/report"
)

// reporting are the packages whose reasons users meet in conditions, Events and the doctor's findings.
var reporting = []string{
	"internal/controller", "operations/convert", "operations/doctor", "operations/validation", "internal/kube", "internal/listener",
	"internal/podstatus", "internal/registrations",
}

// Every reason in the code is on a page: in the lists made from the API's constants, or in one written by hand.
func TestReasonsAreExplained(t *testing.T) {
	t.Parallel()
	explained := map[string]bool{}
	for _, p := range pages(t) {
		for _, code := range span.FindAllStringSubmatch(p.text, -1) {
			explained[code[1]] = true
		}
	}
	found := reasons(t, reporting...)
	for reason, place := range found {
		if !explained[reason] {
			t.Errorf("%s: the reason %s is on no page; docs/reference.md, \"Other reasons\", is for those by which "+
				"no program decides", place, reason)
		}
	}
	if len(found) < 80 {
		t.Errorf("found %d reasons only", len(found))
	}
}

// Every reason of a condition or an Event is known by name, or the series of metrics would show it as Other.
func TestReasonsAreKnown(t *testing.T) {
	t.Parallel()
	for reason, place := range reasons(t, "apis", "internal/controller", "internal/kube", "internal/listener",
		"internal/podstatus", "internal/registrations") {
		if report.KnownReason(reason) != reason {
			t.Errorf("%s: the reason %s has no row in internal/meaning", place, reason)
		}
	}
}

// reasons returns the reasons that the code writes as words of its own, each with one of its places.
func reasons(t *testing.T, directories ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, directory := range directories {
		err := filepath.WalkDir(filepath.Join(root, directory), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := token.NewFileSet()
			parsed, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(parsed, func(node ast.Node) bool {
				for _, word := range reasonsOf(node) {
					found[word] = files.Position(node.Pos()).String()
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// reasonsOf returns the words that a node uses as reasons: in a constant, variable or field of that name, as an
// argument of a function that makes a condition, an Event or a finding, or returned before a message.
func reasonsOf(node ast.Node) []string {
	switch node := node.(type) {
	case *ast.ValueSpec:
		if isReason(node.Names[0]) {
			return words(node.Values...)
		}
	case *ast.AssignStmt:
		if isReason(node.Lhs[0]) {
			return words(node.Rhs[0])
		}
	case *ast.KeyValueExpr:
		if isReason(node.Key) {
			return words(node.Value)
		}
	case *ast.ReturnStmt:
		if len(node.Results) == 2 {
			return words(node.Results[0])
		}
	case *ast.CallExpr:
		return ofCall(node)
	}
	return nil
}

// reasonAt has the index of the argument with the reason.
var reasonAt = map[string]int{
	"True": 1, "False": 1, "Unknown": 1, "ReadyStates": 0, "UnreadyStates": 0, "Normal": 0, "Warning": 0,
	"add": 0, "require": 1, "finding": 1, "NeedsHand": 0, "NeedsLook": 0,
}

func ofCall(call *ast.CallExpr) []string {
	name := ""
	switch function := call.Fun.(type) {
	case *ast.Ident:
		name = function.Name
	case *ast.SelectorExpr:
		name = function.Sel.Name
	}
	if at, isKnown := reasonAt[name]; isKnown && at < len(call.Args) {
		return words(call.Args[at])
	}
	return nil
}

func isReason(name ast.Expr) bool {
	identifier, isName := name.(*ast.Ident)
	return isName && strings.HasPrefix(strings.ToLower(identifier.Name), "reason")
}

// word matches the form of a reason.
var word = regexp.MustCompile(`^[A-Z][a-z]+[A-Za-z]*$`)

// words returns the reasons among expressions and the arguments of a call, such as cmp.Or.
func words(expressions ...ast.Expr) (found []string) {
	for _, expression := range expressions {
		switch expression := expression.(type) {
		case *ast.BasicLit:
			if text, err := strconv.Unquote(expression.Value); err == nil && word.MatchString(text) {
				found = append(found, text)
			}
		case *ast.CallExpr:
			found = append(found, words(expression.Args...)...)
		}
	}
	return found
}
