package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// fragmentLines is the longest body of a function that might as well stand where it is used.
const fragmentLines = 8

// measured has what is known of one package.
type measured struct {
	Directory string `json:"directory"`
	Files     int    `json:"files"`
	Lines     int    `json:"lines"`
	// Arrows are the pairs of files of which one uses what the other declares.
	Arrows int `json:"arrows"`
	// Fragments are the private functions that are short and used a single time, in another file.
	Fragments []fragment `json:"fragments"`
}

type fragment struct {
	Name   string `json:"name"`
	File   string `json:"file"`
	UsedIn string `json:"usedIn"`
	Lines  int    `json:"lines"`
}

func (p *measured) arrowsPerFile() float64 { return float64(p.Arrows) / float64(max(1, p.Files)) }

// measureAll measures all packages below the directories. Tests and generated files don't count.
func measureAll(roots []string) ([]measured, error) {
	files := map[string][]string{}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && entry.Name() == "testdata":
				return filepath.SkipDir
			case entry.IsDir(), filepath.Ext(name) != ".go", strings.HasSuffix(name, "_test.go"),
				strings.HasPrefix(entry.Name(), "zz_generated"):
				return nil
			}
			directory := filepath.ToSlash(filepath.Dir(name))
			files[directory] = append(files[directory], name)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("find packages: %w", err)
		}
	}
	packages := make([]measured, 0, len(files))
	for directory, names := range files {
		p, err := measure(directory, names)
		if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
	slices.SortFunc(packages, func(a, b measured) int { return cmp.Compare(a.Directory, b.Directory) })
	return packages, nil
}

// declaration is a name that a file declares for its whole package.
type declaration struct {
	file  string
	lines int // of a function's body, 0 for anything else
	// private functions can be fragments.
	private bool
	usedIn  []string // a file for each use
}

// room is one package while it is measured.
type room struct {
	names, methods map[string][]*declaration
	arrows         map[[2]string]bool
}

func measure(directory string, names []string) (measured, error) {
	p := measured{Directory: directory, Files: len(names), Fragments: []fragment{}}
	r := room{names: map[string][]*declaration{}, methods: map[string][]*declaration{}, arrows: map[[2]string]bool{}}
	positions := token.NewFileSet()
	parsed := make([]*ast.File, len(names))
	for i, name := range names {
		var err error
		if parsed[i], err = parser.ParseFile(positions, name, nil, parser.SkipObjectResolution); err != nil {
			return p, fmt.Errorf("parse %s: %w", name, err)
		}
		p.Lines += positions.File(parsed[i].FileStart).LineCount()
		r.declare(positions, filepath.Base(name), parsed[i])
	}
	for i, name := range names {
		r.findUses(filepath.Base(name), parsed[i])
	}
	p.Arrows = len(r.arrows)
	for _, index := range []map[string][]*declaration{r.names, r.methods} {
		for name, declarations := range index {
			for _, d := range declarations {
				if d.private && d.lines <= fragmentLines && len(d.usedIn) == 1 && d.usedIn[0] != d.file {
					p.Fragments = append(p.Fragments,
						fragment{Name: name, File: d.file, UsedIn: d.usedIn[0], Lines: d.lines})
				}
			}
		}
	}
	slices.SortFunc(p.Fragments, func(a, b fragment) int {
		return cmp.Or(cmp.Compare(a.File, b.File),
			cmp.Compare(a.Name, b.Name))
	})
	return p, nil
}

// declare notes what a file declares.
func (r *room) declare(positions *token.FileSet, name string, file *ast.File) {
	add := func(index map[string][]*declaration, identifier *ast.Ident, d declaration) {
		d.file = name
		index[identifier.Name] = append(index[identifier.Name], &d)
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			lines := 1
			if d.Body != nil {
				lines = max(1, positions.Position(d.Body.End()).Line-positions.Position(d.Body.Pos()).Line-1)
			}
			index := r.names
			if d.Recv != nil {
				index = r.methods
			}
			add(index, d.Name, declaration{lines: lines, private: !d.Name.IsExported()})
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					add(r.names, spec.Name, declaration{})
				case *ast.ValueSpec:
					for _, identifier := range spec.Names {
						add(r.names, identifier, declaration{})
					}
				}
			}
		}
	}
}

// findUses notes what a file uses of its package.
func (r *room) findUses(name string, file *ast.File) {
	imported := map[string]bool{}
	for _, spec := range file.Imports {
		imported[importName(spec)] = true
	}
	use := func(index map[string][]*declaration, identifier string) {
		for _, d := range index[identifier] {
			d.usedIn = append(d.usedIn, name)
			if d.file != name {
				r.arrows[[2]string{name, d.file}] = true
			}
		}
	}
	own := declaredIn(file)
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.SelectorExpr:
			own[node.Sel] = true // a field's or a method's name, which is met after what it belongs to
			if of, is := node.X.(*ast.Ident); !is || !imported[of.Name] {
				use(r.methods, node.Sel.Name)
			}
		case *ast.Ident:
			if !own[node] {
				use(r.names, node.Name)
			}
		}
		return true
	})
}

// declaredIn returns the identifiers of a file that are no uses: names that it declares, and those of fields.
func declaredIn(file *ast.File) map[*ast.Ident]bool {
	declared := map[*ast.Ident]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncDecl:
			declared[node.Name] = true
		case *ast.TypeSpec:
			declared[node.Name] = true
		case *ast.ValueSpec:
			for _, identifier := range node.Names {
				declared[identifier] = true
			}
		case *ast.Field:
			for _, identifier := range node.Names {
				declared[identifier] = true
			}
		case *ast.KeyValueExpr:
			if field, is := node.Key.(*ast.Ident); is {
				declared[field] = true
			}
		}
		return true
	})
	return declared
}

func importName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	return path.Base(strings.Trim(spec.Path.Value, `"`))
}
