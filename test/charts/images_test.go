package charts

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/internal/listenertemplate"
	"github.com/harrier-ci/harrier/operations/commands"
)

// The charts refuse the images of ARC's publishers, and take any others: what is called like them is a doubt, which NOTES
// tell. The program has the same rule.
func TestImagesOfARC(t *testing.T) {
	t.Parallel()
	const refused, doubtful, fine = "refused", "doubtful", "fine"
	for image, want := range map[string]string{
		"ghcr.io/actions/gha-runner-scale-set-controller:0.14.2": refused, "GHCR.IO/Actions/GHA-runner-scale-set-controller": refused,
		"registry.example.com:5000/ghcr.io/actions/gha-runner-scale-set-controller@sha256:00": refused,
		"summerwind/actions-runner-controller:v0.27.6":                                        refused, "docker.io/summerwind/actions-runner-controller": refused,
		"ghcr.io/actions-runner-controller/actions-runner-controller":      refused,
		"registry.example.com:5000/mirror/gha-runner-scale-set-controller": doubtful, "gha-runner-scale-set-controller": doubtful,
		"registry.example.com/actions/gha-runner-scale-set-controller:0.12.1@sha256:00": doubtful,
		"registry.example.com/actions-gha-runner-scale-set-controller:1":                doubtful,
		"registry.example.com:5000/harrier-ci/gha-runner-scale-set-controller:0.14.2":   fine, "registry.example.com/team/ours@sha256:00": fine,
		"registry.example.com/gha-runner-scale-set-controller/sidecar": fine, "registry.example.com/Harrier/gha-runner-scale-set-controller": fine,
	} {
		check(t, image+" is ARC's", listenertemplate.IsARCImage(image), want == refused)
		ofListener := fmt.Sprintf("listenerTemplate: {spec: {containers: [{name: logs, image: other}, {name: listener, "+
			"image: %q}]}}", image)
		for _, test := range []struct {
			chart  chart
			values []string
			place  string
		}{
			{scaleSet, []string{minimal, ofListener}, "listenerTemplate.spec.containers[listener].image is " + image},
			{controller, []string{fmt.Sprintf("image: {repository: %q}", image)}, "image.repository is " + image},
		} {
			_, said, err := test.chart.template(t, test.values...)
			if (err != nil) != (want == refused) || (want == refused && !strings.Contains(said, test.place)) {
				t.Errorf("the chart %s with %s: %v %s", test.chart.name, image, err, said)
			}
			if err != nil {
				continue
			}
			if told := strings.Contains(notesOf(t, test.chart, test.values...), test.place); told != (want == doubtful) {
				t.Errorf("NOTES of %s with %s name it: %t, want %t", test.chart.name, image, told, want == doubtful)
			}
		}
	}
	checkContains(t, refusal(t, controller,
		"image: {repository: ghcr.io/actions/gha-runner-scale-set-controller, tag: 0.12.1}"),
		"Remove image.repository and image.tag")
}

// A tag of ARC's beside our repository names an image that doesn't exist. A tag of a registry of one's own is nobody's
// business.
func TestTagsOfARC(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]bool{
		"image: {tag: 0.7.0}": true, "image: {tag: 0.14.2, repository: ghcr.io/harrier-ci/gha-runner-scale-set-controller}": true,
		"image: {tag: 0.7.0, digest: 'sha256:" + strings.Repeat("0", 64) + "'}": false, "image: {tag: 0.7.0, repository: registry.example.com/team/harrier}": false,
		"image: {tag: ''}": false, "{}": false,
	} {
		if told := strings.Contains(notesOf(t, controller, values), "image.tag is"); told != want {
			t.Errorf("%s: NOTES name the tag: %t, want %t", values, told, want)
		}
		file := filepath.Join(t.TempDir(), "values.yaml")
		if err := os.WriteFile(file, []byte("replicaCount: 1\n"+strings.TrimPrefix(values, "{}")), 0o600); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		code := commands.Main(t.Context(), []string{"validate", "-f", file}, &said, &said)
		check(t, "exit code of validate for "+values, code, commands.ExitFine)
		check(t, "validate names the tag of "+values, strings.Contains(said.String(), "image.tag is"), want)
	}
}
