package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// host has the paths of this machine's programs that come from packages.
type host struct {
	containerd, ctr, nft, ip string
	// cniPlugins is a directory.
	cniPlugins string
}

// needs maps each program that a cluster uses to the Debian package that contains it.
var needs = map[string]string{
	"containerd": "containerd", "containerd-shim-runc-v2": "containerd", "ctr": "containerd",
	"runc": "runc", "nft": "nftables", "ip": "iproute2",
}

// Packages install CNI plugins in cniDirectories: Debian's own, and those that follow upstream.
var cniDirectories = []string{"/usr/lib/cni", "/opt/cni/bin"}

const cniPackage = "containernetworking-plugins"

// Preflight checks that a cluster can run on this machine and installs missing packages, for which it needs the
// network. Its errors name the next step.
func Preflight(ctx context.Context, progress io.Writer) error {
	if os.Geteuid() != 0 {
		return errors.New("a cluster on this machine needs root (containers, network namespaces, cgroups); run " +
			"the same with sudo")
	}
	missing := missingPackages(lookProgram, cniPlugins)
	if len(missing) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("missing: %s. They can only be installed automatically on Debian and systems derived "+
			"from it; install them and try again",
			strings.Join(missing, ", "))
	}
	return installPackages(ctx, progress, missing...)
}

// NeedPackage installs a Debian package unless this machine has the program that it contains.
func NeedPackage(ctx context.Context, program, name string, progress io.Writer) error {
	if _, err := lookProgram(program); err == nil {
		return nil
	}
	return installPackages(ctx, progress, name)
}

func installPackages(ctx context.Context, progress io.Writer, names ...string) error {
	_, _ = fmt.Fprintf(progress, "installing packages: %s\n", strings.Join(names, " "))
	if err := apt(ctx, progress, "update"); err != nil {
		return err
	}
	return apt(ctx, progress, append([]string{"install", "-y", "--no-install-recommends"}, names...)...)
}

// missingPackages returns the missing packages, none twice, in the order in which their first programs are looked for.
func missingPackages(look func(string) (string, error), cni func() (string, error)) []string {
	var missing []string
	for _, program := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc", "nft", "ip"} {
		if _, err := look(program); err != nil && (len(missing) == 0 || missing[len(missing)-1] != needs[program]) {
			missing = append(missing, needs[program])
		}
	}
	if _, err := cni(); err != nil {
		missing = append(missing, cniPackage)
	}
	return missing
}

// apt runs apt-get without questions and reports its progress. Its error has the last ten lines of output.
func apt(ctx context.Context, progress io.Writer, arguments ...string) error {
	status, theirs, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("apt-get %s: %w", arguments[0], err)
	}
	// The first extra file is the child's descriptor 3.
	command := exec.CommandContext(ctx, "apt-get", append([]string{"-q", "-o", "APT::Status-Fd=3"}, arguments...)...)
	command.ExtraFiles = []*os.File{theirs}
	command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	go func() {
		for lines := bufio.NewScanner(status); lines.Scan(); {
			if text := aptStatus(lines.Text()); text != "" {
				_, _ = fmt.Fprintf(progress, "apt-get %s: %s\n", arguments[0], text)
			}
		}
	}()
	output, err := command.CombinedOutput()
	// A daemon that a package has started may keep the descriptor open, so the end of the lines is not waited for.
	_, _ = theirs.Close(), status.Close()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(output)), "\n")
		return fmt.Errorf("apt-get %s: %w\n%s", arguments[0], err, strings.Join(lines[max(0, len(lines)-10):], "\n"))
	}
	return nil
}

// aptStatus returns the message of a status line of apt-get, such as "dlstatus:2:41.3:Retrieving file 2 of 5 (3s
// remaining)" or "pmstatus:runc:60:Installing runc (amd64)". Other lines say nothing.
func aptStatus(line string) string {
	fields := strings.SplitN(line, ":", 4)
	if len(fields) < 4 || (fields[0] != "dlstatus" && fields[0] != "pmstatus") {
		return ""
	}
	percent, err := strconv.ParseFloat(fields[2], 64)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%.0f %%, %s", percent, fields[3])
}

func cniPlugins() (string, error) {
	for _, directory := range cniDirectories {
		if _, err := os.Stat(filepath.Join(directory, "ptp")); err == nil {
			return directory, nil
		}
	}
	return "", fmt.Errorf("no CNI plugins in %s", strings.Join(cniDirectories, " or "))
}

// findHost locates all programs after Preflight. Those in sbin are found even if PATH lacks it, as it does after su.
func findHost() (host, error) {
	var found host
	var failures []error
	for name, target := range map[string]*string{
		"containerd": &found.containerd, "ctr": &found.ctr, "nft": &found.nft, "ip": &found.ip,
	} {
		path, err := lookProgram(name)
		*target = path
		failures = append(failures, err)
	}
	plugins, err := cniPlugins()
	found.cniPlugins = plugins
	return found, errors.Join(append(failures, err)...)
}

func lookProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, directory := range []string{"/usr/sbin", "/sbin"} {
		if path, sbinErr := exec.LookPath(filepath.Join(directory, name)); sbinErr == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("find program %s: %w", name, err)
}

// run executes a program of the host and returns its stdout. Its error has stderr.
func run(ctx context.Context, program string, arguments ...string) (string, error) {
	return outputOf(exec.CommandContext(ctx, program, arguments...))
}

func outputOf(command *exec.Cmd) (string, error) {
	var output, complaint strings.Builder
	command.Stdout, command.Stderr = &output, &complaint
	if err := command.Run(); err != nil {
		return output.String(), fmt.Errorf("%s %s: %w: %s",
			filepath.Base(command.Path), strings.Join(command.Args[1:], " "), err,
			strings.TrimSpace(complaint.String()))
	}
	return output.String(), nil
}
