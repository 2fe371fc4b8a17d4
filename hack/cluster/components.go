package cluster

import (
	"fmt"
	"path/filepath"
)

// component is a program of the cluster with its arguments. name is also that of its log.
type component struct {
	name      string
	program   string
	arguments []string
}

func (c *Cluster) program(name string) string { return filepath.Join(c.programs, name) }

func (c *Cluster) etcd() component {
	client := "http://" + hostPort("127.0.0.1", c.ports.etcdClient)
	peer := "http://" + hostPort("127.0.0.1", c.ports.etcdPeer)
	return component{"etcd", c.program("etcd"), []string{
		"--data-dir=" + c.layout.in("etcd"),
		"--unsafe-no-fsync", // the data need not survive a power failure
		"--log-level=warn",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
	}}
}

func (c *Cluster) apiServer() component {
	l := c.layout
	return component{"kube-apiserver", c.program("kube-apiserver"), []string{
		"--etcd-servers=http://" + hostPort("127.0.0.1", c.ports.etcdClient),
		"--bind-address=0.0.0.0", fmt.Sprintf("--secure-port=%d", c.ports.apiServer),
		"--advertise-address=" + c.nodeAddress,
		"--tls-cert-file=" + l.pki("apiserver.crt"), "--tls-private-key-file=" + l.pki("apiserver.key"),
		"--client-ca-file=" + l.pki("ca.crt"),
		"--kubelet-certificate-authority=" + l.pki("ca.crt"),
		"--kubelet-client-certificate=" + l.pki("apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + l.pki("apiserver-kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--requestheader-client-ca-file=" + l.pki("ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + l.pki("front-proxy-client.crt"), "--proxy-client-key-file=" +
			l.pki("front-proxy-client.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + l.pki("service-account.pub"),
		"--service-account-signing-key-file=" + l.pki("service-account.key"),
		"--service-cluster-ip-range=" + serviceCIDR,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true", "--profiling=false",
	}}
}

// clients returns the components that need a ready API server.
func (c *Cluster) clients() []component {
	return []component{c.controllerManager(), c.scheduler(), c.kubelet(c.running[0]), c.proxy()}
}

// authenticated returns the flags with which a component acts as a client of the API server, and lets the API server
// authenticate and authorize the component's own callers.
func (c *Cluster) authenticated(name string, port int) []string {
	kubeconfig := c.layout.userConfig(name)
	return []string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--leader-elect=false", "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		// As for the kubelet: bursts must not wait for client-side rate limits.
		"--kube-api-qps=200", "--kube-api-burst=400",
	}
}

func (c *Cluster) controllerManager() component {
	l := c.layout
	return component{"kube-controller-manager", c.program("kube-controller-manager"), append(
		c.authenticated("kube-controller-manager", c.ports.controllerManager),
		"--root-ca-file="+l.pki("ca.crt"),
		"--service-account-private-key-file="+l.pki("service-account.key"), "--use-service-account-credentials=true",
		"--cluster-signing-cert-file="+l.pki("ca.crt"), "--cluster-signing-key-file="+l.pki("ca.key"),
		"--allocate-node-cidrs=false",
	)}
}

func (c *Cluster) scheduler() component {
	return component{"kube-scheduler", c.program("kube-scheduler"),
		c.authenticated("kube-scheduler", c.ports.scheduler)}
}

func (c *Cluster) proxy() component {
	return component{"kube-proxy", c.program("kube-proxy"), []string{"--config=" + c.layout.config("kube-proxy.yaml")}}
}
