package testkube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/harrier-ci/harrier/internal/testkube/ports"
)

// controllers are those of kube-controller-manager that tests rely on. Pod garbage collection and node lifecycle are
// left out: they delete pods whose Node object is missing, and fake nodes have none.
var controllers = []string{
	"garbage-collector-controller", "namespace-controller", "resourcequota-controller",
	"serviceaccount-controller", "root-ca-certificate-publisher-controller",
	"deployment-controller", "replicaset-controller", "statefulset-controller", "job-controller",
	"disruption-controller",
	"persistentvolumeclaim-protection-controller",
}

// adminKubeconfig is the name of the administrator's kubeconfig in the cluster's directory.
const adminKubeconfig = "admin.kubeconfig"

// controlPlane has what the programs of a cluster share: ports, files and the administrator's token.
type controlPlane struct {
	directory                   string
	etcdPort, peerPort, apiPort int
	certificate, adminToken     string
	audit, auditObjects         bool
	ipv6                        bool
	apiServerFlags              []string
}

func (p *controlPlane) path(name string) string { return filepath.Join(p.directory, name) }

func (p *controlPlane) url() string {
	return "https://" + net.JoinHostPort(p.address(), strconv.Itoa(p.apiPort))
}

// address is the API server's, without a port.
func (p *controlPlane) address() string {
	if p.ipv6 {
		return "::1"
	}
	return "127.0.0.1"
}

// services are the addresses of Services.
func (p *controlPlane) services() string {
	if p.ipv6 {
		return "fd00:10:96::/112"
	}
	return "10.96.0.0/16"
}

// prepare picks ports and writes certificates, keys, tokens and policy.
func (p *controlPlane) prepare() error {
	taken, err := ports.Take(3)
	if err != nil {
		return err
	}
	p.etcdPort, p.peerPort, p.apiPort = taken[0], taken[1], taken[2]
	p.adminToken = rand.Text()
	certificate, key, err := certutil.GenerateSelfSignedCertKey(p.address(), []net.IP{net.ParseIP(p.address())},
		[]string{"localhost"})
	if err != nil {
		return fmt.Errorf("make the API server's certificate: %w", err)
	}
	tokenKey, err := newTokenKey()
	if err != nil {
		return err
	}
	p.certificate = string(certificate)
	policy := auditPolicy
	if p.auditObjects {
		policy += auditObjects
	}
	return p.write(map[string]string{
		"apiserver.crt": string(certificate),
		"apiserver.key": string(key),
		"tokens.key":    string(tokenKey),
		"tokens.csv":    fmt.Sprintf("%s,admin,admin,system:masters\n", p.adminToken),
		"audit.yaml":    policy + auditRequests,
	})
}

func (p *controlPlane) write(files map[string]string) error {
	for name, content := range files {
		if err := os.WriteFile(p.path(name), []byte(content), 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// newTokenKey makes the key that signs ServiceAccount tokens, as PEM.
func newTokenKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of ServiceAccount tokens: %w", err)
	}
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, fmt.Errorf("encode the key of ServiceAccount tokens: %w", err)
	}
	return encoded, nil
}

// etcdData is etcd's directory.
func (p *controlPlane) etcdData() string { return p.path("etcd") }

func (p *controlPlane) peerURL() string { return "http://127.0.0.1:" + strconv.Itoa(p.peerPort) }

// memberArguments describe a cluster of one member.
func (p *controlPlane) memberArguments() []string {
	return []string{"--initial-advertise-peer-urls=" + p.peerURL(), "--initial-cluster=default=" + p.peerURL()}
}

func (p *controlPlane) etcdArguments() []string {
	clients := "http://127.0.0.1:" + strconv.Itoa(p.etcdPort)
	return append([]string{
		// The data of a test need not survive a crash of the machine.
		"--unsafe-no-fsync", "--data-dir=" + p.etcdData(), "--log-level=warn",
		"--listen-client-urls=" + clients, "--advertise-client-urls=" + clients, "--listen-peer-urls=" + p.peerURL(),
	}, p.memberArguments()...)
}

// apiServerArguments leave the limit of requests in flight and API priority and fairness at their defaults, as most
// clusters do. One admission plugin is added to the default ones: OwnerReferencesPermissionEnforcement, which OpenShift
// and hardened clusters use.
func (p *controlPlane) apiServerArguments() []string {
	arguments := []string{
		"--etcd-servers=http://127.0.0.1:" + strconv.Itoa(p.etcdPort),
		"--bind-address=" + p.address(), "--secure-port=" + strconv.Itoa(p.apiPort),
		"--tls-cert-file=" + p.path("apiserver.crt"), "--tls-private-key-file=" + p.path("apiserver.key"),
		"--token-auth-file=" + p.path("tokens.csv"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + p.path("tokens.key"),
		"--service-account-signing-key-file=" + p.path("tokens.key"),
		"--service-cluster-ip-range=" + p.services(),
		// A loopback address can't be an endpoint of the Service kubernetes.
		"--advertise-address=" + p.address(), "--endpoint-reconciler-type=none",
		"--authorization-mode=RBAC", "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
		"--allow-privileged=true", "--profiling=false",
	}
	if p.audit {
		// In blocking mode a request is in the log when it is answered, or a moment later.
		arguments = append(arguments, "--audit-policy-file="+p.path("audit.yaml"),
			"--audit-log-path="+p.path("audit.log"),
			"--audit-log-mode=blocking",
			// No rotation: 5,000 runners write more than the default of 100 MB.
			"--audit-log-maxsize=100000")
	}
	return append(arguments, p.apiServerFlags...)
}

// controllerManagerArguments let all controllers act as the administrator: their permissions are not under test.
func (p *controlPlane) controllerManagerArguments() []string {
	return []string{
		"--kubeconfig=" + p.path(adminKubeconfig), "--leader-elect=false", "--secure-port=0",
		"--controllers=" + strings.Join(controllers, ","),
		"--root-ca-file=" + p.path("apiserver.crt"), "--kube-api-qps=1000", "--kube-api-burst=2000",
	}
}
