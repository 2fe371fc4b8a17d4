// Command mutation tests tests: it changes code in small ways, one at a time, and names the changes that no test
// notices. `make mutation` runs it for the packages whose decisions cost runners and jobs. It is not part of the gate:
// each change takes a run of the tests.
//
//	go run ./hack/mutation internal/controller/ephemeralrunner/rules
//	go run ./hack/mutation -tests ./internal/controller/ephemeralrunnerset/scaling internal/controller/ephemeralrunnerset/scaling/slots.go
//
// A package's own tests are asked first. A room is tested through its controller, too: what its own tests don't notice,
// those of the parent directory and of everything below it are asked about. Files stay as they are: Go takes the
// changed one as an overlay. A change that doesn't compile is not counted.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// outcome is the result of a mutant's tests.
type outcome int

const (
	survived outcome = iota
	killed
	invalid
)

func main() {
	tests := flag.String("tests", "",
		"packages whose tests have to notice (default: its own, then those below the parent directory)")
	limit := flag.Duration("timeout", 3*time.Minute,
		"time for the tests; a change that makes them take longer is noticed")
	workers := flag.Int("workers", 2, "changes that are tested at a time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for _, target := range flag.Args() {
		turns := []string{*tests}
		if *tests == "" {
			turns = testsFor(target)
		}
		if err := mutate(ctx, target, turns, *limit, *workers); err != nil {
			fmt.Fprintln(os.Stderr, "mutation:", err)
			os.Exit(1)
		}
	}
}

// testsFor returns the packages that test a package or a file, those that answer sooner first.
func testsFor(target string) []string {
	own := filepath.Clean(target)
	if strings.HasSuffix(own, ".go") {
		own = filepath.Dir(own)
	}
	turns := []string{"./" + filepath.ToSlash(own)}
	parent := filepath.Dir(own)
	if code, _ := filepath.Glob(filepath.Join(parent, "*.go")); len(code) > 0 {
		turns = append(turns, "./"+filepath.ToSlash(parent)+"/...")
	}
	return turns
}

// mutate tests all mutants of a package or a file and prints those that survive, and the score.
func mutate(ctx context.Context, target string, turns []string, limit time.Duration, workers int) error {
	mutants, err := mutantsIn(target)
	if err != nil {
		return err
	}
	for _, tests := range turns {
		if output, err := test(ctx, "", tests, limit); err != nil {
			return fmt.Errorf("the tests fail without a change: %w\n%s", err, output)
		}
	}
	outcomes := make([]outcome, len(mutants))
	var group errgroup.Group
	group.SetLimit(workers)
	for i, m := range mutants {
		group.Go(func() error {
			var err error
			if outcomes[i], err = try(ctx, m, turns, limit); err != nil {
				return err
			}
			if outcomes[i] == survived {
				fmt.Println("nobody notices", m)
			}
			fmt.Fprintf(os.Stderr, "%d of %d in %s\n", i+1, len(mutants), target)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	count := map[outcome]int{}
	for _, each := range outcomes {
		count[each]++
	}
	fmt.Printf("%s: %d of %d changes noticed, %d did not compile\n", target, count[killed],
		count[killed]+count[survived],
		count[invalid])
	return nil
}

// mutantsIn returns the mutants of a file, or of all files of a directory that are neither tests nor generated.
func mutantsIn(target string) ([]mutant, error) {
	files := []string{target}
	if !strings.HasSuffix(target, ".go") {
		var err error
		if files, err = filepath.Glob(filepath.Join(target, "*.go")); err != nil {
			return nil, err
		}
	}
	var all []mutant
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(filepath.Base(file), "zz_generated") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		found, err := mutantsOf(file, source)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has nothing to change", target)
	}
	return all, nil
}

// try runs the tests with a mutant in place of its file.
func try(ctx context.Context, m mutant, turns []string, limit time.Duration) (outcome, error) {
	directory, err := os.MkdirTemp("", "mutation-*")
	if err != nil {
		return invalid, err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	source, err := os.ReadFile(m.file)
	if err != nil {
		return invalid, err
	}
	original, err := filepath.Abs(m.file)
	if err != nil {
		return invalid, err
	}
	changed, overlay := filepath.Join(directory, "changed.go"), filepath.Join(directory, "overlay.json")
	replacements, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	if err != nil {
		return invalid, err
	}
	if err := errors.Join(os.WriteFile(changed, []byte(m.apply(source)), 0o600),
		os.WriteFile(overlay, replacements, 0o600)); err != nil {
		return invalid, err
	}
	if exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "./"+filepath.Dir(m.file)).Run() != nil {
		return invalid, ctx.Err()
	}
	for _, tests := range turns {
		if _, err := test(ctx, overlay, tests, limit); err != nil {
			return killed, ctx.Err()
		}
	}
	return survived, nil
}

// test runs the tests until the first failure and returns their output.
func test(ctx context.Context, overlay, tests string, limit time.Duration) (string, error) {
	command := exec.CommandContext(ctx, "go", "test", "-overlay="+
		overlay, "-vet=off", "-failfast", "-timeout", limit.String(), tests)
	output, err := command.CombinedOutput()
	return string(output), err
}
