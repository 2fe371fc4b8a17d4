package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Deadlines of the steps, at least ten times as long as they take on two cores (3, 1 and 5 s).
const (
	apiServerLimit  = 60 * time.Second
	containerdLimit = 20 * time.Second
	nodeLimit       = 90 * time.Second
)

// fits checks for conditions under which a cluster would fail later, with errors that are hard to understand.
func (c *Cluster) fits(ctx context.Context) error {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("list addresses of this machine: %w", err)
	}
	if err := mustNotOverlap(addresses); err != nil {
		return err
	}
	if err := c.layout.mustBeShort(); err != nil {
		return err
	}
	if err := otherProxy(ctx, c.host); err != nil {
		return err
	}
	return c.ports.mustBeFree()
}

// start starts etcd, the API server and containerd side by side, then the components that need them.
func (c *Cluster) start(ctx context.Context, pause string) error {
	c.archives = append(c.archives, pause)
	if err := c.launch(c.etcd(), c.apiServer(), c.containerd(c.running[0])); err != nil {
		return err
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	err = c.progress.step("starting etcd, API server and containerd", func() error {
		var both errgroup.Group
		both.Go(func() error { return c.awaitAPIServer(ctx, client) })
		both.Go(func() error { return c.awaitContainerd(ctx, c.running[0], pause) })
		return both.Wait()
	})
	if err != nil {
		return err
	}
	if err := c.launch(c.clients()...); err != nil {
		return err
	}
	return c.progress.step("starting controller manager, scheduler, kubelet and kube-proxy", func() error {
		return c.awaitNode(ctx, client)
	})
}

func (c *Cluster) launch(components ...component) error {
	for _, started := range components {
		if err := c.processes.start(started.name, started.program, started.arguments...); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) client() (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client of the API server: %w", err)
	}
	return client, nil
}

func (c *Cluster) awaitAPIServer(ctx context.Context, client *kubernetes.Clientset) error {
	return c.await(ctx, "the API server", apiServerLimit, func() error {
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	})
}

// awaitNode waits for what the first pod needs: a ready node and its ServiceAccount.
func (c *Cluster) awaitNode(ctx context.Context, client *kubernetes.Clientset) error {
	return c.await(ctx, "the node", nodeLimit, func() error {
		if _, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{}); err != nil {
			return err
		}
		return nodeReady(ctx, client, nodeName)
	})
}

// await calls ask until it returns no error. It fails at the deadline with ask's last error, and immediately if a
// component has ended.
func (c *Cluster) await(ctx context.Context, what string, limit time.Duration, ask func() error) error {
	last := errors.New("not asked yet")
	err := poll(ctx, limit, func() bool {
		last = ask()
		return last == nil || c.processes.err() != nil
	})
	if failure := c.processes.err(); failure != nil {
		return failure
	}
	if ctx.Err() != nil {
		return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("%s is not ready after %s, logs are in %s: %w", what, limit, c.layout.path("log"), last)
	}
	return nil
}
