package tenant

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/plugin"
	"github.com/harrier-ci/harrier/test/rig"
)

// ledgerAttacks read the ledger of jobs, in which all teams' are, or stand in its place: defects B5, B6 and B11 of the
// second reading.
func ledgerAttacks() []attack {
	nothing := func(*stage) []client.Object { return nil }
	return []attack{
		{
			name: "the ledger, from a pod", objects: nothing,
			harm: func(s *stage) (wrong []string) {
				for _, port := range []int32{rig.LedgerPort, rig.LedgerMetricsPort} {
					for _, path := range ledgerPaths {
						_, text, err := s.askLedger("127.0.0.2", port, "", path)
						if err == nil && strings.Contains(text, s.victim.namespace) {
							wrong = append(wrong, fmt.Sprintf("port %d tells every pod of team a at %s", port, path))
						}
					}
				}
				return wrong
			},
		},
		{
			name: "the ledger behind a forwarded port, by a browser that is led there", objects: nothing,
			says: func(s *stage) error { return s.toldByLedger("localhost") },
			harm: func(s *stage) (wrong []string) {
				for _, host := range []string{"rebind.example", "rebind.example:8090", "127.0.0.1.rebind.example"} {
					for _, path := range ledgerPaths {
						status, _, err := s.askLedger("127.0.0.1", rig.LedgerPort, host, path)
						if err == nil && status != http.StatusMisdirectedRequest {
							wrong = append(wrong, fmt.Sprintf("host %q is answered %d at %s", host, status, path))
						}
					}
				}
				return wrong
			},
		},
		{
			name: "a Service and a pod that look like the ledger's",
			objects: func(s *stage) []client.Object {
				labels := s.ledgersLabels()
				service := &corev1.Service{ObjectMeta: s.named(pretender), Spec: corev1.ServiceSpec{
					Selector: labels, Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
				}}
				pod := &corev1.Pod{ObjectMeta: s.named(pretender), Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: thief, Image: foreignImage}},
				}}
				service.Labels, pod.Labels = labels, labels
				return []client.Object{service, pod}
			},
			harm: func(s *stage) (wrong []string) {
				for _, who := range []string{s.rig.Cluster.AdminKubeconfig(), s.victim.kubeconfig} {
					var said bytes.Buffer
					plugin.Main(s.Context(), []string{"report", "-A", "--kubeconfig", who},
						plugin.Streams{In: strings.NewReader(""), Out: &said, Err: &said})
					if strings.Contains(said.String(), pretender) ||
						strings.Contains(said.String(), s.attacker.namespace+"/") {
						wrong = append(wrong, "kubectl harrier report says: "+said.String())
					}
				}
				return wrong
			},
		},
	}
}

// pretender is the name of what looks like the ledger.
const pretender = "pretender"

// ledgersLabels are the labels of the ledger's pod.
func (s *stage) ledgersLabels() map[string]string {
	s.Helper()
	pod := s.rig.LedgerPod()
	if pod == nil {
		s.Fatal("the ledger has no pod")
	}
	labels := maps.Clone(pod.Labels)
	delete(labels, "pod-template-hash")
	return labels
}

// ledgerPaths are addresses at which the ledger tells of jobs.
var ledgerPaths = []string{"/", "/api/v1/jobs", "/api/v1/usage", "/jobs", "/metrics"}

// toldByLedger fails until the ledger tells somebody who has forwarded a port of team a's jobs.
func (s *stage) toldByLedger(host string) error {
	status, text, err := s.askLedger("127.0.0.1", rig.LedgerPort, host, "/api/v1/jobs")
	if err == nil && !strings.Contains(text, s.victim.namespace) {
		err = fmt.Errorf("the ledger answers %d, and nothing of team a: %.200s", status, text)
	}
	return err
}

// askLedger asks the ledger at an address of its pod, by a host name if it isn't empty. A pod's own loopback is
// 127.0.0.1 here, and its address in the cluster 127.0.0.2.
func (s *stage) askLedger(address string, port int32, host, path string) (status int, text string, err error) {
	pod := s.rig.LedgerPod()
	if pod == nil {
		return 0, "", fmt.Errorf("the ledger has no pod")
	}
	loopback, err := s.rig.LedgerAddress(pod, port)
	if err != nil {
		return 0, "", err
	}
	_, number, err := net.SplitHostPort(loopback)
	if err != nil {
		return 0, "", err
	}
	asked := "http://" + net.JoinHostPort(address, number) + path
	request, err := http.NewRequestWithContext(s.Context(), http.MethodGet, asked, nil)
	if err != nil {
		return 0, "", err
	}
	request.Host = host
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(content), err
}
