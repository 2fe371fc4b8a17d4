package docs

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
	"sigs.k8s.io/yaml"
)

// healthKey is the key of Argo CD's configuration for the health of scale sets.
const healthKey = "resource.customizations.health.actions.github.com_AutoscalingRunnerSet"

// The script in docs/gitops.md for Argo CD's health of scale sets agrees with kstatus, and reads any object.
func TestHealthForArgoCD(t *testing.T) {
	script := healthScript(t)
	ready, stalled := `{"type":"Ready","status":"True"}`, `{"type":"Stalled","status":"True","message":"why"}`
	unready := `{"type":"Ready","status":"False","message":"how far"}`
	status := func(conditions ...string) string {
		return `{"metadata":{"generation":2},"status":{"observedGeneration":2,"conditions":[` +
			strings.Join(conditions, ",") + `]}}`
	}
	for name, test := range map[string]struct{ object, status, message string }{
		"without status":         {`{"metadata":{"generation":1}}`, "Progressing", ""},
		"without conditions":     {`{"metadata":{"generation":1},"status":{"observedGeneration":1}}`, "Progressing", ""},
		"of a former generation": {strings.Replace(status(ready), `:2}`, `:3}`, 1), "Progressing", ""},
		"on its way":             {status(unready), "Progressing", "how far"},
		"ready":                  {status(`{"type":"Stalled","status":"False"}`, ready), "Healthy", ""},
		"stalled":                {status(unready, stalled), "Degraded", "why"},
		"stalled, told first":    {status(stalled, unready), "Degraded", "why"},
	} {
		if status, message := health(t, script, test.object); status != test.status || message != test.message {
			t.Errorf("%s: %s %q, want %s %q", name, status, message, test.status, test.message)
		}
	}
}

// healthScript returns the script in the page about GitOps tools.
func healthScript(t *testing.T) string {
	t.Helper()
	path := filepath.Join(root, "docs", "gitops.md")
	for _, b := range (page{path: path, text: string(read(t, path))}).blocks() {
		var object struct {
			Data map[string]string `json:"data"`
		}
		if b.language == "yaml" && yaml.Unmarshal([]byte(b.text), &object) == nil && object.Data[healthKey] != "" {
			return object.Data[healthKey]
		}
	}
	t.Fatalf("%s has no %s", path, healthKey)
	return ""
}

// health runs the script as Argo CD does, which gives it the object as the variable obj.
func health(t *testing.T, script, object string) (status, message string) {
	t.Helper()
	var content any
	if err := json.Unmarshal([]byte(object), &content); err != nil {
		t.Fatal(err)
	}
	state := lua.NewState()
	defer state.Close()
	state.SetGlobal("obj", luaValue(state, content))
	if err := state.DoString(script); err != nil {
		t.Fatal(err)
	}
	result, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("the script returns %s", state.Get(-1))
	}
	if text, ok := result.RawGetString("message").(lua.LString); ok {
		message = string(text)
	}
	return result.RawGetString("status").String(), message
}

func luaValue(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, field := range value {
			table.RawSetString(key, luaValue(state, field))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, item := range value {
			table.Append(luaValue(state, item))
		}
		return table
	case string:
		return lua.LString(value)
	case float64:
		return lua.LNumber(value)
	default:
		return lua.LNil
	}
}
