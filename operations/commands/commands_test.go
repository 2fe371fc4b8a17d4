package commands

import (
	"bytes"
	"testing"
)

func TestCommandLines(t *testing.T) {
	for name, test := range map[string]struct {
		arguments []string
		want      int
	}{
		"unknown format":  {[]string{"doctor", "-o", "xml"}, ExitUnable},
		"two names":       {[]string{"doctor", "a", "b"}, ExitUnable},
		"unknown flag":    {[]string{"doctor", "--all"}, ExitUnable},
		"help":            {[]string{"doctor", "-h"}, ExitFine},
		"no kubeconfig":   {[]string{"doctor", "-kubeconfig", "testdata/absent.yaml"}, ExitUnable},
		"no file":         {[]string{"validate"}, ExitUnable},
		"missing file":    {[]string{"validate", "-f", "testdata/absent.yaml"}, ExitUnable},
		"good values":     {[]string{"validate", "-f", "testdata/good/values.yaml"}, ExitFine},
		"only others":     {[]string{"validate", "--allowed-github-url", "https://ghes.example", "-f", "testdata/good/values.yaml"}, ExitProblems},
		"allowed":         {[]string{"validate", "--allowed-github-url=https://github.com", "-f", "testdata/good/values.yaml"}, ExitFine},
		"no address":      {[]string{"validate", "--allowed-github-url=github.com", "-f", "testdata/good/values.yaml"}, ExitUnable},
		"wrong manifests": {[]string{"validate", "-f", "testdata/wrong.yaml"}, ExitProblems},
		"usage":           {[]string{"--help"}, ExitFine},
		"no command":      {nil, ExitUnable},
		"not a command":   {[]string{"--metrics-addr=0"}, ExitUnable},
	} {
		stderr := &bytes.Buffer{}
		if got := Main(t.Context(), test.arguments, &bytes.Buffer{}, stderr); got != test.want {
			t.Errorf("%s: exit code %d, want %d: %s", name, got, test.want, stderr)
		}
	}
}
