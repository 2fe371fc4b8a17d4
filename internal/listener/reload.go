package listener

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/go-logr/logr"

	"github.com/harrier-ci/harrier/internal/listener/config"
)

// mountedData is the link by which the kubelet changes all files of a mounted Secret at once.
const mountedData = "..data"

// watchFile returns a channel that receives a value after the file, or the link mountedData next to it, has changed. Several
// changes may come as one value. Other files in the directory don't count: one may be the log, which grows with each change.
func watchFile(ctx context.Context, path string, log logr.Logger) (<-chan struct{}, error) {
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

// rereadConfigAfter is how long the file is treated as unchanged. A change goes unnoticed if the kernel has no watch left, or if it
// comes between the first read and the watch.
const rereadConfigAfter = time.Minute

// rereadConfig reads the configuration if it has not been read for a while.
func (l *loop) rereadConfig(now time.Time) {
	switch {
	case l.configReadAt.IsZero():
		l.configReadAt = now // Run has read it
	case now.Sub(l.configReadAt) >= rereadConfigAfter && !l.stopping:
		l.readConfig()
	}
}

// readConfig reads the configuration again and puts changes into effect. An invalid configuration changes nothing.
func (l *loop) readConfig() {
	l.configReadAt = l.clock.Now()
	read, err := l.read()
	if err != nil {
		l.log.Error(err, "The new configuration is not used")
		return
	}
	before := l.config
	if reflect.DeepEqual(before, read) {
		return
	}
	now := l.clock.Now()
	l.config = read
	if needsNewProcess(before, read) {
		l.log.Info(restarting)
		l.stopping = true
		return
	}
	l.log.Info("Configuration changed", "minRunners", read.MinRunners, "maxRunners", read.MaxRunners, "scaleSetID", read.RunnerScaleSetID)
	l.apply(read)
	l.scaler.minRunners, l.scaler.maxRunners = read.MinRunners, read.MaxRunners
	l.scaler.evaluate(now)
	l.showDesired()
	if read.RunnerScaleSetID != before.RunnerScaleSetID {
		l.forgetScaleSet()
		l.reconnect(now)
	} else if !sameAccess(before, read) {
		l.reconnect(now)
	}
}

const restarting = "The configuration names another EphemeralRunnerSet or another config URL, restarting"

// needsNewProcess reports whether the configuration has changed so much that nothing of this process can be kept.
func needsNewProcess(before, read *config.Config) bool {
	return before.ConfigureURL != read.ConfigureURL ||
		before.EphemeralRunnerSetNamespace != read.EphemeralRunnerSetNamespace ||
		before.EphemeralRunnerSetName != read.EphemeralRunnerSetName
}

// sameAccess reports whether a client made from one configuration can be used with the other.
func sameAccess(a, b *config.Config) bool {
	return reflect.DeepEqual(a.Credentials, b.Credentials) && a.ServerRootCA == b.ServerRootCA && reflect.DeepEqual(a.Addresses, b.Addresses) &&
		a.VaultType == b.VaultType && a.VaultLookupKey == b.VaultLookupKey && reflect.DeepEqual(a.AzureKeyVault, b.AzureKeyVault)
}

// forgetScaleSet drops what belongs to the previous scale set: its session, messages and offers.
func (l *loop) forgetScaleSet() {
	if l.session.current != nil {
		l.closeSession(l.session.current)
	}
	l.session.sessionID, l.offers.waiting, l.offers.search = "", nil, search{}
	l.offers.singly, l.offers.failure = 0, nil
	clear(l.polls.unacked)
}
