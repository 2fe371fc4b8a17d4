package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
)

func TestVersionsOfReleases(t *testing.T) {
	for _, version := range []string{"", "dev", "vv1.2.3", "1.2", "01.2.3", "1.2.3+build", "1.2.3-", "1.2.3; rm -r .",
		"v1.2.3$(id)", "v1.2.3'", "1.2.3\n"} {
		if err := release(t.Context(), version, t.TempDir(), platforms{}); err == nil ||
			!strings.Contains(err.Error(), "VERSION is") {
			t.Errorf("version %q: %v", version, err)
		}
	}
	directory := t.TempDir()
	write(t, filepath.Join(directory, "old.tgz"), "")
	if err := release(t.Context(), "1.2.3-rc.1", directory, platforms{}); err == nil ||
		!strings.Contains(err.Error(), "has files already") {
		t.Errorf("a directory with files was taken: %v", err)
	}
}

// The archive is a layout of OCI with one index, under the version, of both architectures.
func TestTheArchiveOfTheImage(t *testing.T) {
	archive, err := ociArchive(sampleIndex(t), "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	again, err := ociArchive(sampleIndex(t), "1.2.3")
	if err != nil || string(again) != string(archive) {
		t.Errorf("two archives of the same image differ; %v", err)
	}
	directory := t.TempDir()
	write(t, filepath.Join(directory, "image.tar"), string(archive))
	unpack := exec.CommandContext(t.Context(), "tar", "--extract", "--file", "image.tar")
	unpack.Dir = directory
	if output, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	outer, err := layout.ImageIndexFromPath(directory)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 ||
		manifest.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "1.2.3" {
		t.Fatalf("the layout has %+v; %v", manifest, err)
	}
	want, err := sampleIndex(t).Digest()
	if err != nil || manifest.Manifests[0].Digest != want {
		t.Errorf("the index is %s, want %s; %v", manifest.Manifests[0].Digest, want, err)
	}
	inner, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	images, err := inner.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, image := range images.Manifests {
		platforms = append(platforms, image.Platform.String())
	}
	if !slices.Equal(platforms, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("it is for %v", platforms)
	}
}

func TestTheReleaseBefore(t *testing.T) {
	tags := []string{"v0.11.0", "v0.12.0", "v0.12", "v0.12.0+build", "v0.12.0-rc.1", "v0.12.0-rc.2", "v0.9.0", "vague"}
	for version, want := range map[string]string{
		"0.9.0": "", "0.11.1": "v0.11.0", "0.12.0-rc.1": "v0.11.0", "0.12.0-rc.2": "v0.12.0-rc.1", "0.12.0": "v0.11.0",
		"0.13.0": "v0.12.0", "0.13.0-rc.1": "v0.12.0",
	} {
		if got := formerOf(version, tags); got != want {
			t.Errorf("%s comes after %q, want %q", version, got, want)
		}
	}
}

// emptyRepository makes a repository, and works in it. commit commits docs/changelog.md with a content.
func emptyRepository(t *testing.T) (git func(arguments ...string), commit func(message, upgrade string)) {
	t.Helper()
	t.Chdir(t.TempDir())
	git = func(arguments ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), "git",
			append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, arguments...)...)
		command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", arguments, err, output)
		}
	}
	commit = func(message, upgrade string) {
		t.Helper()
		write(t, "docs/changelog.md", upgrade)
		git("add", ".")
		git("commit", "--quiet", "--message", message)
	}
	if err := os.Mkdir("docs", 0o755); err != nil {
		t.Fatal(err)
	}
	git("init", "--quiet")
	return git, commit
}

// A release is made of a commit, and its notes list the changes since the release before it.
func TestWhatIsReleased(t *testing.T) {
	git, commit := emptyRepository(t)
	commit("first", "# Upgrade\n")
	product, history, err := ofCommit(t.Context(), "0.9.0")
	if err != nil || len(product.Commit) != 40 || history.Former != "" || len(history.Commits) != 0 {
		t.Errorf("the first release is %+v with %+v; %v", product, history, err)
	}
	git("tag", "v0.9.0")
	git("tag", "v0.10.0")
	commit("second", "# Upgrade\n\n- new\n")
	git("tag", "v0.11.0")
	_, history, err = ofCommit(t.Context(), "0.11.0")
	if err != nil || history.Former != "v0.10.0" || !slices.Equal(history.Commits, []string{"second"}) ||
		!slices.Contains(history.Upgrade, "- new") {
		t.Errorf("a later one has %+v; %v", history, err)
	}
	write(t, "docs/changelog.md", "# Changed\n")
	if _, _, err := ofCommit(t.Context(), "0.11.0"); !errors.Is(err, errUncommitted) {
		t.Errorf("a tree with changes was released: %v", err)
	}
}

func TestNotesAreTheSameHoweverGitIsConfigured(t *testing.T) {
	git, commit := emptyRepository(t)
	commit("first", "# Upgrade\n\n- new\n")
	git("tag", "v0.11.0")
	git("config", "versionsort.suffix", "")
	git("config", "color.ui", "always")
	git("config", "log.showSignature", "true")
	git("config", "diff.external", "false")
	git("config", "status.showUntrackedFiles", "no")
	git("tag", "v0.12.0-rc.1")
	commit("third", "# Upgrade\n\n- new\n- newer\n")
	git("tag", "v0.12.0-rc.2")
	git("tag", "v0.12.0")
	_, history, err := ofCommit(t.Context(), "0.12.0")
	if err != nil || !slices.Equal(history.Commits, []string{"third"}) ||
		!slices.Equal(history.Upgrade, []string{"- newer"}) {
		t.Errorf("with git configured otherwise: %+v; %v", history, err)
	}
}

func TestWhatIsInNoCommitIsNotReleased(t *testing.T) {
	git, commit := emptyRepository(t)
	commit("first", "# Upgrade\n")
	git("config", "status.showUntrackedFiles", "no")
	for _, name := range []string{"docs/new", "charts/ignored.out"} {
		write(t, ".git/info/exclude", "*.out\n")
		if err := os.MkdirAll("charts", 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, name, "")
		if _, _, err := ofCommit(t.Context(), "0.12.0"); !errors.Is(err, errUncommitted) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("a tree with %s was released: %v", name, err)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	write(t, "dist.out", "") // ignored, and in no folder that is packed
	if _, _, err := ofCommit(t.Context(), "0.12.0"); err != nil {
		t.Error(err)
	}
}
