package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// fragmentLines is the longest body of a function that might as well stand where it is used.
const fragmentLines = 8

// module is what the path of a package begins with, before its directory.
const module = "github.com/harrier-ci/harrier/"

// measured has what is known of one package, or of a controller with its rooms.
type measured struct {
	Directory string `json:"directory"`
	Files     int    `json:"files"`
	Lines     int    `json:"lines"`
	// Arrows are the pairs of files of which one uses what the other declares.
	Arrows int `json:"arrows"`
	// Circles are the arrows from whose end others lead back to their beginning: none of these files can be
	// understood before the others.
	Circles int `json:"circles"`
	// InCircles names these arrows, with what the one file uses of the other.
	InCircles []string `json:"-"`
	// Fragments are the private functions that are short and used a single time, in another file.
	Fragments []fragment `json:"fragments"`
}

type fragment struct {
	Name   string `json:"name"`
	File   string `json:"file"`
	UsedIn string `json:"usedIn"`
	Lines  int    `json:"lines"`
}

func (m *measured) arrowsPerFile() float64 { return float64(m.Arrows) / float64(max(1, m.Files)) }

// filesBelow returns the product's files below the directories, by directory. Tests and generated files don't count.
func filesBelow(roots ...string) (map[string][]string, error) {
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
	return files, nil
}

// measurePackages measures each package by itself.
func measurePackages(files map[string][]string) ([]measured, error) {
	packages := make([]measured, 0, len(files))
	for _, directory := range slices.Sorted(maps.Keys(files)) {
		p, err := measure(directory, map[string][]string{directory: files[directory]})
		if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
	return packages, nil
}

// place is a file of a directory.
type place struct{ directory, file string }

// declaration is a name that a file declares for its whole package.
type declaration struct {
	place
	lines int // of a function's body, 0 for anything else
	// private functions can be fragments.
	private bool
	usedIn  []string // a file for each use
}

// room is one package while it is measured.
type room struct {
	names, methods map[string][]*declaration
	// uses are the directories of those packages among the measured ones that it imports.
	uses map[string]bool
}

// house has the packages that are measured together, by directory.
type house struct {
	rooms map[string]*room
	// arrows have the names that a file uses of another.
	arrows map[place]map[place]map[string]bool
}

// measure measures packages as if they were one: what a file uses of another package of them is an arrow, too.
func measure(name string, files map[string][]string) (measured, error) {
	m := measured{Directory: name, Fragments: []fragment{}}
	h := house{rooms: map[string]*room{}, arrows: map[place]map[place]map[string]bool{}}
	positions := token.NewFileSet()
	parsed := map[place]*ast.File{}
	for directory, names := range files {
		h.rooms[directory] = &room{names: map[string][]*declaration{}, methods: map[string][]*declaration{},
			uses: map[string]bool{}}
		for _, name := range names {
			file, err := parser.ParseFile(positions, name, nil, parser.SkipObjectResolution)
			if err != nil {
				return m, fmt.Errorf("parse %s: %w", name, err)
			}
			at := place{directory, filepath.Base(name)}
			parsed[at] = file
			m.Files++
			m.Lines += positions.File(file.FileStart).LineCount()
			h.rooms[directory].declare(positions, at, file)
		}
	}
	for at, file := range parsed {
		for _, spec := range file.Imports {
			if directory := directoryOf(spec); h.rooms[directory] != nil {
				h.rooms[at.directory].uses[directory] = true
			}
		}
	}
	for at, file := range parsed {
		h.findUses(at, file)
	}
	m.Arrows, m.InCircles = h.countArrows()
	m.Circles = len(m.InCircles)
	for _, r := range h.rooms {
		m.Fragments = append(m.Fragments, r.fragments()...)
	}
	slices.SortFunc(m.Fragments, func(a, b fragment) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Name, b.Name))
	})
	return m, nil
}

func (r *room) fragments() (found []fragment) {
	for _, index := range []map[string][]*declaration{r.names, r.methods} {
		for name, declarations := range index {
			for _, d := range declarations {
				if d.private && d.lines <= fragmentLines && len(d.usedIn) == 1 && d.usedIn[0] != d.file {
					found = append(found, fragment{Name: name, File: d.file, UsedIn: d.usedIn[0], Lines: d.lines})
				}
			}
		}
	}
	return found
}

