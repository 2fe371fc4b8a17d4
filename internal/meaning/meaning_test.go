package meaning_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

const root = "../.."

// filesOf calls visit with each product file below the directories.
func filesOf(t *testing.T, visit func(path string, file *ast.File), directories ...string) {
	t.Helper()
	for _, directory := range directories {
		err := filepath.WalkDir(filepath.Join(root, directory), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err == nil {
				visit(filepath.ToSlash(path), file)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// constants returns the values of the API's constants whose names begin so, by name.
func constants(t *testing.T, prefix string) map[string]string {
	t.Helper()
	found := map[string]string{}
	filesOf(t, func(_ string, file *ast.File) {
		ast.Inspect(file, func(node ast.Node) bool {
			spec, is := node.(*ast.ValueSpec)
			if !is || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, prefix) {
				return true
			}
			if literal, is := spec.Values[0].(*ast.BasicLit); is {
				found[spec.Names[0].Name], _ = strconv.Unquote(literal.Value)
			}
			return true
		})
	}, "apis")
	if len(found) < 4 {
		t.Fatalf("only %d constants are called %s…", len(found), prefix)
	}
	return found
}

func TestEveryReasonAndLossOfTheAPIHasARow(t *testing.T) {
	for name, reason := range constants(t, "Reason") {
		if !meaning.Known(reason) {
			t.Errorf("%s has no row", name)
		}
	}
	for name, cause := range constants(t, "LostCause") {
		if loss := meaning.OfLoss(v1alpha1.LostCause(cause)); loss.Meaning == "" || loss.Advice == "" ||
			loss.Author == "" || loss.Commit == "" {
			t.Errorf("%s has no row", name)
		}
	}
}

// TestEveryRowIsRaised looks for each word in the product, apart from this room and the API: a constant of the API, or
// the word itself, that is more than compared. What kubelets, schedulers and container runtimes say is theirs to raise.
func TestEveryRowIsRaised(t *testing.T) {
	names := constants(t, "Reason")
	ours := slices.Collect(maps.Values(names))
	maps.Copy(names, constants(t, "LostCause")) // runners and listeners have these as reasons, too
	maps.Copy(names, constants(t, "ListenerState"))
	raised := map[string]bool{}
	filesOf(t, func(path string, file *ast.File) {
		if !strings.Contains(path, "/internal/meaning/") {
			note(raised, file, names)
		}
	}, "internal", "github", "operations")
	for _, row := range meaning.All() {
		if !raised[row.Reason] && (!row.OfPods || slices.Contains(ours, row.Reason)) {
			t.Errorf("nothing raises %s", row.Reason)
		}
	}
}

// note adds the words of a file that are more than compared. names has those of constants.
func note(raised map[string]bool, file *ast.File, names map[string]string) {
	compared := map[ast.Expr]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.BinaryExpr:
			if node.Op == token.EQL || node.Op == token.NEQ {
				compared[node.X], compared[node.Y] = true, true
			}
		case *ast.CaseClause:
			for _, expression := range node.List {
				compared[expression] = true
			}
		case *ast.SelectorExpr:
			if word := names[node.Sel.Name]; !compared[node] {
				raised[word] = true
			}
		case *ast.BasicLit:
			if word, _ := strconv.Unquote(node.Value); !compared[node] {
				raised[word] = true
			}
		}
		return true
	})
}

var form = regexp.MustCompile(`^[A-Z][A-Za-z]+(-storage)?$`)

func TestRowsAreWhole(t *testing.T) {
	for _, row := range meaning.All() {
		switch {
		case !form.MatchString(row.Reason):
			t.Errorf("%q is no reason", row.Reason)
		case strings.HasSuffix(row.Advice, ".") || len(row.Advice) > 450:
			t.Errorf("%s: the advice ends with a period, or is long: %q", row.Reason, row.Advice)
		case row.Unsaid && row.Advice == "":
			t.Errorf("%s: there is no advice to be said", row.Reason)
		case utf8.RuneCountInString(row.Few) > 24 || strings.HasSuffix(row.Author, "."):
			t.Errorf("%s: %q, %q", row.Reason, row.Few, row.Author)
		case podstatus.Refused(row.Reason) != strings.Contains(row.Advice, "refuses what the scheduler sends"):
			t.Errorf("%s: the advice is not that about a node that refuses pods: %q", row.Reason, row.Advice)
		}
	}
}

