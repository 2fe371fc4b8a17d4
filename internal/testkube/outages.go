package testkube

import (
	"context"
	"fmt"
)

// StopAPIServer kills the API server as a crash would: connections and watches break, nothing answers its port.
// Etcd keeps the data.
func (c *Cluster) StopAPIServer() error { return c.kill("kube-apiserver") }

// PauseAPIServer freezes the API server: connections stay open and nothing answers, until the returned function is called.
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

// StopEtcd kills etcd as a crash would. What it has confirmed is kept; the API server goes on without it, and refuses
// whatever its cache can't answer.
func (c *Cluster) StopEtcd() error { return c.kill("etcd") }

// PauseEtcd freezes etcd until the returned function is called. Requests to the API server hang meanwhile, and those that
// take too long fail, though etcd may do afterwards what they asked for.
func (c *Cluster) PauseEtcd() (resume func() error, err error) { return c.freeze("etcd") }

// StartEtcd starts etcd, on the same ports and with the data of before.
func (c *Cluster) StartEtcd() error { return c.run("etcd", c.etcdArguments()) }

// AwaitAPIServer returns when the API server, which has run on, is ready again: it goes back to an etcd that was away after
// some seconds only.
func (c *Cluster) AwaitAPIServer(ctx context.Context) error {
	return c.await(ctx, "kube-apiserver", func(ctx context.Context) (bool, error) {
		return c.apiServerReady(ctx), nil
	})
}

// kill ends a program of the control plane unless it has ended.
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
