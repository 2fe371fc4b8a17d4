package config

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"

	"github.com/fsnotify/fsnotify"
	"github.com/go-logr/logr"
)

// mountedData is the link by which the kubelet changes all files of a mounted Secret together.
const mountedData = "..data"

// Watch returns a channel that receives a value after the file, or the link mountedData next to it, has changed.
// Several changes may come as one value. Other files in the directory don't count: one may be the log, which grows with
// each change.
func Watch(ctx context.Context, path string, log logr.Logger) (<-chan struct{}, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch the configuration: %w", err)
	}
	if err := watcher.Add(filepath.Dir(path)); err != nil {
		_ = watcher.Close()
		return nil, fmt.Errorf("watch the configuration: %w", err)
	}
	changed := make(chan struct{}, 1)
	go func() {
		defer watcher.Close()
		for {
			select {
			case <-ctx.Done():
				return
			case err := <-watcher.Errors:
				log.Error(err, "Watching the configuration failed, a change may be seen late")
			case event := <-watcher.Events:
				if !concerns(path, event.Name) {
					continue
				}
			}
			select {
			case changed <- struct{}{}:
			default: // an earlier value is still waiting and says the same
			}
		}
	}()
	return changed, nil
}

// concerns reports whether an event for name, in the same directory, may mean that the file at path has changed.
func concerns(path, name string) bool {
	base := filepath.Base(name)
	return base == filepath.Base(path) || base == mountedData
}

// NeedsNewProcess reports whether read differs so much that nothing of a process with the configuration c can be kept.
func (c *Config) NeedsNewProcess(read *Config) bool {
	return c.ConfigureURL != read.ConfigureURL ||
		c.EphemeralRunnerSetNamespace != read.EphemeralRunnerSetNamespace ||
		c.EphemeralRunnerSetName != read.EphemeralRunnerSetName
}

// SameAccess reports whether a client made from one configuration can be used with the other.
func (c *Config) SameAccess(other *Config) bool {
	return reflect.DeepEqual(c.Credentials, other.Credentials) && c.ServerRootCA == other.ServerRootCA &&
		reflect.DeepEqual(c.Addresses, other.Addresses) &&
		c.VaultType == other.VaultType && c.VaultLookupKey == other.VaultLookupKey &&
		reflect.DeepEqual(c.AzureKeyVault, other.AzureKeyVault)
}
