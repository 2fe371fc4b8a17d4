package config

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

// The kubelet changes a mounted Secret by replacing a symbolic link in its directory.
func TestAChangeOfAMountedSecretIsSeen(t *testing.T) {
	directory := t.TempDir()
	put := func(version string) {
		if err := os.Mkdir(filepath.Join(directory, version), 0o755); err != nil {
			t.Fatal(err)
		}
		next := filepath.Join(directory, "..next")
		if err := os.Symlink(version, next); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(directory, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	put("..1")
	changed, err := Watch(t.Context(), filepath.Join(directory, FileName), logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	put("..2")
	select {
	case <-changed:
	case <-time.After(time.Minute):
		t.Error("the change was not seen")
	}
}

// The log may be in the same directory: a line about a file that can't be used must not cause another read of the file.
func TestOtherFilesNextToTheConfigurationAreNoChange(t *testing.T) {
	for name, want := range map[string]bool{
		FileName:       true,
		"..data":       true,
		"listener.log": false,
		"..data_tmp":   false,
	} {
		if got := concerns(FilePath, filepath.Join(MountPath, name)); got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
}

func TestWatchingADirectoryThatIsNotThere(t *testing.T) {
	if _, err := Watch(t.Context(), filepath.Join(t.TempDir(), "absent", FileName), logr.Discard()); err == nil {
		t.Error("no error")
	}
}
