package main

import (
	"os"
	"path/filepath"
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
	got, err := measureAll([]string{root})
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

func TestLimits(t *testing.T) {
	p := measured{Files: 3, Arrows: 6, Fragments: make([]fragment, 2)}
	for name, test := range map[string]struct {
		most     limits
		exceeded int
	}{
		"within":            {limits{files: 3, arrows: 2, fragments: 2}, 0},
		"too many files":    {limits{files: 2, arrows: 2, fragments: 2}, 1},
		"too many arrows":   {limits{files: 3, arrows: 1.9, fragments: 2}, 1},
		"too many of all":   {limits{}, 3},
		"rounded exception": {limits{files: 3, arrows: 1.96, fragments: 2}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := p.beyond(test.most); len(got) != test.exceeded {
				t.Errorf("exceeded %q, want %d", got, test.exceeded)
			}
		})
	}
}
