package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/harrier-ci/harrier/hack/images/artefacts"
)

const (
	// pluginProgram is the name by which kubectl finds its plugin, and pluginCompletion that of what it runs to
	// complete command lines.
	pluginProgram    = "kubectl-harrier"
	pluginCompletion = "kubectl_complete-harrier"
	// Published files of a release are at downloads, below the tag of its version.
	downloads = "https://" + repository + "/releases/download/v"
)

// pluginSystems are those of people's machines, each for the architectures for which there are images.
var pluginSystems = []string{"darwin", "linux", "windows"}

// platforms are what a release is made for: the plugin for each system, the image for Linux. A dry run makes less.
type platforms struct{ systems, architectures []string }

// plugin returns the archives of kubectl's plugin for each platform, by name, with a manifest for krew, and the
// programs in them. What has been compiled before is only linked.
func plugin(
	ctx context.Context, released string, made platforms,
) (files, programs map[string][]byte, err error) {
	v, err := versionOf(ctx)
	if err != nil {
		return nil, nil, err
	}
	v.version = released
	beside := artefacts.Files{}
	for name, source := range map[string]string{
		"LICENSE":        "LICENSE",
		pluginCompletion: filepath.Join("operations", "plugin", pluginCompletion),
	} {
		content, err := os.ReadFile(source)
		if err != nil {
			return nil, nil, err
		}
		beside[name] = artefacts.File{Content: content, Mode: 0o644}
	}
	beside[pluginCompletion] = artefacts.File{Content: beside[pluginCompletion].Content, Mode: 0o755}
	files, programs = map[string][]byte{}, map[string][]byte{}
	var listed []artefacts.Platform
	for _, system := range made.systems {
		for _, architecture := range made.architectures {
			program, err := compilePlugin(ctx, system, architecture, v)
			if err != nil {
				return nil, nil, fmt.Errorf("compile %s for %s on %s: %w", pluginProgram, system, architecture, err)
			}
			platform, archive, err := packPlugin(system, architecture, released, program, beside)
			if err != nil {
				return nil, nil, fmt.Errorf("pack %s for %s on %s: %w", pluginProgram, system, architecture, err)
			}
			files[platform.Archive], programs[system+"/"+architecture+"/"+pluginProgram] = archive, program
			listed = append(listed, platform)
		}
	}
	files["harrier.krew.yaml"] = artefacts.Krew(artefacts.Product{Name: repository, Version: released},
		downloads+released+"/", listed, files)
	return files, programs, nil
}

func compilePlugin(ctx context.Context, system, architecture string, v version) ([]byte, error) {
	scratch, err := os.MkdirTemp("", "harrier-plugin-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	target := filepath.Join(scratch, pluginProgram)
	if err := build(ctx, pluginProgram+" for "+system+" on "+architecture, target, system, architecture, v,
		"./operations/cmd/"+pluginProgram); err != nil {
		return nil, err
	}
	return os.ReadFile(target)
}

// packPlugin returns the archive of a platform: what people of Windows open is zip.
func packPlugin(
	system, architecture, released string, program []byte, beside artefacts.Files,
) (artefacts.Platform, []byte, error) {
	platform := artefacts.Platform{System: system, Architecture: architecture, Program: pluginProgram}
	content, suffix := artefacts.Files{"LICENSE": beside["LICENSE"]}, ".tar.gz"
	if system == "windows" { // kubectl completes nothing there by a shell's program
		suffix, platform.Program = ".zip", pluginProgram+".exe"
	} else {
		content[pluginCompletion] = beside[pluginCompletion]
	}
	content[platform.Program] = artefacts.File{Content: program, Mode: 0o755}
	platform.Archive = strings.Join([]string{pluginProgram, released, system, architecture}, "-") + suffix
	pack := content.TarGzip
	if system == "windows" {
		pack = content.Zip
	}
	var archive bytes.Buffer
	err := pack(&archive)
	return platform, archive.Bytes(), err
}
