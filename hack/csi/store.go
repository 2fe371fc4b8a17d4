package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// store keeps volumes and snapshots: a folder each, and a file beside it that says what it is. Both stay when the driver
// is started again.
type store struct {
	dir string

	mutex sync.Mutex
	// busy are folders that are being made.
	busy map[string]bool
}

// kind is the folder below the store's that volumes or snapshots are in.
type kind string

const (
	volumes   kind = "volumes"
	snapshots kind = "snapshots"
)

// folder is what is known of a volume or a snapshot.
type folder struct {
	ID    string    `json:"id"`
	Name  string    `json:"name"`
	Bytes int64     `json:"bytes"`
	Made  time.Time `json:"made"`
	// Source is the ID of the volume that a snapshot is of, and that of what a volume is a copy of; empty for none.
	Source string `json:"source,omitempty"`
	// Ready is false of a snapshot that never gets ready.
	Ready bool `json:"ready"`
	// Took is how long the driver needed, in milliseconds.
	Took int64 `json:"took"`
}

var (
	errUnknown = errors.New("there is no such folder")
	errBusy    = errors.New("the folder is being made")
)

// validID is what identify returns: nothing else reaches a path.
var validID = regexp.MustCompile(`^[0-9a-f]{16}$`)

func newStore(dir string) (*store, error) {
	for _, of := range []kind{volumes, snapshots} {
		if err := os.MkdirAll(filepath.Join(dir, string(of)), 0o755); err != nil {
			return nil, err
		}
	}
	return &store{dir: dir, busy: map[string]bool{}}, nil
}

// identify returns the ID of what has a name, so that a request that is repeated finds what the first has made.
func identify(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:8])
}

func (s *store) path(of kind, id string) string { return filepath.Join(s.dir, string(of), id) }

// find returns errUnknown unless there is a folder with this ID.
func (s *store) find(of kind, id string) (folder, error) {
	if !validID.MatchString(id) {
		return folder{}, errUnknown
	}
	content, err := os.ReadFile(s.path(of, id) + ".json")
	if errors.Is(err, os.ErrNotExist) {
		return folder{}, errUnknown
	}
	var found folder
	if err == nil {
		err = json.Unmarshal(content, &found)
	}
	return found, err
}

// list returns all folders in the order of their IDs.
func (s *store) list(of kind) ([]folder, error) {
	files, err := os.ReadDir(filepath.Join(s.dir, string(of)))
	if err != nil {
		return nil, err
	}
	var all []folder
	for _, file := range files {
		id, described := strings.CutSuffix(file.Name(), ".json")
		if !described {
			continue
		}
		switch found, err := s.find(of, id); {
		case err == nil:
			all = append(all, found)
		case !errors.Is(err, errUnknown): // it is gone since
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b folder) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// add makes a folder after the delay, with the content of the folder from unless that is empty. It returns errBusy while
// an earlier request for the same is at work.
func (s *store) add(ctx context.Context, of kind, what folder, from string, delay time.Duration) (folder, error) {
	began := time.Now()
	if !s.occupy(what.ID) {
		return folder{}, errBusy
	}
	defer s.release(what.ID)
	if found, err := s.find(of, what.ID); err == nil {
		return found, nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return folder{}, ctx.Err()
	}
	path := s.path(of, what.ID)
	if err := os.RemoveAll(path); err != nil { // an earlier driver died here
		return folder{}, err
	}
	if from == "" {
		if err := os.Mkdir(path, 0o777); err != nil {
			return folder{}, err
		}
		if err := os.Chmod(path, 0o777); err != nil { // the runners' user writes to it
			return folder{}, err
		}
	} else if output, err := exec.CommandContext(ctx, "cp", "--archive", from, path).CombinedOutput(); err != nil {
		return folder{}, fmt.Errorf("copy %s: %w: %s", from, err, output)
	}
	what.Made, what.Took = time.Now(), time.Since(began).Milliseconds()
	content, err := json.Marshal(what)
	if err != nil {
		return folder{}, err
	}
	return what, os.WriteFile(path+".json", content, 0o600)
}

// remove deletes a folder; one that isn't there is no error.
func (s *store) remove(of kind, id string) error {
	if !validID.MatchString(id) {
		return nil
	}
	if !s.occupy(id) {
		return errBusy
	}
	defer s.release(id)
	path := s.path(of, id)
	if err := os.Remove(path + ".json"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.RemoveAll(path)
}

func (s *store) occupy(id string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.busy[id] {
		return false
	}
	s.busy[id] = true
	return true
}

func (s *store) release(id string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.busy, id)
}
