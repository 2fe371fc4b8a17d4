package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// kept is an image in the cache: a directory with image.tar and the programs in it. Its name depends on everything that
// goes into the image, so that a directory that exists needs no building, whichever clone of the project it comes from.
type kept struct {
	directory    string
	recipe       recipe
	architecture string
	version      version
}

const archiveName = "image.tar"

// Of each recipe, keptOfEach directories stay: those of the last trees that somebody worked on.
const keptOfEach = 4

const (
	// buildPattern matches directories in which images are being built.
	buildPattern = ".build-*"
	// abandoned is the age at which such a directory is one of a build that was killed: no build takes an hour.
	abandoned = 24 * time.Hour
)

// keep returns the image of a recipe under these names, and builds it unless it is in the cache.
func keep(ctx context.Context, r recipe, architecture string, names []string) (kept, error) {
	image, err := find(ctx, r, architecture, names)
	if err != nil {
		return kept{}, fmt.Errorf("build image %s: %w", r.name, err)
	}
	return image, nil
}

func find(ctx context.Context, r recipe, architecture string, names []string) (kept, error) {
	root, err := cacheDirectory()
	if err != nil {
		return kept{}, err
	}
	in, err := inputsOf(ctx, r, architecture)
	if err != nil {
		return kept{}, err
	}
	_, _ = fmt.Fprintln(in.sum, names) // a hash takes everything
	image := kept{
		directory: filepath.Join(root, fmt.Sprintf("%s-%s-%x", r.name, architecture, in.sum.Sum(nil)[:8])),
		recipe:    r, architecture: architecture, version: in.version,
	}
	now := time.Now()
	if err := os.Chtimes(image.directory, now, now); err == nil { // in use, so it is none of the old ones
		fmt.Fprintf(os.Stderr, "image %s: unchanged\n", r.name)
		return image, nil
	}
	scratch, err := os.MkdirTemp(root, buildPattern)
	if err != nil {
		return kept{}, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	if err := compile(ctx, r, architecture, in.version, scratch); err != nil {
		return kept{}, err
	}
	fmt.Fprintf(os.Stderr, "image %s for %s: packing\n", r.name, architecture)
	built, err := makeImage(r, scratch, architecture, in.version)
	if err != nil {
		return kept{}, err
	}
	if err := save(built, filepath.Join(scratch, archiveName), names); err != nil {
		return kept{}, err
	}
	if err := os.Rename(scratch, image.directory); err != nil && !errors.Is(err, os.ErrExist) {
		// another process was faster
		return kept{}, err
	}
	return image, forgetOld(root, r.name+"-"+architecture)
}

// image makes the image of its programs. The archive has the same, in the format of Docker.
func (k kept) image() (v1.Image, error) {
	return makeImage(k.recipe, k.directory, k.architecture, k.version)
}

// copyArchive copies the archive to a file, which appears complete or not at all.
func (k kept) copyArchive(target string) error {
	content, err := os.ReadFile(filepath.Join(k.directory, archiveName))
	if err != nil {
		return err
	}
	scratch := target + ".new"
	if err := os.WriteFile(scratch, content, 0o644); err != nil {
		return err
	}
	return os.Rename(scratch, target)
}

// An image is made of its inputs.
type inputs struct {
	version version
	// sum is a hash of all inputs.
	sum hash.Hash
}

// buildPackage has the variables for a program's version and commit.
const buildPackage = "github.com/harrier-ci/harrier/internal/build"

// inputsOf hashes the compiler and its settings, the builder with its recipes, the pins of other modules, and every
// file of the project's modules that goes into the recipe's programs. Version and commit count only if a program reports them.
func inputsOf(ctx context.Context, r recipe, architecture string) (inputs, error) {
	in := inputs{sum: sha256.New()}
	compiler, err := goCommand(ctx, architecture,
		append([]string{"env", "GOVERSION", "GOFLAGS"}, slices.Sorted(maps.Keys(settings))...)...).Output()
	if err != nil {
		return in, fmt.Errorf("ask go for its version: %w", err)
	}
	_, _ = fmt.Fprintf(in.sum, "%s %s\n", architecture, compiler)
	itself, err := os.Executable()
	if err != nil {
		return in, err
	}
	files := append([]string{itself}, pinsIn(".", "go.work", "go.work.sum")...)
	listed, err := goCommand(ctx, architecture,
		append([]string{"list", "-deps", "-json=ImportPath,Dir,Module,GoFiles,SFiles,EmbedFiles"},
			packagesOf(r)...)...).Output()
	if err != nil {
		return in, fmt.Errorf("list what the programs are made of: %w", complaint(err))
	}
	modules := map[string]bool{}
	for decoder := json.NewDecoder(bytes.NewReader(listed)); decoder.More(); {
		var found struct {
			ImportPath, Dir             string
			GoFiles, SFiles, EmbedFiles []string
			Module                      *struct {
				Main bool
				Dir  string
			}
		}
		if err := decoder.Decode(&found); err != nil {
			return in, fmt.Errorf("list what the programs are made of: %w", err)
		}
		if found.Module == nil || !found.Module.Main {
			continue
		}
		modules[found.Module.Dir] = true
		if found.ImportPath == buildPackage {
			if in.version, err = versionOf(ctx); err != nil {
				return in, err
			}
			in.version.version = cmp.Or(r.version, in.version.version)
		}
		for _, name := range slices.Concat(found.GoFiles, found.SFiles, found.EmbedFiles) {
			files = append(files, filepath.Join(found.Dir, name))
		}
	}
	for _, directory := range slices.Sorted(maps.Keys(modules)) {
		files = append(files, pinsIn(directory, "go.mod", "go.sum")...)
	}
	_, _ = fmt.Fprintln(in.sum, in.version)
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			return in, err
		}
		_, _ = fmt.Fprintf(in.sum, "%s %x\n", filepath.Base(name), sha256.Sum256(content))
	}
	return in, nil
}

