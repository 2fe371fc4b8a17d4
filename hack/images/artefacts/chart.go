package artefacts

import (
	"fmt"
	"path"
	"regexp"
)

var (
	// chartVersion are the two lines of a Chart.yaml that have the version.
	chartVersion = regexp.MustCompile(`(?m)^(version|appVersion): .*$`)
	// chartImage are those that name an image of the release to Artifact Hub.
	chartImage = regexp.MustCompile(`(?m)^( +image: \S+/gha-runner-scale-set-controller):\S+$`)
)

// Chart returns the files of the chart in a directory, with another version, as `helm package` packs them: below the
// chart's name. It fails if Chart.yaml doesn't have one line for each of the two versions.
func Chart(directory, version string) (Files, error) {
	name := path.Base(directory)
	files, err := Read(directory, name)
	if err != nil {
		return nil, err
	}
	delete(files, path.Join(name, ".helmignore"))
	definition := path.Join(name, "Chart.yaml")
	content := files[definition].Content
	if lines := chartVersion.FindAll(content, -1); len(lines) != 2 {
		return nil, fmt.Errorf("%s has %d lines with version or appVersion, not one of each", definition, len(lines))
	}
	content = chartVersion.ReplaceAll(content, []byte(`${1}: "`+version+`"`))
	files[definition] = File{Content: chartImage.ReplaceAll(content, []byte("${1}:"+version)), Mode: 0o644}
	return files, nil
}
