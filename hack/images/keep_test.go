package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// buildScript is the absolute path of hack/build.sh, found before a test works elsewhere.
var buildScript, _ = filepath.Abs("../build.sh")

// project makes a tree with the program of the pause image, and works in it.
func project(t *testing.T) {
	t.Helper()
	t.Setenv("HARRIER_CACHE", t.TempDir())
	t.Chdir(t.TempDir())
	if err := os.MkdirAll(pause, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(buildScript, "hack/build.sh"); err != nil {
		t.Fatal(err)
	}
	write(t, "go.mod", "module example.com/project\n\ngo 1.26.0\n")
	write(t, "go.sum", "")
	write(t, pause+"/main.go", "package main\n\nfunc main() {}\n")
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func keepPause(t *testing.T, name string) kept {
	t.Helper()
	image, err := keep(t.Context(), recipes["pause"], "amd64", []string{name})
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func TestWhatHasNotChangedIsNotBuiltAgain(t *testing.T) {
	project(t)
	first := keepPause(t, "localhost/pause:1")
	// If it were built again, the mark would be gone.
	mark := filepath.Join(first.directory, "mark")
	write(t, mark, "")
	write(t, pause+"/main_test.go", "package main\n") // tests are not part of the program
	if again := keepPause(t, "localhost/pause:1"); again.directory != first.directory {
		t.Errorf("the same inputs gave %s and %s", first.directory, again.directory)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("the image was built again: %v", err)
	}
	for change, do := range map[string]func(){
		"the program":     func() { write(t, pause+"/main.go", "package main\n\nfunc main() { println() }\n") },
		"a file of it":    func() { write(t, pause+"/more.go", "package main\n") },
		"pins of modules": func() { write(t, "go.sum", "\n") },
	} {
		before := keepPause(t, "localhost/pause:1")
		do()
		if after := keepPause(t, "localhost/pause:1"); after.directory == before.directory {
			t.Errorf("%s has changed, but the image was not built again", change)
		}
	}
	if renamed := keepPause(t, "localhost/pause:2"); renamed.directory == first.directory {
		t.Error("an image under another name has the same archive")
	}
}

// Another clone of the tree, elsewhere and with other settings of Go, gives the same bytes, for the other architecture,
// too.
func TestTwoBuildsGiveTheSameBytes(t *testing.T) {
	for _, architecture := range supported {
		t.Run(architecture, func(t *testing.T) {
			var archives [][]byte
			for range 2 {
				project(t)
				if len(archives) > 0 { // settings of whoever builds don't count
					for name, value := range map[string]string{"GOAMD64": "v3", "GOARM64": "v9.0", "GOEXPERIMENT": "arenas",
						"GOFIPS140": "latest"} {
						t.Setenv(name, value)
					}
				}
				image, err := keep(t.Context(), recipes["pause"], architecture, []string{"localhost/pause:1"})
				if err != nil {
					t.Fatal(err)
				}
				content, err := os.ReadFile(filepath.Join(image.directory, archiveName))
				if err != nil {
					t.Fatal(err)
				}
				archives = append(archives, content)
			}
			if !bytes.Equal(archives[0], archives[1]) {
				t.Error("two builds differ")
			}
		})
	}
}

func TestOldImagesGo(t *testing.T) {
	project(t)
	var last kept
	for _, tag := range []string{"1", "2", "3", "4", "5", "6"} {
		last = keepPause(t, "localhost/pause:"+tag)
	}
	left, err := os.ReadDir(filepath.Dir(last.directory))
	if err != nil || len(left) != keptOfEach {
		t.Errorf("%d directories are left, want %d; %v", len(left), keptOfEach, err)
	}
	if _, err := os.Stat(filepath.Join(last.directory, archiveName)); err != nil {
		t.Errorf("the last one: %v", err)
	}
}

// An image that is used stays, however long ago it was made, and what a killed build has left goes.
func TestWhatIsUsedStays(t *testing.T) {
	project(t)
	first := keepPause(t, "localhost/pause:0")
	root := filepath.Dir(first.directory)
	killed, running := filepath.Join(root, ".build-1"), filepath.Join(root, ".build-2")
	for directory, age := range map[string]time.Duration{first.directory: 48 * time.Hour, killed: 25 * time.Hour,
		running: time.Hour} {
		if err := os.MkdirAll(directory, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(directory, time.Now(), time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tag := range []string{"1", "2", "3", "0", "4"} {
		keepPause(t, "localhost/pause:"+tag)
	}
	for directory, stays := range map[string]bool{first.directory: true, killed: false, running: true} {
		if _, err := os.Stat(directory); (err == nil) != stays {
			t.Errorf("%s: %v", filepath.Base(directory), err)
		}
	}
}

func TestABuildThatFailsLeavesNothing(t *testing.T) {
	project(t)
	write(t, pause+"/main.go", "package main\n\nfunc main() { nonsense }\n")
	if image, err := keep(t.Context(), recipes["pause"], "amd64", []string{"localhost/pause:1"}); err == nil {
		t.Errorf("got %s", image.directory)
	}
	if left, err := os.ReadDir(filepath.Join(os.Getenv("HARRIER_CACHE"), "images")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
