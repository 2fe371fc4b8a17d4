package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// node is one of the cluster's nodes: a kubelet and a containerd with files, ports, pod addresses and cgroups of their
// own. All share this machine with its address and one kube-proxy.
type node struct {
	name    string
	podCIDR string
	// suffix is that of the names of its programs' logs and of its kubeconfig, empty for the first node.
	suffix string
	dir    string
	// kubelet and kubeletHealth are ports.
	kubelet, kubeletHealth int
	// taint keeps pods away that don't tolerate it; empty for none.
	taint string
}

// SecondNodeTaint is the key of the taint, with the effect NoSchedule, that the second node has from the beginning.
// Tests that share the cluster have pods there only if these tolerate it.
const SecondNodeTaint = "harrier.test/second-node"

// nodeNames are also the names of the cgroups below which the pods of each run, and of the CNI networks.
var nodeNames = []string{nodeName, nodeName + "-2"}

// nodes returns both nodes, whether they run or not.
func (l layout) nodes(p ports) []node {
	return []node{
		{name: nodeNames[0], podCIDR: "10.244.0.0/24", dir: l.state(), kubelet: p.kubelet,
			kubeletHealth: p.kubeletHealth},
		{
			name: nodeNames[1], podCIDR: "10.244.1.0/24", dir: l.in("2"), kubelet: p.secondKubelet,
			kubeletHealth: p.secondKubeletHealth,
			suffix:        "-2", taint: SecondNodeTaint,
		},
	}
}

func (n node) in(elements ...string) string {
	return filepath.Join(append([]string{n.dir}, elements...)...)
}

func (n node) socket() string { return n.in("containerd.sock") }

func (c *Cluster) kubelet(n node) component {
	return component{"kubelet" + n.suffix, c.program("kubelet"), []string{
		"--config=" + n.in("kubelet.yaml"), "--kubeconfig=" + c.layout.userConfig("kubelet"+n.suffix),
		"--hostname-override=" + n.name, "--node-ip=" + c.nodeAddress, "--root-dir=" + n.in("kubelet"),
	}}
}

func (c *Cluster) containerd(n node) component {
	return component{"containerd" + n.suffix, c.host.containerd, []string{"--config=" + n.in("containerd.toml")}}
}

// AddNode starts the second node, with all images that the first one has, and returns its name when it is ready. It
// takes some seconds.
func (c *Cluster) AddNode(ctx context.Context) (string, error) {
	second := c.layout.nodes(c.ports)[1]
	client, err := c.client()
	if err != nil {
		return "", err
	}
	return second.name, c.progress.step("starting a second node", func() error {
		if err := c.launch(c.containerd(second)); err != nil {
			return err
		}
		if err := c.awaitContainerd(ctx, second, c.archives...); err != nil {
			return err
		}
		c.running = append(c.running, second)
		if err := c.launch(c.kubelet(second)); err != nil {
			return err
		}
		return c.await(ctx, "the second node", nodeLimit, func() error { return nodeReady(ctx, client, second.name) })
	})
}

// awaitContainerd waits until the node's containerd answers, and loads the archives of images.
func (c *Cluster) awaitContainerd(ctx context.Context, n node, archives ...string) error {
	err := c.await(ctx, "containerd", containerdLimit, func() error {
		_, err := run(ctx, c.host.ctr, "--address", n.socket(), "version")
		return err
	})
	for _, archive := range archives {
		if err == nil {
			err = c.importImage(ctx, n, archive)
		}
	}
	return err
}

func (c *Cluster) importImage(ctx context.Context, n node, archive string) error {
	image := filepath.Base(filepath.Dir(archive))
	file, err := os.Open(archive)
	if err != nil {
		return fmt.Errorf("load image onto node %s: %w", n.name, err)
	}
	defer func() { _ = file.Close() }() // was only read
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("load image onto node %s: %w", n.name, err)
	}
	command := exec.CommandContext(ctx, c.host.ctr, "--address", n.socket(), "--namespace", "k8s.io", "images",
		"import",
		"-")
	command.Stdin = &metered{from: file, what: "image " + image, total: info.Size(), progress: c.progress.target}
	if _, err := outputOf(command); err != nil {
		return fmt.Errorf("load image %s onto node %s: %w", image, n.name, err)
	}
	return nil
}

// nodeReady returns an error unless the node is ready.
func nodeReady(ctx context.Context, client *kubernetes.Clientset, name string) error {
	object, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return ready(object)
}

// ready returns an error with the kubelet's own reason unless the node is ready.
func ready(node *corev1.Node) error {
	for _, condition := range node.Status.Conditions {
		if condition.Type != corev1.NodeReady {
			continue
		}
		if condition.Status == corev1.ConditionTrue {
			return nil
		}
		return fmt.Errorf("node %s is not ready: %s", node.Name, condition.Message)
	}
	return fmt.Errorf("node %s has not reported yet", node.Name)
}
