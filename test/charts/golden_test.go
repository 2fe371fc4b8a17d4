package charts

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the renders of testdata/*.yaml to testdata/*.golden")

// Whole renders show every change: testdata/<chart>-<case>.yaml has values, .golden their render.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no values in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			rendered := chartFor(file)
			values, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, stderr, err := rendered.template(t, string(values))
			if err != nil {
				t.Fatal(stderr)
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".golden"
			if *update {
				write(t, golden, got, 0o644)
				return
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			check(t, golden+" (if it should change: go test ./test/charts -run Golden -update)", got, string(want))
		})
	}
}

// chartFor returns the chart of a values file in testdata.
func chartFor(file string) chart {
	if strings.HasPrefix(filepath.Base(file), "scale-set-") {
		return scaleSet
	}
	return controller
}

// Argo CD and Flux compare renders: nothing in one may depend on chance or time.
func TestRendersAreEqual(t *testing.T) {
	t.Parallel()
	for file, c := range map[string]chart{"controller-all": controller, "scale-set-all": scaleSet} {
		values, err := os.ReadFile(filepath.Join("testdata", file+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		first, stderr, err := c.template(t, string(values))
		if err != nil {
			t.Fatal(stderr)
		}
		for range 5 {
			again, _, _ := c.template(t, string(values))
			check(t, file, again, first)
		}
	}
}

func TestLint(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		chart  chart
		values []string
	}{{controller, nil}, {controller, []string{"controller-all"}}, {scaleSet, []string{"scale-set-all"}},
		{scaleSet, []string{"scale-set-dind"}}} {
		arguments := []string{"lint", "--strict", test.chart.directory()}
		for _, name := range test.values {
			arguments = append(arguments, "--values", filepath.Join("testdata", name+".yaml"))
		}
		stdout, stderr, err := helm(t, arguments...)
		if err != nil || strings.Contains(stdout, "[WARNING]") || strings.Contains(stdout, "[ERROR]") {
			t.Errorf("helm lint %s: %v\n%s%s", test.chart.name, err, stdout, stderr)
		}
	}
}
