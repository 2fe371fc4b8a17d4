package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/mod/semver"

	"github.com/harrier-ci/harrier/hack/images/artefacts"
)

const (
	repository = "github.com/harrier-ci/harrier"
	// publicImage is the image's name when it is published; the charts have it as their default.
	publicImage = "ghcr.io/harrier-ci/gha-runner-scale-set-controller"
	// archiveSuffix ends the name of the image's archive, after its version.
	archiveSuffix = ".oci.tar"
	checksumsName = "SHA256SUMS"
)

// isReleaseTag tells whether a tag is a whole version by SemVer without metadata of a build: "+" isn't allowed in the
// tag of an image.
func isReleaseTag(tag string) bool { return semver.IsValid(tag) && semver.Canonical(tag) == tag }

var errUncommitted = errors.New("a release is made of a commit, and these files differ from it or aren't in it: " +
	"commit them, put them away with git stash, or remove those that git ignores")

// packed are the folders from which charts and programs are made. What git ignores there would be part of them.
var packed = []string{"apis", "charts", "cmd", "github", "internal", "operations", "vendor"}

// release writes everything that a release has into an empty directory. It needs no credentials: hack/publish.sh pushes
// and signs what is there. version may be the tag, with its v, which anybody who may push one has chosen.
func release(ctx context.Context, version, directory string, made platforms) error {
	version = strings.TrimPrefix(version, "v")
	if !isReleaseTag("v" + version) {
		return fmt.Errorf("VERSION is %q: write it as 1.2.3 or 1.2.3-rc.1", version)
	}
	if entries, err := os.ReadDir(directory); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s has files already: remove it, or name another directory", directory)
	}
	product, history, err := ofCommit(ctx, version)
	if err != nil {
		return err
	}
	index, programs, err := releasedImage(ctx, version, made.architectures)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	files, err := charts(version)
	if err != nil {
		return err
	}
	archives, plugins, err := plugin(ctx, version, made)
	if err != nil {
		return err
	}
	maps.Copy(files, archives)
	if files["image-"+version+archiveSuffix], err = ociArchive(index, version); err != nil {
		return fmt.Errorf("write the image: %w", err)
	}
	for described, made := range map[string]map[string][]byte{"image": programs, pluginProgram: plugins} {
		if files[described+"-"+version+".cdx.json"], err = artefacts.Materials(product, made); err != nil {
			return err
		}
	}
	files["RELEASE.md"] = artefacts.Notes(product, publicImage, digest.String(), history)
	compiler, err := goCommand(ctx, supported[0], "env", "GOVERSION").Output()
	if err != nil {
		return fmt.Errorf("ask go for its version: %w", err)
	}
	if files["provenance.json"], err = artefacts.Provenance(product, strings.TrimSpace(string(compiler))); err != nil {
		return err
	}
	files[checksumsName] = artefacts.Checksums(files)
	return writeFiles(directory, files)
}

func writeFiles(directory string, files map[string][]byte) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return fmt.Errorf("make directory for the release: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		target := filepath.Join(directory, name)
		if err := os.WriteFile(target, files[name], 0o644); err != nil {
			return err
		}
		fmt.Println(target)
	}
	return nil
}

// formerOf returns the tag of the release before a version, empty if there is none.
func formerOf(version string, tags []string) (former string) {
	for _, tag := range tags {
		// the notes of 1.2.3 have what was new in its candidates, too
		early := semver.Prerelease(tag) != "" && !strings.Contains(version, "-")
		if !early && isReleaseTag(tag) && semver.Compare(tag, "v"+version) < 0 &&
			(former == "" || semver.Compare(former, tag) < 0) {
			former = tag
		}
	}
	return former
}

