package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The package has two files. a.go uses a function, a method and a type of b.go, which uses nothing of a.go's: a field
// and a parameter that have the name of a function are no uses.
func TestMeasure(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"a.go": `package room

import "fmt"

func enter(d door) {
	d.open()
	d.open()
	if short() {
		fmt.Println(long(), Public())
	}
}
`,
		"b.go": `package room

type door struct{ enter int }

func (d door) open() {}

func short() bool { return true }

func Public() int { return 1 }

func long() (n int) {
	n++
	n++
	n++
	n++
	n++
	n++
	n++
	n++
	return n
}

var _ = func(enter int) door { return door{enter: 1} }
`,
		"b_test.go":         "package room\n\nvar _ = enter\n",
		"zz_generated_x.go": "package room\n\nvar _ = enter\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filesBelow(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := measurePackages(files)
	if err != nil {
		t.Fatal(err)
	}
	want := []measured{{
		Directory: filepath.ToSlash(root), Files: 2, Lines: 34, Arrows: 1,
		Fragments: []fragment{{Name: "short", File: "b.go", UsedIn: "a.go", Lines: 1}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("measured (-want +got):\n%s", diff)
	}
}

// The hall has two files that use each other, and a room below it with two that don't. One file of the hall names a
// type of the room, the other calls a method of it without importing the room. A package elsewhere is not measured.
func TestMeasureWithRooms(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"hall/a.go": `package hall

import (
	"github.com/harrier-ci/harrier/elsewhere"
	"github.com/harrier-ci/harrier/hall/room"
)

type memory struct {
	door room.Door
	left, right int
	elsewhere.Place
}

func enter(m memory) { leave(m) }
`,
		"hall/b.go": `package hall

func leave(m memory) { m.door.Shut() }
`,
		"hall/room/door.go": `package room

type Door struct{}
`,
		"hall/room/shut.go": `package room

func (d Door) Shut() {}
`,
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filesBelow("hall")
	if err != nil {
		t.Fatal(err)
	}
	got, err := measure("hall", files)
	if err != nil {
		t.Fatal(err)
	}
	// a → b and b → a, a circle; a → door, b → shut, shut → door.
	if got.Files != 4 || got.Arrows != 5 || got.Circles != 2 {
		t.Errorf("measured %d files with %d arrows, %d in circles; want 4, 5, 2", got.Files, got.Arrows, got.Circles)
	}
	if count, err := fieldsOf(files["hall"], "memory"); count != 4 || err != nil {
		t.Errorf("memory has %d fields, %v; want 4", count, err)
	}
}

func TestCodeLines(t *testing.T) {
	text := "// Package a is empty.\npackage a\n\n/* two\nlines */\nvar text = `one\n\ntwo` // comment\n" +
		"\tvar long = \"" + strings.Repeat("x", 2*lineWidth) + "\"\n"
	if got, want := codeLines([]byte(text)), 6; got != want { // package, two of text, three of long
		t.Errorf("counted %d lines, want %d", got, want)
	}
}

func TestLimits(t *testing.T) {
	p := measured{Files: 3, Arrows: 6, Fragments: make([]fragment, 2)}
	for name, test := range map[string]struct {
		most     limits
		exceeded int
	}{
		"within":            {limits{arrows: 2, fragments: 2}, 0},
		"too many arrows":   {limits{arrows: 1.9, fragments: 2}, 1},
		"too many of all":   {limits{}, 2},
		"rounded exception": {limits{arrows: 1.96, fragments: 2}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := p.beyond(test.most); len(got) != test.exceeded {
				t.Errorf("exceeded %q, want %d", got, test.exceeded)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	found := warnings(
		[]measured{{Directory: "small", Files: 10}, {Directory: "large", Files: 11}},
		[]measured{
			{Directory: "loose", Files: 10, Arrows: 40, Circles: 25}, {Directory: "knotted", Files: 1, Circles: 26},
		},
		map[string]int{"short.go": 400, "long.go": 401})
	for i, name := range []string{"large", "long.go", "knotted"} {
		if len(found) != 3 || !strings.HasPrefix(found[i], name+" ") {
			t.Fatalf("warned of %q; want one warning each of large, long.go and knotted", found)
		}
	}
}
