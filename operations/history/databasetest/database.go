// Package databasetest runs a test on each database that the ledger may have: SQLite, and a PostgreSQL of its own from
// Debian's packages.
package databasetest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Each runs the test with an empty database of each kind.
func Each(t *testing.T, test func(t *testing.T, at string)) {
	t.Run("SQLite", func(t *testing.T) { test(t, SQLite(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, PostgreSQL(t)) })
}

// SQLite returns the name of a file for a database.
func SQLite(t testing.TB) string { return filepath.Join(t.TempDir(), "ledger.db") }

// server is a PostgreSQL that the tests of one process share; each has a database in it.
type server struct {
	sync.Mutex
	directory string
	databases int
	err       error
}

var shared server

// PostgreSQL returns the URL of an empty database.
func PostgreSQL(t testing.TB) string {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.directory == "" && shared.err == nil {
		shared.err = shared.start()
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	shared.databases++
	name := fmt.Sprintf("test%d", shared.databases)
	if out, err := command("createdb", "--host", shared.directory, "--username", "ledger",
		name).CombinedOutput(); err != nil {
		t.Fatalf("create a database: %v\n%s", err, out)
	}
	return "postgres://ledger@/" + name + "?host=" + shared.directory
}

// Main runs the tests of a package, and ends the PostgreSQL that they have started. A package that uses Each calls it
// in TestMain.
func Main(m *testing.M) {
	code := m.Run()
	shared.stop()
	os.Exit(code)
}

// start starts a server that listens on a socket in a directory of its own. PostgreSQL refuses to run as root, so it
// runs as the user of Debian's package.
func (s *server) start() error {
	if _, err := binary("postgres"); err != nil {
		return err
	}
	directory, err := os.MkdirTemp("", "ledger-postgresql-")
	if err != nil {
		return err
	}
	if os.Getuid() == 0 {
		uid, gid, err := account()
		if err != nil {
			return err
		}
		if err := os.Chown(directory, uid, gid); err != nil {
			return err
		}
	}
	data := filepath.Join(directory, "data")
	initialize := command("initdb", "--pgdata", data, "--username", "ledger", "--auth", "trust", "--encoding", "UTF8",
		"--locale", "C.UTF-8", "--no-sync")
	if out, err := initialize.CombinedOutput(); err != nil {
		return fmt.Errorf("make a PostgreSQL for tests: %w\n%s", err, out)
	}
	s.directory = directory
	return Start()
}

// Stop ends the server in the middle of its work, as a power cut would; Start starts it again. No other test of the
// process may run beside a test that uses them.
func Stop() error { return pgCtl("stop", "--mode", "immediate", "--wait") }

// Start starts the server that Stop has ended.
func Start() error {
	log := filepath.Join(shared.directory, "log")
	err := pgCtl("start", "--wait", "--timeout", "120", "--log", log,
		"--options", "-c listen_addresses='' -c unix_socket_directories="+shared.directory+
			" -c fsync=off -c shared_buffers=32MB")
	if err != nil {
		text, _ := os.ReadFile(log)
		return fmt.Errorf("%w\n%s", err, text)
	}
	return nil
}

func pgCtl(arguments ...string) error {
	var out bytes.Buffer
	run := command("pg_ctl", slices.Concat(arguments, []string{"--pgdata", filepath.Join(shared.directory, "data")})...)
	run.Stdout, run.Stderr = &out, &out
	if err := run.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", run.Args, err, out.String())
	}
	return nil
}

func (s *server) stop() {
	if s.directory == "" {
		return
	}
	_ = pgCtl("stop", "--mode", "immediate")
	_ = os.RemoveAll(s.directory)
}

// command returns a program of PostgreSQL, which runs as the user of its package if this process is root.
func command(name string, arguments ...string) *exec.Cmd {
	program, err := binary(name)
	if err != nil {
		program = name
	}
	cmd := exec.Command(program, arguments...)
	cmd.Dir = "/"
	cmd.Env = append(slices.DeleteFunc(os.Environ(),
		func(variable string) bool { return strings.HasPrefix(variable, "PG") }), "LC_ALL=C.UTF-8")
	if os.Getuid() == 0 {
		if uid, gid, err := account(); err == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		}
	}
	return cmd
}

// binary finds a program of the newest PostgreSQL on the machine. Debian has them outside of PATH.
func binary(name string) (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		return slices.MaxFunc(found, func(a, b string) int { return len(a) - len(b) }), nil
	}
	if program, err := exec.LookPath(name); err == nil {
		return program, nil
	}
	return "", fmt.Errorf("the program %s of PostgreSQL is missing, which these tests run on: apt-get install "+
		"postgresql",
		name)
}

func account() (uid, gid int, err error) {
	account, err := user.Lookup("postgres")
	if err != nil {
		return 0, 0, fmt.Errorf("PostgreSQL refuses to run as root: %w; apt-get install postgresql makes the user", err)
	}
	uid, err = strconv.Atoi(account.Uid)
	if err != nil {
		return 0, 0, err
	}
	gid, err = strconv.Atoi(account.Gid)
	return uid, gid, err
}

// Client runs a client program of PostgreSQL, such as pg_dump, on the database of a URL, and returns its output.
func Client(t testing.TB, at, input, name string, arguments ...string) string {
	t.Helper()
	program := command(name, append(arguments, "--dbname", at)...)
	var stderr bytes.Buffer
	program.Stdin, program.Stderr = strings.NewReader(input), &stderr
	out, err := program.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", program.Args, err, stderr.String())
	}
	return string(out)
}
