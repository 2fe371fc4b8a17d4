package artefacts

import (
	"fmt"
	"strings"
)

// Platform is one that a plugin of kubectl is packed for.
type Platform struct {
	// System and Architecture are by Go's names, which krew uses, too.
	System, Architecture string
	// Archive is the name of its archive, and Program that of the program in it.
	Archive, Program string
}

const krewHead = `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: harrier
spec:
  version: v%s
  homepage: https://%s
  shortDescription: Scale sets of GitHub Actions runners
  description: |
    Shows scale sets of self-hosted runners of GitHub Actions, live, with what
    limits each of them (top); tells what became of a job, and why it waits or
    was lost (why); has a scale set take no more jobs, and take jobs again
    (drain, resume); explains why jobs wait (doctor); and checks values before
    they are applied (validate). It uses your kubeconfig and your permissions.
  platforms:
`

// Krew returns the manifest by which krew installs a plugin. downloads is the address below which the archives are;
// files are their contents by name.
func Krew(product Product, downloads string, platforms []Platform, files map[string][]byte) []byte {
	var text strings.Builder
	fmt.Fprintf(&text, krewHead, product.Version, product.Name)
	for _, platform := range platforms {
		fmt.Fprintf(&text, "    - selector:\n        matchLabels:\n          os: %s\n          arch: %s\n      "+
			"uri: %s\n      sha256: %s\n      bin: %s\n      files:\n",
			platform.System, platform.Architecture, downloads+platform.Archive, sum(files[platform.Archive]),
			platform.Program)
		for _, name := range []string{platform.Program, "LICENSE"} {
			fmt.Fprintf(&text, "        - from: %s\n          to: .\n", name)
		}
	}
	return []byte(text.String())
}
