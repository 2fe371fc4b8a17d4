package cache

import (
	"path/filepath"
	"testing"
)

func TestDirFollowsEnvironment(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HARRIER_CACHE", "")
	expect(t, filepath.Join(home, ".cache", "harrier", "cluster"))
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "xdg"))
	expect(t, filepath.Join(home, "xdg", "harrier", "cluster"))
	t.Setenv("HARRIER_CACHE", filepath.Join(home, "own"))
	expect(t, filepath.Join(home, "own", "cluster"))
}

func expect(t *testing.T, want string) {
	t.Helper()
	got, err := Dir("cluster")
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("Dir is %s, want %s", got, want)
	}
}
