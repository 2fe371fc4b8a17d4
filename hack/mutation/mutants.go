package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
)

// mutant is one small change of a file.
type mutant struct {
	file         string
	line, column int
	// offset and length are the bytes that are replaced by text.
	offset, length int
	text           string
	// before is the text that is replaced, for the report.
	before string
}

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d:%d: %s → %s", m.file, m.line, m.column, m.before, m.text)
}

// apply returns the changed file.
func (m mutant) apply(source []byte) string {
	return string(source[:m.offset]) + m.text + string(source[m.offset+m.length:])
}

// swapped has operators that decide, each with an operator that decides a little differently.
var swapped = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ,
	token.GEQ:  token.GTR,
	token.LAND: token.LOR, token.LOR: token.LAND, token.ADD: token.SUB, token.SUB: token.ADD,
}

// mutantsOf returns every change of a file: another operator, a negation less, the other boolean, a condition that is
// negated.
func mutantsOf(file string, source []byte) ([]mutant, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, source, 0)
	if err != nil {
		return nil, err
	}
	var found []mutant
	replace := func(from token.Pos, length int, text string) {
		position := files.Position(from)
		found = append(found, mutant{
			file: file, line: position.Line, column: position.Column, offset: position.Offset, length: length,
			text:   text,
			before: string(source[position.Offset : position.Offset+length]),
		})
	}
	ast.Inspect(parsed, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.BinaryExpr:
			if other, known := swapped[n.Op]; known {
				replace(n.OpPos, len(n.Op.String()), other.String())
			}
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				replace(n.OpPos, 1, "")
			}
		case *ast.Ident:
			if n.Name == "true" || n.Name == "false" {
				replace(n.Pos(), len(n.Name), fmt.Sprint(n.Name != "true"))
			}
		case *ast.IfStmt:
			switch n.Cond.(type) {
			case *ast.CallExpr, *ast.Ident, *ast.SelectorExpr: // the others have an operator
				text := string(source[files.Position(n.Cond.Pos()).Offset:files.Position(n.Cond.End()).Offset])
				replace(n.Cond.Pos(), len(text), "!"+text)
			}
		}
		return true
	})
	return found, nil
}
