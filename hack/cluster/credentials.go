package cluster

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// writeCredentials creates a new certificate authority, the certificates of all servers, and a kubeconfig for every
// client.
func writeCredentials(l layout, nodeAddress, apiServer string) error {
	if err := os.MkdirAll(l.pki(""), 0o700); err != nil {
		return fmt.Errorf("make directory of certificates: %w", err)
	}
	signer, err := newAuthority(time.Now())
	if err != nil {
		return err
	}
	private, public, err := serviceAccountKeys()
	if err != nil {
		return err
	}
	return errors.Join(
		signer.write(l, "ca"),
		os.WriteFile(l.pki("service-account.key"), private, 0o600),
		os.WriteFile(l.pki("service-account.pub"), public, 0o600),
		writeServerCertificates(l, signer, net.ParseIP(nodeAddress)),
		writeKubeconfigs(l, signer, apiServer),
	)
}

func writeServerCertificates(l layout, signer *authority, node net.IP) error {
	loopback := net.IPv4(127, 0, 0, 1)
	var failures []error
	for name, who := range map[string]identity{
		"apiserver": {
			name:      "kube-apiserver",
			addresses: []net.IP{loopback, node, net.ParseIP(apiServiceAddress)},
			names: []string{
				"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
				"kubernetes.default.svc.cluster.local",
			},
		},
		"kubelet": {name: nodeName, addresses: []net.IP{loopback, node},
			names: append([]string{"localhost"}, nodeNames...)},
		// These two are for the API server as a client: of the kubelet and of aggregated APIs.
		"apiserver-kubelet-client": {name: "apiserver-kubelet-client", groups: []string{"system:masters"}},
		"front-proxy-client":       {name: "front-proxy-client"},
	} {
		pair, err := signer.issue(who)
		if err != nil {
			return err
		}
		failures = append(failures, pair.write(l, name))
	}
	return errors.Join(failures...)
}

func writeKubeconfigs(l layout, signer *authority, apiServer string) error {
	for file, who := range map[string]identity{
		l.kubeconfig(): {name: "admin", groups: []string{"system:masters"}},
		l.userConfig("kubelet"): {name: "system:node:" + nodeNames[0],
			groups: []string{"system:nodes"}},
		l.userConfig("kubelet-2"): {name: "system:node:" + nodeNames[1],
			groups: []string{"system:nodes"}},
		l.userConfig("kube-controller-manager"): {name: "system:kube-controller-manager"},
		l.userConfig("kube-scheduler"):          {name: "system:kube-scheduler"},
		l.userConfig("kube-proxy"):              {name: "system:kube-proxy"},
	} {
		pair, err := signer.issue(who)
		if err != nil {
			return err
		}
		if err := clientcmd.WriteToFile(kubeconfigOf(who.name, pair, signer.certificate, apiServer), file); err != nil {
			return fmt.Errorf("write kubeconfig of %s: %w", who.name, err)
		}
	}
	return nil
}

// kubeconfigOf returns a kubeconfig with its certificates embedded, so that it can be copied elsewhere.
func kubeconfigOf(user string, pair keyPair, ca []byte, apiServer string) clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	config.Clusters[nodeName] = &clientcmdapi.Cluster{Server: apiServer, CertificateAuthorityData: ca}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.certificate, ClientKeyData: pair.key}
	config.Contexts[nodeName] = &clientcmdapi.Context{Cluster: nodeName, AuthInfo: user}
	config.CurrentContext = nodeName
	return *config
}
