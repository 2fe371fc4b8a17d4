package artefacts

import (
	"fmt"
	"strings"
)

// History has what git says of a release.
type History struct {
	// Former is the tag of the release before this one; "" if this is the first.
	Former string
	// Commits are the first lines of the messages since then. Upgrade has the lines that have been added to
	// docs/changelog.md meanwhile.
	Commits, Upgrade []string
}

// Notes returns the notes of a release in Markdown: how to install it, what users may notice, and what has changed.
// image is its name without a tag, digest that of the index of both architectures.
func Notes(product Product, image, digest string, history History) []byte {
	var text strings.Builder
	fmt.Fprintf(&text, "# Harrier %s\n\nFrom commit %s. Image: `%s:%s@%s`\n\n", product.Version, product.Commit, image,
		product.Version, digest)
	registry := "oci://" + image[:strings.LastIndex(image, "/")] + "/charts"
	fmt.Fprintf(&text, "```sh\nhelm upgrade --install harrier %[1]s/gha-runner-scale-set-controller --version %[2]s "+
		"--namespace harrier-system --create-namespace\n"+
		"helm upgrade --install my-runners %[1]s/gha-runner-scale-set --version %[2]s --namespace my-runners "+
		"--reset-then-reuse-values\n```\n\n"+
		"The second command keeps the values of a scale set that is there; a new one needs `--set "+
		"githubConfigUrl=…` and `--set githubConfigSecret=…`. "+
		"[Verify what you install](https://%[3]s/blob/v%[2]s/docs/verify.md): everything is signed.\n", registry,
		product.Version, product.Name)
	if history.Former == "" {
		fmt.Fprintf(&text, "\nThis is the first release.\n")
		return []byte(text.String())
	}
	if len(history.Upgrade) > 0 {
		fmt.Fprintf(&text, "\n## What you may notice\n\nNew in docs/changelog.md since %s:\n\n%s\n", history.Former,
			strings.Join(history.Upgrade, "\n"))
	}
	fmt.Fprintf(&text, "\n## Changes since %s\n\n", history.Former)
	for _, commit := range history.Commits {
		fmt.Fprintf(&text, "- %s\n", commit)
	}
	return []byte(text.String())
}
