// Package docs tests the documentation: links and anchors lead somewhere, every page can be reached, the programs take
// the commands, the charts or Kubernetes take the YAML, and the quickstart leads to a completed job.
//
// Each fenced block must have a language or begin with a known program; a block that no test can check fails. For a
// command that needs a cluster, its program reads the flags. kubectl get and describe, and the quickstart, are run on a
// rig.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// generated begins the generated pages, which other tests check.
const generated = "<!-- Written by "

// page is a Markdown file.
type page struct{ path, text string }

// block is a fenced part of a page, without its fence.
type block struct {
	page     string
	line     int
	language string
	text     string
	// variables are the lines by which earlier blocks of the page set variables of the shell.
	variables string
}

// assignment is such a line.
var assignment = regexp.MustCompile(`(?m)^[A-Z]+=.*\n`)

// pages returns README, CONTRIBUTING and everything below docs/.
func pages(t *testing.T) []page {
	t.Helper()
	var found []page
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			found = append(found, page{path: file, text: string(read(t, file))})
		}
	}
	if len(found) < 20 {
		t.Fatalf("found %d pages only", len(found))
	}
	return found
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// fence opens or closes a block; one in a list is indented.
var fence = regexp.MustCompile("^( *)```([a-z]*)$")

func (p page) blocks() []block {
	var found []block
	var open *block
	indent, variables := "", ""
	for number, line := range strings.Split(p.text, "\n") {
		edge := fence.FindStringSubmatch(line)
		switch {
		case edge != nil && open == nil:
			open, indent = &block{page: p.path, line: number + 1, language: edge[2], variables: variables}, edge[1]
		case edge != nil:
			if open.language == "sh" {
				variables += strings.Join(assignment.FindAllString(open.text, -1), "")
			}
			found, open = append(found, *open), nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		}
	}
	return found
}

// span is code within a line.
var span = regexp.MustCompile("`([^`\n]+)`")

// prose is the page without its blocks.
func (p page) prose() string {
	return regexp.MustCompile("(?ms)^ *```.*?^ *```$").ReplaceAllString(p.text, "")
}
