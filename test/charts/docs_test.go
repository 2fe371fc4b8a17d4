package charts

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
)

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// What the guides show as values is what the charts take; an object is one that Kubernetes knows.
func TestGuidesShowValidValues(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"authentication", "container-modes", "networking"} {
		content, err := os.ReadFile(filepath.Join(root, "docs", name+".md"))
		if err != nil {
			t.Fatal(err)
		}
		blocks := yamlBlock.FindAllStringSubmatch(string(content), -1)
		if len(blocks) == 0 {
			t.Errorf("%s.md shows no values", name)
		}
		for _, block := range blocks {
			switch values := block[1]; {
			case strings.Contains(values, "kind: NetworkPolicy"):
				decode[networkingv1.NetworkPolicy](t, values)
			case strings.HasPrefix(values, "networkPolicy:"):
				render(t, controller, values)
			default:
				renderSet(t, scaleSet, values)
			}
		}
	}
}

// Links between the guides lead somewhere.
func TestGuidesLinkToFiles(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([a-z-]+\.md)(#[a-z-]+)?\)`)
	for _, name := range []string{"authentication", "container-modes", "networking", "upgrade"} {
		content, err := os.ReadFile(filepath.Join(root, "docs", name+".md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range link.FindAllStringSubmatch(string(content), -1) {
			page, err := os.ReadFile(filepath.Join(root, "docs", target[1]))
			if err != nil {
				t.Errorf("%s.md: %v", name, err)
				continue
			}
			if anchor := strings.TrimPrefix(target[2], "#"); anchor != "" {
				checkContains(t, strings.ToLower(string(page)), "# "+anchor)
			}
		}
	}
}
