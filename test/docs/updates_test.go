package docs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/internal/runnerversion"
)

// customManager says where the bot for updates finds a version that no package manager's file has.
type customManager struct {
	Files    []string `json:"managerFilePatterns"`
	Matches  []string `json:"matchStrings"`
	DepName  string   `json:"depNameTemplate"`
	Template string   `json:"datasourceTemplate"`
}

// A pattern that no longer fits leaves a version as it is, without a word.
func TestTheBotFindsEveryVersion(t *testing.T) {
	var config struct {
		CustomManagers []customManager `json:"customManagers"`
	}
	if err := json.Unmarshal(read(t, filepath.Join(root, ".github", "renovate.json")), &config); err != nil {
		t.Fatal(err)
	}
	list := exec.CommandContext(t.Context(), "git", "ls-files")
	list.Dir = root
	tracked, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, manager := range config.CustomManagers {
		found := 0
		for name := range strings.Lines(string(tracked)) {
			name = strings.TrimSpace(name)
			content, err := os.ReadFile(filepath.Join(root, name))
			if !regexp.MustCompile(strings.Trim(manager.Files[0], "/")).MatchString(name) || err != nil {
				continue
			}
			found += len(goSyntax(manager.Matches[0]).FindAllSubmatch(content, -1))
		}
		if found == 0 || manager.Template == "" {
			t.Errorf("%s finds nothing in %s", manager.Matches[0], manager.Files[0])
		}
	}
	if len(config.CustomManagers) < 3 {
		t.Errorf("%d versions outside of go.mod", len(config.CustomManagers))
	}
}

// goSyntax has names of groups as Go writes them.
func goSyntax(pattern string) *regexp.Regexp {
	return regexp.MustCompile(strings.ReplaceAll(pattern, "(?<", "(?P<"))
}

// The bot's change is one number; what belongs to it is a release with its day.
func TestTheNewestRunnerIsInTheList(t *testing.T) {
	text := string(read(t, filepath.Join(root, "internal", "runnerversion", "releases.go")))
	if want := "// newest: " + runnerversion.Newest().Version.String() + "\n"; !strings.Contains(text, want) {
		t.Errorf("releases.go ends with another release than it names as the newest: want %q", want)
	}
}
