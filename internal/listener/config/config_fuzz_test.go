package config

import (
	"strings"
	"testing"
)

// A file is either usable, also after it is written again, or refused with an error that has the reason.
func FuzzParse(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte(strings.Replace(sample, `"github_app_installation_id":0`, `"github_app_installation_id":"7"`, 1)))
	f.Add([]byte(strings.Replace(sample, `"max_runners":10`, `"max_runners":-10`, 1)))
	f.Add([]byte(strings.Replace(sample, `"metrics":null`, `"metrics":{"counters":{"x":{"labels":null}}}`, 1)))
	f.Add([]byte(`{"vault_type":"azure_key_vault"}`))
	f.Add([]byte("null"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, content []byte) {
		read, err := Parse(content)
		if err != nil {
			if !strings.Contains(err.Error(), "listener configuration") {
				t.Errorf("the error doesn't say what is wrong with what: %v", err)
			}
			return
		}
		if read.MaxRunners < read.MinRunners || read.MinRunners < 0 {
			t.Errorf("%d..%d runners pass", read.MinRunners, read.MaxRunners)
		}
		again, err := read.Encode()
		if err != nil {
			t.Fatalf("what was read can't be written: %v", err)
		}
		if _, err := Parse(again); err != nil {
			t.Errorf("what was written can't be read: %v", err)
		}
	})
}
