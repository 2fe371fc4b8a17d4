package databasetest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Pooled returns the URL of a PgBouncer before a PostgreSQL, from Debian's package, with a pool_mode and other settings.
func Pooled(t testing.TB, at, mode string, others ...string) string {
	t.Helper()
	address, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Fatal("the program pgbouncer is missing, which this test runs on: apt-get install pgbouncer")
	}
	directory, err := os.MkdirTemp("", "ledger-pgbouncer-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(directory) })
	settings := fmt.Sprintf("[databases]\n* = host=%s\n[pgbouncer]\nlisten_addr =\nlisten_port = 6432\nunix_socket_dir = %s\n"+
		"auth_type = trust\nauth_file = %[2]s/users\npool_mode = %s\nlogfile = %[2]s/log\n%[4]s\n", address.Query().Get("host"), directory, mode,
		strings.Join(others, "\n"))
	run := command("pgbouncer", "--quiet", filepath.Join(directory, "settings"))
	run.Path, run.Err = program, nil
	for name, content := range map[string]string{"settings": settings, "users": `"ledger" ""` + "\n"} {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if run.SysProcAttr != nil {
		owner := run.SysProcAttr.Credential
		if err := os.Chown(directory, int(owner.Uid), int(owner.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Process.Kill(); _ = run.Wait() })
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		_, err := os.Stat(filepath.Join(directory, ".s.PGSQL.6432"))
		return err == nil, nil
	})
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(directory, "log"))
		t.Fatalf("PgBouncer doesn't listen: %v\n%s", err, log)
	}
	query := address.Query()
	query.Set("host", directory)
	query.Set("port", "6432")
	address.RawQuery = query.Encode()
	return address.String()
}
