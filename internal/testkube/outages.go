package testkube

import (
	"context"
	"fmt"
)

// StopAPIServer kills the API server as a crash would: connections and watches break, and nothing listens on its port.
// etcd keeps the data.
func (c *Cluster) StopAPIServer() error { return c.kill("kube-apiserver") }

// PauseAPIServer freezes the API server until the returned function is called: connections stay open, but nothing
// answers.
func (c *Cluster) PauseAPIServer() (resume func() error, err error) {
	return c.freeze("kube-apiserver")
}

// StartAPIServer starts the API server, on the same port as before, and returns when it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	if err := c.run("kube-apiserver", c.apiServerArguments()); err != nil {
		return err
	}
	return c.AwaitAPIServer(ctx)
}

// StopEtcd kills etcd as a crash would. Writes that it has acknowledged are kept. The API server keeps running and
// refuses requests that it can't answer from its cache.
func (c *Cluster) StopEtcd() error { return c.kill("etcd") }

// PauseEtcd freezes etcd until the returned function is called. Meanwhile requests to the API server hang, and fail if
// that lasts too long, although etcd may still carry them out later.
func (c *Cluster) PauseEtcd() (resume func() error, err error) { return c.freeze("etcd") }

// StartEtcd starts etcd on the same ports and with the same data as before.
func (c *Cluster) StartEtcd() error { return c.run("etcd", c.etcdArguments()) }

// AwaitAPIServer returns when an API server that kept running without etcd is ready again: it takes some seconds to
// reconnect.
func (c *Cluster) AwaitAPIServer(ctx context.Context) error {
	return c.await(ctx, "kube-apiserver", func(ctx context.Context) (bool, error) {
		return c.apiServerReady(ctx), nil
	})
}

// APIServerID returns the process ID of kube-apiserver, 0 if it doesn't run.
func (c *Cluster) APIServerID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if running := c.processes["kube-apiserver"]; running != nil {
		return running.ID()
	}
	return 0
}

// kill ends a program of the control plane with SIGKILL. It does nothing if the program does not run.
func (c *Cluster) kill(program string) error {
	c.mu.Lock()
	running := c.processes[program]
	delete(c.processes, program)
	c.mu.Unlock()
	if running == nil {
		return nil
	}
	return running.Stop(0)
}

func (c *Cluster) freeze(program string) (resume func() error, err error) {
	c.mu.Lock()
	running := c.processes[program]
	c.mu.Unlock()
	if running == nil {
		return nil, fmt.Errorf("pause %s: it isn't running", program)
	}
	return running.Resume, running.Pause()
}
