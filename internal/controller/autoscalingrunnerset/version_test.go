package autoscalingrunnerset

import "testing"

func TestVersionSupported(t *testing.T) {
	for _, test := range []struct {
		chart, manager string
		want           bool
	}{
		{"1.2.3", "1.2.3", true},
		{"1.2.0", "1.2.9", true},
		{"v1.2.0", "1.2.9", true},
		{"1.2", "1.2.9", true},
		{"1.3.0", "1.2.9", false},
		{"2.2.0", "1.2.0", false},
		{"", "1.2.0", false},
		{"01.2.0", "1.2.0", false},
		{"1.2.0-rc1", "1.2.0", false},
		{"main", "main", true},
		{"0.14.2", "dev", true},
		{"", "canary-abc", true},
	} {
		if got := versionSupported(test.chart, test.manager); got != test.want {
			t.Errorf("versionSupported(%q, %q) = %t, want %t", test.chart, test.manager, got, test.want)
		}
	}
}
