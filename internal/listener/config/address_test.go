package config

import (
	"testing"
)

func TestWhereMetricsAreServed(t *testing.T) {
	for name, test := range map[string]struct{ configured, override, want string }{
		"as configured":   {":8080", "", ":8080"},
		"switched off":    {"", "127.0.0.1:9", ""},
		"switched off, 0": {"0", "", ""},
		"overridden":      {":8080", "127.0.0.1:9", "127.0.0.1:9"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (&Config{MetricsAddr: test.configured}).MetricsAddress(test.override); got != test.want {
				t.Errorf("address = %q, want %q", got, test.want)
			}
		})
	}
}