// declare notes what a file declares.
func (r *room) declare(positions *token.FileSet, at place, file *ast.File) {
	add := func(index map[string][]*declaration, identifier *ast.Ident, d declaration) {
		d.place = at
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

// findUses notes what a file uses of its package and of the others of the house. A method is looked for in the file's
// package, and in those which that package imports: a value of theirs may be a field that another file declares.
func (h *house) findUses(at place, file *ast.File) {
	imported := map[string]string{}
	for _, spec := range file.Imports {
		imported[importName(spec)] = directoryOf(spec)
	}
	own := h.rooms[at.directory]
	use := func(name string, declarations []*declaration) { h.use(at, name, declarations) }
	declared, fields := declaredIn(file), fieldsIn(file)
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.SelectorExpr:
			declared[node.Sel] = true // a field's or a method's name, which is met after what it belongs to
			if fields[node] || slices.Contains(ofStandardInterfaces, node.Sel.Name) {
				return true
			}
			of, _ := node.X.(*ast.Ident)
			if of != nil && imported[of.Name] != "" {
				if other := h.rooms[imported[of.Name]]; other != nil {
					use(node.Sel.Name, other.names[node.Sel.Name])
				}
				return true
			}
			use(node.Sel.Name, own.methods[node.Sel.Name])
			for directory := range own.uses {
				if node.Sel.IsExported() {
					use(node.Sel.Name, h.rooms[directory].methods[node.Sel.Name])
				}
			}
		case *ast.Ident:
			if !declared[node] {
				use(node.Name, own.names[node.Name])
			}
		}
		return true
	})
}

// use notes that a file uses a name, which may be that of several declarations.
func (h *house) use(at place, name string, declarations []*declaration) {
	for _, d := range declarations {
		if d.directory == at.directory {
			d.usedIn = append(d.usedIn, at.file)
		}
		if d.place == at {
			continue
		}
		if h.arrows[at] == nil {
			h.arrows[at] = map[place]map[string]bool{}
		}
		if h.arrows[at][d.place] == nil {
			h.arrows[at][d.place] = map[string]bool{}
		}
		h.arrows[at][d.place][name] = true
	}
}

// countArrows returns how many arrows there are, and describes those of them that lie in a circle.
func (h *house) countArrows() (arrows int, circles []string) {
	for from, tos := range h.arrows {
		arrows += len(tos)
		for to, names := range tos {
			if h.leads(to, from, map[place]bool{}) {
				circles = append(circles, fmt.Sprintf("%s/%s → %s/%s: %s", from.directory, from.file, to.directory,
					to.file, strings.Join(slices.Sorted(maps.Keys(names)), " ")))
			}
		}
	}
	slices.Sort(circles)
	return arrows, circles
}

func (h *house) leads(from, to place, seen map[place]bool) bool {
	if from == to {
		return true
	}
	seen[from] = true
	for next := range h.arrows[from] {
		if !seen[next] && h.leads(next, to, seen) {
			return true
		}
	}
	return false
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
			if field, ok := node.Key.(*ast.Ident); ok {
				declared[field] = true
			}
		}
		return true
	})
	return declared
}

// ofStandardInterfaces are methods that values of the standard library have, too: a call of one leads to no file. Who
// makes such a value uses its type or its constructor besides.
var ofStandardInterfaces = []string{"Close", "Error", "RoundTrip", "String", "Unwrap"}

// fieldsIn returns the selections of a file that are fields and no methods, because of what is done with them:
// something is selected of them, they are compared, negated, cut or assigned to.
func fieldsIn(file *ast.File) map[*ast.SelectorExpr]bool {
	fields := map[*ast.SelectorExpr]bool{}
	add := func(expressions ...ast.Expr) {
		for _, e := range expressions {
			if selection, ok := e.(*ast.SelectorExpr); ok {
				fields[selection] = true
			}
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.SelectorExpr:
			add(node.X)
		case *ast.IndexExpr:
			add(node.X)
		case *ast.SliceExpr:
			add(node.X)
		case *ast.BinaryExpr:
			add(node.X, node.Y)
		case *ast.UnaryExpr:
			add(node.X)
		case *ast.StarExpr:
			add(node.X)
		case *ast.IncDecStmt:
			add(node.X)
		case *ast.SwitchStmt:
			add(node.Tag)
		case *ast.AssignStmt:
			add(node.Lhs...)
		}
		return true
	})
	return fields
}

func importName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	return path.Base(strings.Trim(spec.Path.Value, `"`))
}

// directoryOf returns the directory of a package of ours, and the path of any other.
func directoryOf(spec *ast.ImportSpec) string {
	return strings.TrimPrefix(strings.Trim(spec.Path.Value, `"`), module)
}
