package load

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/test/rig"
)

// The manager serves profiles at profileAddress if -profile asks for them.
const profileAddress = "127.0.0.1:16060"

// profileLength exceeds the time in which two cores create the pods of a burst of 1,000 jobs.
const profileLength = 15 * time.Second

// startProfile begins a CPU profile of the manager. The returned function takes a heap profile and a dump of the
// goroutines, waits for the CPU profile, and keeps the audit log.
func (s *settings) startProfile(t *testing.T, r *rig.Rig) func() {
	t.Helper()
	if s.profile == "" {
		return func() {}
	}
	var profiles sync.WaitGroup
	fetch := func(what, file string) {
		if err := download(t.Context(), "http://"+profileAddress+"/debug/pprof/"+what,
			filepath.Join(s.profile, file)); err != nil {
			t.Error(err)
		}
	}
	profiles.Go(func() { fetch(fmt.Sprintf("profile?seconds=%d", int(profileLength.Seconds())), "cpu.pprof") })
	return func() {
		fetch("heap", "heap.pprof")
		fetch("goroutine?debug=1", "goroutines.txt")
		profiles.Wait()
		s.keepAuditLog(t, r)
	}
}

// keepAuditLog copies the API server's audit log, which is removed with the cluster.
func (s *settings) keepAuditLog(t *testing.T, r *rig.Rig) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(r.Cluster.LogDirectory(), "audit.log"))
	if err == nil {
		err = os.WriteFile(filepath.Join(s.profile, "audit.log"), content, 0o600)
	}
	if err != nil {
		t.Error(err)
	}
}

func download(ctx context.Context, url, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("fetch a profile: %w", err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("fetch a profile: %w", err)
	}
	return os.WriteFile(path, content, 0o600)
}
