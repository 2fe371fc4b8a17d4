package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const source = `package p

func bigger(a, b int, sure bool) bool {
	if sure {
		return a > b && !(a == b)
	}
	return false
}
`

func TestMutantsOf(t *testing.T) {
	found, err := mutantsOf("p.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	got := make([]string, 0, len(found))
	for _, m := range found {
		got = append(got, strings.Split(strings.TrimPrefix(m.String(), "p.go:"), ": ")[1])
		if m.apply([]byte(source)) == source {
			t.Errorf("%s changes nothing", m)
		}
	}
	want := []string{"sure → !sure", "&& → ||", "> → >=", "! → ", "== → !=", "false → true"}
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("mutants are %q, want %q", got, want)
	}
}

// A room is tested through its controller, a file with its package, and a package that stands alone by itself.
func TestTestsFor(t *testing.T) {
	t.Chdir("../..")
	for target, want := range map[string][]string{
		"internal/controller/ephemeralrunner/rules/": {
			"./internal/controller/ephemeralrunner/rules", "./internal/controller/ephemeralrunner/...",
		},
		"internal/pool/pool.go": {"./internal/pool"},
		"internal/pool":         {"./internal/pool"},
	} {
		if got := testsFor(target); !slices.Equal(got, want) {
			t.Errorf("the tests for %s are %s, want %s", target, got, want)
		}
	}
}

// The test of this module notices one of two changes, and its files stay as they are.
func TestTryTellsWhatTheTestsNotice(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, content := range map[string]string{
		"go.mod":      "module example.com/m\n\ngo 1.26.0\n",
		"p/p.go":      "package p\n\nfunc less(a, b int) bool { return a < b }\n\nfunc same(a, b int) bool { return a == b }\n",
		"p/p_test.go": "package p\n\nimport \"testing\"\n\nfunc TestLess(t *testing.T) {\n\tif less(1, 1) || !less(1, 2) {\n\t\tt.Fail()\n\t}\n\t_ = same\n}\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.ReadFile("p/p.go")
	if err != nil {
		t.Fatal(err)
	}
	mutants, err := mutantsIn("p")
	if err != nil || len(mutants) != 2 {
		t.Fatalf("mutants %v, %v; want two", mutants, err)
	}
	for i, want := range []outcome{killed, survived} {
		if got, err := try(t.Context(), mutants[i], []string{"./..."}, time.Minute); err != nil || got != want {
			t.Errorf("%s: %d, want %d; %v", mutants[i], got, want, err)
		}
	}
	broken := mutants[0]
	broken.text = "&&"
	if got, err := try(t.Context(), broken, []string{"./..."}, time.Minute); err != nil || got != invalid {
		t.Errorf("a change that doesn't compile: %d; %v", got, err)
	}
	if after, err := os.ReadFile("p/p.go"); err != nil || string(after) != string(before) {
		t.Errorf("the file has changed; %v", err)
	}
}
