package jobhooks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
)

// Linux shows control groups at this path, also in containers.
const controlGroups = "/sys/fs/cgroup"

// The other tests have recorded files of version 1 and 2. This one reads the files of this machine's kernel: of a group
// whose limits a job has reached if this process may make one, else of the process's own group.
func TestFiguresOfThisKernel(t *testing.T) {
	h := newHooks(t, []string{"sh", "-e"})
	directory, err := limited(t)
	if err != nil {
		t.Logf("reading the process's own group: %v", err)
		printed := h.run("completed.sh", "CGROUP="+controlGroups)
		if !regexp.MustCompile(`(?m)^(CPU: \d+\.\d s used|Memory: peak )`).MatchString(printed) {
			t.Errorf("printed\n%s", printed)
		}
		return
	}
	printed := h.run("completed.sh", "CGROUP="+directory)
	for _, want := range []string{
		`(?m)^Memory: peak (6[0-4]\.\d) MiB of 64\.0 MiB$`, `(?m)^OOM kills: [1-9]`, `::warning title=Out of memory::`,
		`(?m)^CPU: \d+\.\d s used, throttled for \d+\.\d s, in \d+ % of the periods$`, `::warning title=CPU limit reached::`,
	} {
		if !regexp.MustCompile(want).MatchString(printed) {
			t.Errorf("the kernel's figures give no %q:\n%s", want, printed)
		}
	}
	if line := h.read(h.termination); !strings.Contains(line, `"memoryLimitBytes":67108864,"oomKills":`) {
		t.Errorf("termination message %s", line)
	}
}

// limited runs a job in a control group with 64 MiB of memory and a fiftieth of a processor, and returns the directory
// of the group as a container would see it. The job wants more of both; it gets as much processor on a busy machine,
// too. limited fails if this process may not make a group.
func limited(t *testing.T) (directory string, err error) {
	t.Helper()
	name := fmt.Sprintf("harrier-jobhooks-%d", os.Getpid())
	files := map[string]map[string]string{ // in version 1, by controller; those of version 2 have one directory
		"memory": {"memory.limit_in_bytes": "67108864"}, "cpu": {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "2000"}, "cpuacct": nil, "blkio": nil,
	}
	at := func(controller string) string { return filepath.Join(controlGroups, controller, name) }
	directory = t.TempDir()
	if _, err := os.Stat(filepath.Join(controlGroups, "cgroup.controllers")); err == nil {
		files = map[string]map[string]string{"": {"memory.max": "67108864", "cpu.max": "2000 100000"}}
		directory = at("")
	}
	var joins []string
	for controller, limits := range files {
		if err := os.Mkdir(at(controller), 0o700); err != nil {
			return "", err
		}
		t.Cleanup(func() { removeGroup(t, at(controller)) })
		for file, value := range limits {
			if err := os.WriteFile(filepath.Join(at(controller), file), []byte(value), 0o600); err != nil {
				return "", err
			}
		}
		if controller != "" {
			if err := os.Symlink(at(controller), filepath.Join(directory, controller)); err != nil {
				return "", err
			}
		}
		joins = append(joins, "echo $$ >"+filepath.Join(at(controller), "cgroup.procs"))
	}
	job := strings.Join(joins, "; ") +
		`; timeout 3 sh -c 'while :; do :; done'; head -c 200000000 /dev/zero | tail >/dev/null; exit 0`
	if output, err := exec.CommandContext(t.Context(), "sh", "-c", job).CombinedOutput(); err != nil {
		return "", fmt.Errorf("run a job in the group: %w: %s", err, output)
	}
	return directory, nil
}

// If a job has started all processes that it may, the hooks print the figures that need none, and the job goes on.
func TestWhereNoProcessCanBeStarted(t *testing.T) {
	group := filepath.Join(controlGroups, "pids", fmt.Sprintf("harrier-jobhooks-%d", os.Getpid()))
	if _, err := os.Stat(filepath.Join(controlGroups, "cgroup.controllers")); err == nil {
		group = filepath.Join(controlGroups, filepath.Base(group))
	}
	limit := `ulimit -u 1 2>/dev/null || ulimit -p 1` // has no effect on root
	if err := os.Mkdir(group, 0o700); err == nil {
		t.Cleanup(func() { removeGroup(t, group) })
		if err := os.WriteFile(filepath.Join(group, "pids.max"), []byte("1"), 0o600); err != nil {
			t.Fatal(err)
		}
		limit = `echo $$ >"$0/cgroup.procs"`
	}
	inEachShell(t, func(t *testing.T, h *hooks) {
		h.shell = append([]string{"sh", "-c", limit + ` && exec "$@"`, group}, h.shell...)
		printed := h.run("started.sh") + h.run("completed.sh", "CGROUP="+absolute(t, "v1"))
		for _, want := range []string{"Node: worker-3\n", "Memory: peak 1.0 GiB", "CPU: 61.2 s used",
			"Network: 3.0 GiB received"} {
			if !strings.Contains(printed, want) {
				t.Errorf("no %q in\n%s", want, printed)
			}
		}
	})
}

// removeGroup removes a group after its last process is gone.
func removeGroup(t *testing.T, directory string) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() error { return os.Remove(directory) }, 10*time.Second).
		Should(gomega.Or(gomega.Succeed(), gomega.MatchError(os.ErrNotExist)))
}
