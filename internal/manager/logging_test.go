package manager_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/internal/manager"
)

func TestLogKeys(t *testing.T) {
	var output bytes.Buffer
	log := manager.NewLogger(manager.Options{LogLevel: "info", LogFormat: "json"}, &output)
	log.WithName("part").Error(errors.New("broken"), "It failed", "set", "a/b")
	log.V(1).Info("not at this level")
	var line map[string]any
	if err := json.Unmarshal(output.Bytes(), &line); err != nil {
		t.Fatalf("%v: %s", err, output.String())
	}
	for key, want := range map[string]string{
		"severity": "error",
		"message":  "It failed",
		"logger":   "part",
		"set":      "a/b",
		"error":    "broken",
	} {
		if line[key] != want {
			t.Errorf("%s is %v, want %s", key, line[key], want)
		}
	}
}

func TestLogLevels(t *testing.T) {
	for level, visible := range map[string]int{"error": -1, "info": 0, "debug": 1, "-3": 3} {
		var output bytes.Buffer
		log := manager.NewLogger(manager.Options{LogLevel: level, LogFormat: "text"}, &output)
		for verbosity := range 5 {
			log.V(verbosity).Info("line")
		}
		if lines := strings.Count(output.String(), "\n"); lines != visible+1 {
			t.Errorf("level %s shows %d verbosities, want %d:\n%s", level, lines, visible+1, output.String())
		}
	}
}
