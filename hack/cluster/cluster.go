package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Cluster is a running Kubernetes cluster of one node, or two. Its processes outlive this one, so the caller must call
// Down, or Leave if it is to keep running.
type Cluster struct {
	layout      layout
	ports       ports
	host        host
	programs    string
	nodeAddress string
	progress    progress
	processes   *processes
	lock        *os.File
	// running are the nodes that have been started, and archives those of the images that each of them has.
	running  []node
	archives []string
	// left is closed when the cluster is no longer this process's to look after.
	left chan struct{}
}

// Up starts a cluster and returns when its node is ready and pods can be created. A cluster that an earlier run left in
// the same directory is removed first. Up fails, after it has cleaned up again, if the machine is not suitable, another
// process uses the directory, a port is taken, or a component does not start.
//
// It takes 6 s if all programs have been built, which takes minutes the first time.
func Up(ctx context.Context, options Options) (*Cluster, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := Preflight(ctx, options.Progress); err != nil {
		return nil, err
	}
	c, err := newCluster(options)
	if err != nil {
		return nil, err
	}
	if err := c.up(ctx, options.Root); err != nil {
		// The caller's context may be what failed. Cleaning up has deadlines of its own.
		return nil, errors.Join(err, c.Down(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// Remove removes a cluster that was left running, or whose process was killed. Only Dir and Progress are used. It does
// nothing if there is no cluster, and fails if another process is using it.
func Remove(ctx context.Context, options Options) error {
	options.Root = "." // required, but nothing is built here
	options, err := options.withDefaults()
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("removing a cluster needs root; run the same with sudo")
	}
	c, err := newCluster(options)
	if err != nil {
		return err
	}
	return c.Down(ctx)
}

func newCluster(options Options) (*Cluster, error) {
	found, err := findHost()
	if err != nil {
		return nil, err
	}
	l := layout{dir: options.Dir}
	lock, err := takeLock(l)
	if err != nil {
		return nil, err
	}
	if err := adoptOrphans(); err != nil {
		return nil, err
	}
	left := make(chan struct{})
	go reapShims(left)
	ports := portsFrom(options.FirstPort)
	return &Cluster{
		layout: l, ports: ports, host: found, running: l.nodes(ports)[:1:1],
		progress: progress{options.Progress}, processes: newProcesses(l), lock: lock, left: left,
	}, nil
}

// takeLock keeps two processes from using the same directory. The lock is released when the process ends, however it
// ends.
func takeLock(l layout) (*os.File, error) {
	lock, err := os.OpenFile(l.lock(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock of the cluster: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close() // nothing was written
		return nil, fmt.Errorf("another process is using the cluster in %s; wait for it or stop it with Ctrl-C: %w",
			l.dir,
			err)
	}
	return lock, nil
}

func (c *Cluster) up(ctx context.Context, root string) error {
	pause, err := c.build(ctx, root)
	if err != nil {
		return err
	}
	cleaned := func() error { return clean(ctx, c.layout, c.host) }
	if err := c.progress.step("removing what an earlier run left", cleaned); err != nil {
		return err
	}
	if err := c.prepare(ctx); err != nil {
		return err
	}
	return c.start(ctx, pause)
}

// build finds or builds the programs of Kubernetes and returns the path of the pause image's archive.
func (c *Cluster) build(ctx context.Context, root string) (string, error) {
	programs, err := Programs(ctx, root, c.progress.target)
	if err != nil {
		return "", err
	}
	c.programs = programs
	directory, err := Image(ctx, root, c.progress.target, "pause", pauseImage)
	return filepath.Join(directory, "image.tar"), err
}

// prepare checks the machine and creates everything that has to exist before the first process starts.
func (c *Cluster) prepare(ctx context.Context) error {
	if err := c.fits(ctx); err != nil {
		return err
	}
	for _, directory := range []string{c.layout.state(), c.layout.path("log")} {
		if err := os.MkdirAll(directory, 0o700); err != nil {
			return fmt.Errorf("make cluster directory: %w", err)
		}
	}
	address, err := nodeAddress(ctx, c.host)
	if err != nil {
		return err
	}
	c.nodeAddress = address
	for _, step := range []func() error{
		func() error {
			return writeCredentials(c.layout, address, "https://"+hostPort(address, c.ports.apiServer))
		},
		func() error { return writeConfig(c.layout, c.ports, c.host.cniPlugins) },
		func() error { return forwardPackets(c.layout) },
		func() error { return masquerade(ctx, c.host) },
		makeCgroups,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// Down stops the cluster and removes everything that it made except for the logs. It may be called twice.
func (c *Cluster) Down(ctx context.Context) error {
	if c.lock == nil {
		return nil
	}
	c.processes.expectEnd()
	err := c.progress.step("removing the cluster", func() error { return clean(ctx, c.layout, c.host) })
	if err == nil {
		c.processes.reaped.Wait()
	}
	c.Leave()
	return err
}

// Leave gives up the cluster without stopping it. Remove, or the next Up with the same directory, finds it.
func (c *Cluster) Leave() {
	if c.lock != nil {
		close(c.left)
		_ = c.lock.Close() // gives up the lock; nothing was written
		c.lock = nil
	}
}
