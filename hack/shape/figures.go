package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	lineWidth = 120 // columns; a longer line counts as the lines that it would be
	tabWidth  = 4
)

// Support of tests is no product, although it stands beside it.
var support = []string{
	"internal/fakegithub", "internal/testkube", "internal/controller/controllertest", "operations/history/databasetest",
}

// The wing has what operators start by hand, and the ledger of jobs. What is left of the product is its core, without
// which no job runs.
var wing = []string{"operations", "internal/output"}

// runnerSet declares what is remembered of one runner set, in the type of this name.
const runnerSet, memoryType = "internal/controller/ephemeralrunnerset", "memory"

// figures has what is measured of the product as a whole.
type figures struct {
	CodeLines     int            `json:"codeLines"`
	CoreCodeLines int            `json:"coreCodeLines"`
	Dependencies  map[string]int `json:"directDependencies"` // by module
	MemoryFields  int            `json:"runnerSetMemoryFields"`
}

func measureProduct() (f figures, err error) {
	files, err := filesBelow(append([]string{"apis"}, judged...)...)
	if err != nil {
		return f, err
	}
	for directory, names := range files {
		if below(directory, support) {
			continue
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return f, err
			}
			lines := codeLines(text)
			f.CodeLines += lines
			if !below(directory, wing) {
				f.CoreCodeLines += lines
			}
		}
	}
	if f.Dependencies, err = dependencies(); err != nil {
		return f, err
	}
	f.MemoryFields, err = fieldsOf(files[runnerSet], memoryType)
	return f, err
}

func below(directory string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		return directory == root || strings.HasPrefix(directory, root+"/")
	})
}

// codeLines counts the lines on which a token of Go stands: no blank ones and no comments. A string of several lines
// counts with each of them.
func codeLines(text []byte) (count int) {
	var scan scanner.Scanner
	positions := token.NewFileSet()
	file := positions.AddFile("", -1, len(text))
	scan.Init(file, text, nil, 0)
	code := map[int]bool{}
	for {
		at, kind, literal := scan.Scan()
		if kind == token.EOF {
			break
		}
		if kind == token.SEMICOLON && literal == "\n" {
			continue // added by the scanner
		}
		for i := range 1 + strings.Count(literal, "\n") {
			code[file.Line(at)+i] = true
		}
	}
	for i, line := range bytes.Split(text, []byte("\n")) {
		width := len([]rune(string(line))) + (tabWidth-1)*bytes.Count(line, []byte("\t"))
		if code[i+1] && len(bytes.TrimSpace(line)) > 0 {
			count += max(1, (width+lineWidth-1)/lineWidth)
		}
	}
	return count
}

// dependencies counts, by module, what each go.mod that git knows requires directly.
func dependencies() (map[string]int, error) {
	listed, err := exec.Command("git", "ls-files", "go.mod", "**/go.mod").Output()
	if err != nil {
		return nil, fmt.Errorf("list modules: %w", err)
	}
	found := map[string]int{}
	for _, name := range strings.Fields(string(listed)) {
		text, err := exec.Command("go", "mod", "edit", "-json", name).Output()
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		var parsed struct{ Require []struct{ Indirect bool } }
		if err := json.Unmarshal(text, &parsed); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		found[filepath.ToSlash(filepath.Dir(name))] = 0
		for _, required := range parsed.Require {
			if !required.Indirect {
				found[filepath.ToSlash(filepath.Dir(name))]++
			}
		}
	}
	return found, nil
}

// fieldsOf counts the fields of a struct, an embedded one as one.
func fieldsOf(files []string, typeName string) (count int, err error) {
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return 0, fmt.Errorf("parse %s: %w", name, err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			declared, ok := node.(*ast.TypeSpec)
			if !ok || declared.Name.Name != typeName {
				return true
			}
			if fields, ok := declared.Type.(*ast.StructType); ok {
				for _, field := range fields.Fields.List {
					count += max(1, len(field.Names))
				}
			}
			return false
		})
	}
	return count, nil
}

// fileLines counts the lines of all files of Go below the directories, tests included, generated ones not.
func fileLines(roots ...string) (map[string]int, error) {
	lines := map[string]int{}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(name) != ".go" ||
				strings.HasPrefix(entry.Name(), "zz_generated") {
				return err
			}
			text, err := os.ReadFile(name)
			lines[filepath.ToSlash(name)] = bytes.Count(text, []byte("\n"))
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("count lines: %w", err)
		}
	}
	return lines, nil
}
