package observability

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/test/prometheus"
)

// alertTests has, for each alert, times at which it fires and at which it doesn't.
const alertTests = "testdata/alerts_test.yaml"

// rules has the checked fields of the alerts.
type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

func TestAlertsAskForWhatThereIsAndLeadToARunbook(t *testing.T) {
	alertRules := rules{}
	if err := yaml.Unmarshal(read(t, alerts), &alertRules); err != nil {
		t.Fatal(err)
	}
	tests, runbook := string(read(t, alertTests)), string(read(t, docs+"/alerts.md"))
	names := known()
	for _, group := range alertRules.Groups {
		for _, rule := range group.Rules {
			checkQuery(t, names, rule.Expr)
			if !strings.Contains(runbook, "\n## "+rule.Alert+"\n") {
				t.Errorf("docs/alerts.md has no heading %s", rule.Alert)
			}
			if !strings.Contains(tests, `labels: '{alertname="`+rule.Alert+`"`) {
				t.Errorf("%s does not say when %s fires", alertTests, rule.Alert)
			}
			if got, want := rule.Annotations["runbook_url"], "RUNBOOK#"+strings.ToLower(rule.Alert); got != want {
				t.Errorf("%s leads to %s, want %s", rule.Alert, got, want)
			}
			if rule.Annotations["summary"] == "" || rule.Labels["severity"] == "" {
				t.Errorf("%s lacks a summary or a severity", rule.Alert)
			}
		}
	}
}

// promtool reads the rules and has each alert fire and not fire.
func TestPromtoolTakesTheRules(t *testing.T) {
	promtool := prometheus.Find(t, "promtool")
	// The tests name the file of rules beside them.
	directory := t.TempDir()
	for _, file := range []string{alerts, alertTests} {
		if err := os.WriteFile(filepath.Join(directory, filepath.Base(file)), read(t, file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, arguments := range [][]string{{"check", "rules", filepath.Base(alerts)},
		{"test", "rules", filepath.Base(alertTests)}} {
		command := exec.CommandContext(t.Context(), promtool, arguments...)
		command.Dir = directory
		if output, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(arguments, " "), err, output)
		}
	}
}
