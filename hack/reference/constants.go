package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
)

// lists are the files of the API package whose constants users see.
var lists = []struct{ file, prefix, title, intro string }{
	{"conditions.go", "Condition", "Conditions",
		"Types of `status.conditions` of the four kinds. Each has a status, a reason, a message with cause and " +
			"next step, the generation it is about, and the time it changed."},
	{"reasons.go", "Reason", "Reasons",
		"The reasons by which programs decide; your alerts may, too. A condition can have others: the pod's own, " +
			"such as `ImagePullBackOff`, and words for an ordinary state, such as `Listening`."},
}

// writeConstants appends a table of each list.
func writeConstants(page *strings.Builder) error {
	for _, list := range lists {
		rows, err := constants(filepath.Join("apis", "actions.github.com", "v1alpha1", list.file), list.prefix)
		if err != nil {
			return err
		}
		fmt.Fprintf(page, "\n## %s\n\n%s\n", list.title, list.intro)
		table(page, []string{"", "means"}, rows)
	}
	return nil
}

// constants returns value and meaning of each string constant in a Go file. A constant without a comment shares that of
// the one before it. It fails if there is none.
func constants(file, prefix string) ([][]string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for _, declaration := range parsed.Decls {
		group, isGroup := declaration.(*ast.GenDecl)
		if !isGroup || group.Tok != token.CONST {
			continue
		}
		comment := group.Doc.Text()
		for _, spec := range group.Specs {
			constant := spec.(*ast.ValueSpec)
			if constant.Doc != nil {
				comment = constant.Doc.Text()
			}
			value, err := strconv.Unquote(constant.Values[0].(*ast.BasicLit).Value)
			if err != nil || comment == "" {
				return nil, fmt.Errorf("%s: %s is not a string constant with a comment", file, constant.Names[0].Name)
			}
			rows = append(rows, []string{code(value),
				cell(strings.ReplaceAll(explanation(comment, constant.Names[0].Name), prefix, ""))})
		}
	}
	return rows, nil
}

// explanation returns a comment without the name that it begins with. The next word is capitalized unless it is a field's
// name.
func explanation(comment, name string) string {
	for _, beginning := range []string{name + ": ", name + " is ", name + " "} {
		rest, found := strings.CutPrefix(comment, beginning)
		if !found {
			continue
		}
		if word, _, _ := strings.Cut(rest, " "); word != strings.ToLower(word) {
			return rest
		}
		return strings.ToUpper(rest[:1]) + rest[1:]
	}
	return comment
}
