package actions

import (
	"strings"
	"testing"
)

// Whatever GitHub answers to a registration, the caller gets a usable JIT config or an error that names the call.
func FuzzJITAnswer(f *testing.F) {
	f.Add(`{"runner":{"id":5,"name":"r","runnerScaleSetId":7},"encodedJITConfig":"eyJ"}`)
	f.Add(`{"runner":null,"encodedJITConfig":""}`)
	f.Add(`{"runner":{"id":-1},"encodedJITConfig":"e"}`)
	f.Add(`{"runner":{"id":1e99},"encodedJITConfig":7}`)
	f.Add("\xef\xbb\xbf" + `{"runner":{"id":5},"encodedJITConfig":"e"}`)
	f.Add(`{"runner":{"id":5},"encod`)
	f.Add(`[]`)
	f.Add(``)
	f.Fuzz(func(t *testing.T, body string) {
		s := newServer(t)
		s.on(jitCall, reply{body: body})
		config, err := s.client().GenerateJITConfig(t.Context(), 7, JITConfigRequest{Name: "r"})
		switch {
		case err == nil && (config.EncodedJITConfig == "" || config.Runner.ID <= 0):
			t.Errorf("%q passes as %+v", body, config)
		case err != nil && !strings.Contains(err.Error(), "generate jit config"):
			t.Errorf("%q: the error doesn't say what was asked: %v", body, err)
		}
	})
}