// pinsIn returns those of the files that a directory has: a module without dependencies has no go.sum, and one that is
// alone no workspace.
func pinsIn(directory string, names ...string) (files []string) {
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(directory, name)); err == nil {
			files = append(files, filepath.Join(directory, name))
		}
	}
	return files
}

// compile runs one go build for the whole image. With a directory for -o, it names each program after its package.
func compile(ctx context.Context, r recipe, architecture string, v version, directory string) error {
	return build(ctx, "image "+r.name+" for "+
		architecture, directory+string(filepath.Separator), "linux", architecture, v, packagesOf(r)...)
}

// build compiles programs for a platform, and reports its progress.
func build(ctx context.Context, what, target, system, architecture string, v version, packages ...string) error {
	flags := "-s -w"
	if v != (version{}) {
		flags += fmt.Sprintf(" -X %[1]s.Version=%[2]s -X %[1]s.CommitSHA=%[3]s", buildPackage, v.version, v.commit)
	}
	command := exec.CommandContext(ctx, filepath.Join("hack", "build.sh"),
		append([]string{what, target, "-trimpath", "-buildvcs=false", "-ldflags", flags}, packages...)...)
	command.Env, command.Stderr = environment(system, architecture), os.Stderr
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	return command.Run()
}

func packagesOf(r recipe) []string {
	return slices.Compact(slices.Sorted(maps.Values(r.programs)))
}

func goCommand(ctx context.Context, architecture string, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Env = environment("linux", architecture)
	return command
}

// settings of the compiler that would change the programs if they came from whoever builds. All are Go's defaults. Go
// takes an empty one from its own file (go env -w) all the same; the cache tells programs apart by what it is then, as
// it does for GOFLAGS.
var settings = map[string]string{"GOAMD64": "v1", "GOARM64": "v8.0", "GOEXPERIMENT": "", "GOFIPS140": "off"}

func environment(system, architecture string) []string {
	variables := append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+architecture, "GOFLAGS=", "GOWORK=")
	for name, value := range settings {
		variables = append(variables, name+"="+value)
	}
	return variables
}

// makeImage makes an image of the programs in a directory.
func makeImage(r recipe, directory, architecture string, v version) (v1.Image, error) {
	files := make(map[string]file, len(r.programs)+1)
	for target, packagePath := range r.programs {
		content, err := os.ReadFile(filepath.Join(directory, path.Base(packagePath)))
		if err != nil {
			return nil, err
		}
		files[target] = file{content: content, mode: 0o755}
	}
	if r.trustsAuthorities {
		var certificates bytes.Buffer
		if err := writeAuthorities(&certificates); err != nil {
			return nil, err
		}
		files[authoritiesPath] = file{content: certificates.Bytes(), mode: 0o644}
	}
	return imageOf(r, files, architecture, v)
}

// complaint adds what a command has written to stderr.
func complaint(err error) error {
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(failed.Stderr)))
	}
	return err
}

// cacheDirectory follows package hack/cache: below HARRIER_CACHE, else XDG_CACHE_HOME/harrier, else ~/.cache/harrier.
func cacheDirectory() (string, error) {
	root := os.Getenv("HARRIER_CACHE")
	if root == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no place for images, set HARRIER_CACHE or HOME: %w", err)
		}
		root = filepath.Join(base, "harrier")
	}
	root, err := filepath.Abs(filepath.Join(root, "images"))
	if err != nil {
		return "", err
	}
	return root, os.MkdirAll(root, 0o700)
}

// forgetOld removes the directories whose names begin with prefix, except for those used last, and the remains of
// builds that were killed.
func forgetOld(root, prefix string) error {
	entries, err := filepath.Glob(filepath.Join(root, prefix+"-*"))
	if err != nil {
		return err
	}
	builds, err := filepath.Glob(filepath.Join(root, buildPattern))
	if err != nil {
		return err
	}
	used := make(map[string]time.Time, len(entries)+len(builds))
	for _, entry := range slices.Concat(entries, builds) {
		if info, err := os.Stat(entry); err == nil {
			used[entry] = info.ModTime()
		}
	}
	slices.SortFunc(entries, func(a, b string) int { return used[b].Compare(used[a]) })
	old := entries[min(keptOfEach, len(entries)):]
	for _, build := range builds {
		if made, ok := used[build]; ok && time.Since(made) > abandoned {
			old = append(old, build)
		}
	}
	for _, entry := range old {
		if err := os.RemoveAll(entry); err != nil {
			return err
		}
	}
	return nil
}