// ofCommit returns the commit that is released, and what has changed since the release before it. That one is the
// highest version below this one of the tags at or below the commit, so the tags of the clone are an input. How git is
// configured is none.
func ofCommit(ctx context.Context, version string) (product artefacts.Product, history artefacts.History, err error) {
	git := func(arguments ...string) []string {
		output, failed := exec.CommandContext(ctx, "git",
			append([]string{"-c", "i18n.logOutputEncoding=UTF-8"}, arguments...)...).Output()
		if failed != nil && err == nil {
			err = fmt.Errorf("git %s: %w", arguments[0], complaint(failed))
		}
		return strings.FieldsFunc(string(output), func(r rune) bool { return r == '\n' })
	}
	status := []string{"status", "--porcelain", "--untracked-files=all"}
	changed := append(git(status...), git(append(status, append([]string{"--ignored", "--"}, packed...)...)...)...)
	commit := append(git("rev-parse", "HEAD"), "")[0]
	history.Former = formerOf(version, git("tag", "--list", "v*", "--merged", "HEAD", "--no-column"))
	if history.Former != "" {
		history.Commits = git("log", "--no-show-signature", "--no-color", "--no-merges", "--format=%s", history.Former+
			"..HEAD")
		for _, line := range git("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--diff-algorithm=myers",
			"--indent-heuristic", "--unified=0", history.Former, "HEAD", "--", "docs/changelog.md") {
			if added, ok := strings.CutPrefix(line, "+"); ok && !strings.HasPrefix(added, "++ ") {
				history.Upgrade = append(history.Upgrade, added)
			}
		}
	}
	if err == nil && len(changed) > 0 {
		slices.Sort(changed)
		err = fmt.Errorf("%w:\n%s", errUncommitted, strings.Join(slices.Compact(changed), "\n"))
	}
	return artefacts.Product{Name: repository, Version: version, Commit: commit}, history, err
}

// releasedImage builds the product for several architectures. programs are those in it, by architecture and name.
func releasedImage(
	ctx context.Context, version string, architectures []string,
) (index v1.ImageIndex, programs map[string][]byte, err error) {
	product := recipes["product"]
	product.version = version
	index, programs = mutate.IndexMediaType(empty.Index, types.OCIImageIndex), map[string][]byte{}
	for _, architecture := range architectures {
		found, err := keep(ctx, product, architecture, []string{publicImage + ":" + version})
		if err != nil {
			return nil, nil, err
		}
		image, err := found.image()
		if err != nil {
			return nil, nil, fmt.Errorf("read image for %s: %w", architecture, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
		})
		for target, packagePath := range product.programs {
			content, err := os.ReadFile(filepath.Join(found.directory, path.Base(packagePath)))
			if err != nil {
				return nil, nil, err
			}
			programs[architecture+target] = content
		}
	}
	return index, programs, nil
}

var chartNames = []string{"gha-runner-scale-set-controller", "gha-runner-scale-set"}

// charts returns the charts as `helm package` names them, and who publishes them. `helm package` itself would write the
// time into the archives.
func charts(version string) (map[string][]byte, error) {
	owners, err := os.ReadFile(filepath.Join("charts", ownersName))
	if err != nil {
		return nil, err
	}
	archives := map[string][]byte{ownersName: owners}
	for _, chart := range chartNames {
		files, err := artefacts.Chart(filepath.Join("charts", chart), version)
		if err != nil {
			return nil, err
		}
		var archive bytes.Buffer
		if err := files.TarGzip(&archive); err != nil {
			return nil, fmt.Errorf("pack %s: %w", chart, err)
		}
		archives[chart+"-"+version+".tgz"] = archive.Bytes()
	}
	return archives, nil
}

// ociArchive returns an index as an archive in the layout of OCI, for `skopeo copy --all oci-archive:FILE` and the
// like, under a tag.
func ociArchive(index v1.ImageIndex, tag string) ([]byte, error) {
	scratch, err := os.MkdirTemp("", "harrier-release-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	at, err := layout.Write(scratch, empty.Index)
	if err != nil {
		return nil, err
	}
	if err := at.AppendIndex(index,
		layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag})); err != nil {
		return nil, err
	}
	files, err := artefacts.Read(scratch, "")
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	err = files.Tar(&archive)
	return archive.Bytes(), err
}
