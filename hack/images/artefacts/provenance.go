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

// resource is something that has been made, or that something is made of.
type resource struct {
	Name   string  `json:"name,omitempty"`
	URI    string  `json:"uri,omitempty"`
	Digest digests `json:"digest,omitempty"`
}

// statement is an in-toto statement, version 1, with SLSA's predicate of provenance, version 1. It has no time and no
// number of a build, because the same inputs make the same files whenever and wherever somebody builds them.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     struct {
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
	} `json:"predicate"`
}

// Provenance returns a statement of how files were made: by `make release` from a commit, with a compiler. It isn't
// signed; signing it is the step of whoever publishes the files. files are their contents by name.
func Provenance(product Product, compiler string, files map[string][]byte) ([]byte, error) {
	made := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		made.Subject = append(made.Subject, resource{Name: name, Digest: digests{"sha256": sum(files[name])}})
	}
	repository := "https://" + product.Name
	definition := &made.Predicate.BuildDefinition
	definition.BuildType = repository + "/blob/v" + product.Version + "/Makefile#release"
	definition.ExternalParameters = map[string]string{"target": "release", "VERSION": product.Version}
	definition.ResolvedDependencies = []resource{
		{URI: "git+" + repository + "@refs/tags/v" + product.Version, Digest: digests{"gitCommit": product.Commit}},
		{URI: "pkg:generic/go@" + strings.TrimPrefix(compiler, "go")},
	}
	made.Predicate.RunDetails.Builder.ID = repository + "/blob/v" + product.Version + "/hack/images"
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
