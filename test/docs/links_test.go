package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var (
	// link matches a link to a file of this repository, with or without a heading, or to a picture.
	link = regexp.MustCompile(`\]\(([^):# ]*)(#[^)]*)?\)`)
	// heading matches a page's headings, and dropped the characters that GitHub leaves out of an anchor.
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped = regexp.MustCompile(`[^a-z0-9 _-]`)
)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, p := range pages(t) {
		for _, target := range p.links() {
			if _, err := os.Stat(target.file); err != nil {
				t.Errorf("%s links to %s, which is not there", p.path, target.file)
				continue
			}
			if target.anchor != "" && !anchors(page{text: string(read(t, target.file))})[target.anchor] {
				t.Errorf("%s links to %s#%s, which is no heading", p.path, target.file, target.anchor)
			}
		}
	}
}

type target struct{ file, anchor string }

func (p page) links() []target {
	var found []target
	for _, match := range link.FindAllStringSubmatch(span.ReplaceAllString(p.prose(), ""), -1) {
		file := p.path
		if match[1] != "" {
			file = filepath.Join(filepath.Dir(p.path), match[1])
		}
		found = append(found, target{file: file, anchor: strings.TrimPrefix(match[2], "#")})
	}
	return found
}

// anchors returns the anchors that GitHub gives the headings of a page. The second of a name gets a number.
func anchors(p page) map[string]bool {
	found := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(p.prose(), -1) {
		name := strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")
		for again := 1; found[name]; again++ {
			name = fmt.Sprintf("%s-%d", strings.TrimSuffix(name, fmt.Sprintf("-%d", again-1)), again)
		}
		found[name] = true
	}
	return found
}

// Whoever begins at the first page finds all others, on GitHub by links and on the site by its navigation.
func TestEveryPageIsReached(t *testing.T) {
	first := filepath.Join(root, "docs", "README.md")
	reached := map[string]bool{first: true}
	for queue := []string{first}; len(queue) > 0; queue = queue[1:] {
		for _, target := range (page{path: queue[0], text: string(read(t, queue[0]))}).links() {
			if filepath.Ext(target.file) == ".md" && !reached[target.file] {
				reached[target.file] = true
				queue = append(queue, target.file)
			}
		}
	}
	navigation := navigation(t)
	for _, p := range pages(t) {
		name, err := filepath.Rel(filepath.Join(root, "docs"), p.path)
		if err != nil || strings.HasPrefix(name, "..") {
			continue
		}
		if !reached[p.path] {
			t.Errorf("no way leads from docs/README.md to %s", name)
		}
		if !navigation[name] {
			t.Errorf("the navigation in hack/mkdocs.yml lacks %s", name)
		}
	}
}

// navigation returns the pages that the site's navigation names.
func navigation(t *testing.T) map[string]bool {
	t.Helper()
	var site struct {
		Nav any `json:"nav"`
	}
	if err := yaml.Unmarshal(read(t, filepath.Join(root, "hack", "mkdocs.yml")), &site); err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	var walk func(any)
	walk = func(entry any) {
		switch entry := entry.(type) {
		case string:
			named[entry] = true
		case []any:
			for _, one := range entry {
				walk(one)
			}
		case map[string]any:
			for _, one := range entry {
				walk(one)
			}
		}
	}
	walk(site.Nav)
	return named
}

// Every picture is on a page, and has a description for readers who can't see it.
func TestPicturesAreShownAndDescribed(t *testing.T) {
	shown := regexp.MustCompile(`!\[([^\]]*)\]\(([^)]+)\)`)
	used := map[string]bool{}
	for _, p := range pages(t) {
		for _, picture := range shown.FindAllStringSubmatch(p.text, -1) {
			used[filepath.Join(filepath.Dir(p.path), picture[2])] = true
			if picture[1] == "" {
				t.Errorf("%s shows %s without a description", p.path, picture[2])
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "docs", "*", "*.[sp][vn]g"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !used[file] {
			t.Errorf("no page shows %s", file)
		}
	}
}
