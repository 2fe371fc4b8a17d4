package actions

import (
	"strings"
	"testing"
	"time"
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

// A token without a readable expiry is used for a while; no token makes the client panic or wait forever.
func FuzzTokenExpiry(f *testing.F) {
	f.Add("")
	f.Add("a.b.c")
	f.Add("eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjE3NjcyMjU2MDB9.c2ln")
	f.Add("eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjFlMzAwfQ.c2ln")
	f.Add("eyJhbGciOiJIUzI1NiJ9.eyJleHAiOi0xfQ.c2ln")
	f.Add("eyJhbGciOiJIUzI1NiJ9.eyJleHAiOiJ4In0.c2ln")
	f.Add("eyJhbGciOiJub25lIn0.eyJleHAiOm51bGx9.")
	f.Fuzz(func(t *testing.T, token string) {
		if ends := expiry(token, nil, epoch); ends.IsZero() || ends.Sub(epoch) > 24*time.Hour {
			t.Errorf("%q ends at %s", token, ends)
		}
	})
}

// Tokens are refused or accepted, and never shown.
func FuzzCredentials(f *testing.F) {
	f.Add("ghp_abc", "", int64(0), "")
	f.Add("", "1", int64(2), "-----BEGIN RSA PRIVATE KEY-----\n-----END RSA PRIVATE KEY-----")
	f.Add("ghp_secret with space", "1", int64(-1), "none")
	f.Add("\x00", "", int64(0), "")
	f.Fuzz(func(t *testing.T, token, appID string, installation int64, key string) {
		credentials := Credentials{Token: token}
		if appID != "" || key != "" {
			credentials.App = &AppCredentials{ID: appID, InstallationID: installation, PrivateKey: key}
		}
		err := credentials.Validate()
		if err == nil {
			return
		}
		const short = 8 // what is shorter than this may well be part of a word
		for _, secret := range []string{token, key} {
			if len(secret) > short && strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows a secret: %v", err)
			}
		}
	})
}
