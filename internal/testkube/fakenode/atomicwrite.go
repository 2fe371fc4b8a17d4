package fakenode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// currentData is the link by which a kubelet switches all files of a volume together.
const currentData = "..data"

// writeAtomically replaces the files of a mounted volume as a kubelet does: the files go to a new directory, a rename
// points the link ..data to it, and the visible names are links through ..data. Programs that watch the directory get
// the same events as on a real node.
func writeAtomically(directory string, files map[string][]byte) error {
	current := filepath.Join(directory, currentData)
	previous, err := os.Readlink(current)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read link of volume: %w", err)
	}
	next, err := os.MkdirTemp(directory, "..version-")
	if err != nil {
		return fmt.Errorf("make directory of volume: %w", err)
	}
	if err := writeFiles(next, files); err != nil {
		return err
	}
	temporary := filepath.Join(directory, "..data_tmp")
	if err := os.Symlink(filepath.Base(next), temporary); err != nil {
		return fmt.Errorf("make link of volume: %w", err)
	}
	if err := os.Rename(temporary, current); err != nil {
		return fmt.Errorf("switch link of volume: %w", err)
	}
	if err := linkVisible(directory, files); err != nil {
		return err
	}
	if previous == "" {
		return nil
	}
	return os.RemoveAll(filepath.Join(directory, previous))
}

func writeFiles(directory string, files map[string][]byte) error {
	for name, content := range files {
		path := filepath.Join(directory, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("make directory in volume: %w", err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return fmt.Errorf("write file of volume: %w", err)
		}
	}
	return nil
}

// linkVisible links the first element of every path that has no link yet, and removes links that lead nowhere any more.
func linkVisible(directory string, files map[string][]byte) error {
	wanted := map[string]bool{}
	for name := range files {
		first, _, _ := strings.Cut(name, "/")
		wanted[first] = true
	}
	entries, err := os.ReadDir(directory)
	if err != nil {
		return fmt.Errorf("list volume: %w", err)
	}
	for _, entry := range entries {
		name := entry.Name()
		switch {
		case strings.HasPrefix(name, ".."):
		case wanted[name]:
			delete(wanted, name)
		default:
			if err := os.Remove(filepath.Join(directory, name)); err != nil {
				return fmt.Errorf("remove file from volume: %w", err)
			}
		}
	}
	for name := range wanted {
		if err := os.Symlink(filepath.Join(currentData, name), filepath.Join(directory, name)); err != nil {
			return fmt.Errorf("link file of volume: %w", err)
		}
	}
	return nil
}