func TestWordsWithoutARow(t *testing.T) {
	if row := meaning.For("OutOfexample.com/gpu"); row.Actor != meaning.Administrator || row.Advice == "" ||
		meaning.Known(row.Reason) {
		t.Errorf("a resource that anybody may name: %+v", row)
	}
	if row := meaning.For("Forged"); row.Advice != "" || row.NeedsHand() || row.InFewWords() != "forged" {
		t.Errorf("a word that nobody knows: %+v", row)
	}
}

func TestWhoHasToAct(t *testing.T) {
	for reason, want := range map[string]meaning.Actor{
		"Unauthorized": meaning.User, "RunnerGroupNotFound": meaning.User, "ClockSkewed": meaning.Administrator,
		"IPAddressNotAllowed": meaning.GitHub, "QuotaExceeded": meaning.Administrator, "InvalidPod": meaning.User,
		"TooManyFailedLogins": meaning.Nobody, "RateLimited": meaning.Nobody, "GitHubUnavailable": meaning.Nobody,
		"SessionConflict": meaning.Nobody, "Pending": meaning.Nobody, "": meaning.Nobody, "Forged": meaning.User,
	} {
		if got := meaning.For(reason).Actor; got != want {
			t.Errorf("%s: %s, want %s", reason, got, want)
		}
	}
}

// A scale set is stalled by what needs a hand, and by nothing that the manager tries again.
func TestWhatNeedsAHand(t *testing.T) {
	for reason, want := range map[string]bool{
		"Unauthorized": true, "ScaleSetInUse": true, "GitHubUnavailable": false, "ReconcileFailed": false,
		"ListenerNameTaken": false, "PodTerminating": false, "Registering": false, "CheckingCredentials": false,
	} {
		if got := meaning.For(reason).NeedsHand(); got != want {
			t.Errorf("%s needs a hand: %t, want %t", reason, got, want)
		}
	}
}

// The phases are those that a runner's status has after a job was queued, but for the job's end; before them is the limit
// of the scale set.
func TestEveryPhaseHasARow(t *testing.T) {
	want := []string{"limited"}
	for field := range reflect.TypeFor[v1alpha1.RunnerPhases]().Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "queued" && name != "finished" {
			want = append(want, name)
		}
	}
	for i, name := range want {
		number, phase := meaning.OfPhase(name)
		if number != i+1 || phase.Few == "" || phase.Reached == "" || phase.Whose == "" || phase.Advice == "" {
			t.Errorf("%s: number %d, %+v", name, number, phase)
		}
	}
	if len(want) != len(meaning.Phases()) {
		t.Errorf("a job waits for %d phases, %d have a row", len(want), len(meaning.Phases()))
	}
}

// Whoever lost a job is told whether it runs again, and why not.
func TestEveryReasonNotToRunAgainHasARow(t *testing.T) {
	said := map[string]bool{meaning.OfRerun(v1alpha1.RerunGivenUp, "").Sentence: true}
	for _, reason := range v1alpha1.RerunReasons {
		given := meaning.OfRerun(v1alpha1.RerunGivenUp, reason)
		if said[given.Sentence] || given.Few != "not run again" || (given.Actor == meaning.Nobody) != (given.Advice == "") {
			t.Errorf("%s: %+v", reason, given)
		}
		said[given.Sentence] = true
	}
	for _, state := range []v1alpha1.RerunState{"", v1alpha1.RerunWanted, v1alpha1.RerunDone, v1alpha1.RerunGivenUp} {
		if again := meaning.OfRerun(state, "Forged"); again.Sentence == "" || (again.Few == "") != (state == "") {
			t.Errorf("%q: %+v", state, again)
		}
	}
}
