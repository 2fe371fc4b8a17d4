package manager

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/internal/listenertemplate"
)

// These tests are inside of the package: the other door is a listener's pod, and a manager for each row.

func TestListenerLogging(t *testing.T) {
	for _, test := range []struct{ level, format, wantLevel, wantFormat string }{
		{"info", "json", "info", "json"},
		{"error", "text", "error", "text"},
		{"-2", "json", "debug", "text"},
	} {
		level, format := Options{LogLevel: test.level, LogFormat: test.format}.listenerLogging()
		if level != test.wantLevel || format != test.wantFormat {
			t.Errorf("%s %s leads to %s %s", test.level, test.format, level, format)
		}
	}
}

func TestListenerPolicy(t *testing.T) {
	for text, want := range map[string]listenertemplate.Policy{
		"restricted":   {},
		"unrestricted": {Unrestricted: true},
	} {
		want.SidecarImages, want.Program = []string{"a"}, "/listener"
		want.MetadataKeys, want.PriorityClasses = []string{"b"}, []string{"c"}
		options := Options{
			ListenerTemplatePolicy: text, ListenerEntrypoint: "/listener",
			ListenerSidecarImages: []string{"a"}, ListenerMetadataKeys: []string{"b"},
			ListenerPriorityClasses: []string{"c"},
		}
		if diff := cmp.Diff(want, options.listenerPolicy()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}
