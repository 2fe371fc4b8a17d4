package docs

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/operations/finding"
	"github.com/harrier-ci/harrier/operations/validation"
)

// GitHub, Kubernetes or one of the charts takes all YAML of the documentation.
func TestYAML(t *testing.T) {
	reader := newReader(t)
	count := 0
	for _, p := range pages(t) {
		if strings.HasPrefix(p.text, generated) {
			continue
		}
		for _, b := range p.blocks() {
			if b.language != "yaml" {
				continue
			}
			for document := range strings.SplitSeq(b.text, "\n---\n") {
				count++
				if err := reader.checkYAML(document); err != nil {
					t.Errorf("%s:%d: %v", b.page, b.line, err)
				}
			}
		}
	}
	if count < 15 {
		t.Errorf("%d documents of YAML, want those of the guides", count)
	}
}

func (r *reader) checkYAML(text string) error {
	var fields map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &fields); err != nil {
		return err
	}
	switch {
	case fields["kind"] != nil:
		return checkObject(text)
	case fields["jobs"] != nil:
		return checkWorkflow(text)
	case fields["scrape_configs"] != nil:
		return nil // test/scrape has Prometheus use it
	}
	return r.checkValues(text, fields)
}

// checkObject decodes an object as the API server does: it refuses fields that the kind doesn't have.
func checkObject(text string) error {
	decoder := serializer.NewCodecFactory(kinds.Scheme(), serializer.EnableStrict).UniversalDeserializer()
	if _, _, err := decoder.Decode([]byte(text), nil, nil); err != nil {
		return err
	}
	return validated(text)
}

// checkWorkflow fails if a job has no runs-on.
func checkWorkflow(text string) error {
	var workflow struct {
		Jobs map[string]struct {
			RunsOn any `json:"runs-on"`
		} `json:"jobs"`
	}
	if err := yaml.Unmarshal([]byte(text), &workflow); err != nil {
		return err
	}
	for name, job := range workflow.Jobs {
		if job.RunsOn == nil {
			return fmt.Errorf("job %s has no runs-on", name)
		}
	}
	return nil
}

// checkValues renders the chart that has all the keys. Its schema refuses unknown keys below them.
func (r *reader) checkValues(text string, fields map[string]any) error {
	file := filepath.Join(r.directory, "example.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	for chart, needed := range map[string]string{"gha-runner-scale-set": setValues,
		"gha-runner-scale-set-controller": ""} {
		if has, err := hasAll(chart, fields); err != nil || !has {
			if err != nil {
				return err
			}
			continue
		}
		base := filepath.Join(r.directory, "needed.yaml")
		if err := os.WriteFile(base, []byte(needed), 0o600); err != nil {
			return err
		}
		if err := r.run("helm", "template", "example", filepath.Join("charts", chart), "--values", base, "--values",
			file); err != nil {
			return err
		}
		if fields["githubConfigUrl"] != nil {
			return validated(text)
		}
		return nil
	}
	return fmt.Errorf("no chart has all the values of\n%s", text)
}

// hasAll reports whether the schema of the chart's values has all the keys.
func hasAll(chart string, fields map[string]any) (bool, error) {
	content, err := os.ReadFile(filepath.Join(root, "charts", chart, "values.schema.json"))
	if err != nil {
		return false, err
	}
	var schema struct {
		Properties map[string]any `json:"properties"`
	}
	if err := json.Unmarshal(content, &schema); err != nil {
		return false, err
	}
	for key := range fields {
		if schema.Properties[key] == nil {
			return false, nil
		}
	}
	return true, nil
}

// validated returns the error of `manager validate`.
func validated(text string) error {
	findings, err := validation.Validate([]byte(text), nil, "")
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(findings, func(f finding.Finding) bool { return f.Severity == finding.Problem }); i >= 0 {
		return fmt.Errorf("manager validate: %s: %s", findings[i].Reason, findings[i].Message)
	}
	return nil
}
