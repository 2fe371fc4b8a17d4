package artefacts

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// digests are by algorithm, in hexadecimal digits.
type digests map[string]string

// resource is something that a release is made of.
type resource struct {
	URI    string  `json:"uri"`
	Digest digests `json:"digest,omitempty"`
}

// provenance is SLSA's predicate of provenance, version 1. It has no time and no number of a build, because the same
// inputs make the same files whenever and wherever somebody builds them.
type provenance struct {
	BuildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]string `json:"externalParameters"`
		ResolvedDependencies []resource        `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

// Provenance says how a release was made: by `make release` from a commit, with a compiler. It names no file: cosign
// makes a signed statement of it for each artefact that it is true of.
func Provenance(product Product, compiler string) ([]byte, error) {
	var made provenance
	repository := "https://" + product.Name
	made.BuildDefinition.BuildType = repository + "/blob/v" + product.Version + "/Makefile#release"
	made.BuildDefinition.ExternalParameters = map[string]string{"target": "release", "VERSION": product.Version}
	made.BuildDefinition.ResolvedDependencies = []resource{
		{URI: "git+" + repository + "@refs/tags/v" + product.Version, Digest: digests{"gitCommit": product.Commit}},
		{URI: "pkg:generic/go@" + strings.TrimPrefix(compiler, "go")},
	}
	made.RunDetails.Builder.ID = repository + "/blob/v" + product.Version + "/hack/images"
	text, err := json.MarshalIndent(made, "", "  ")
	return append(text, '\n'), err
}

// Checksums returns a file for `sha256sum --check`.
func Checksums(files map[string][]byte) []byte {
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&lines, "%s  %s\n", sum(files[name]), name)
	}
	return []byte(lines.String())
}

func sum(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }
