package tenant

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/operations/plugin"
	"github.com/harrier-ci/harrier/test/rig"
)

// ledgerAttacks read the ledger of jobs, in which all teams' are, or stand in its place: defects B5, B6, B8 and B11 of
// the second reading.
func ledgerAttacks() []attack {
	nothing := func(*stage) []client.Object { return nil }
	return []attack{
		{name: "the ledger, from a pod", objects: nothing, harm: (*stage).readByPods},
		{
			name: "the ledger behind a forwarded port, by a browser that is led there", objects: nothing,
			says: func(s *stage) error { return s.toldByLedger("localhost") },
			harm: (*stage).readByBrowsers,
		},
		{
			name: "jobs whose names never repeat", objects: nothing, act: (*stage).neverRepeat,
			says: (*stage).namesAreFolded, harm: (*stage).othersNamesAreFolded,
		},
		{
			name: "a Service and a pod that look like the ledger's", objects: (*stage).pretend,
			harm: (*stage).pretenderIsAsked,
		},
	}
}

// readByPods lists the ports and paths at which every pod of the cluster reads of team a.
func (s *stage) readByPods() (wrong []string) {
	for _, port := range []int32{rig.LedgerPort, rig.LedgerMetricsPort} {
		for _, path := range ledgerPaths {
			_, text, err := s.askLedger("127.0.0.2", port, "", path)
			if err == nil && strings.Contains(text, s.victim.namespace) {
				wrong = append(wrong, fmt.Sprintf("port %d tells every pod of team a at %s", port, path))
			}
		}
	}
	return wrong
}

// readByBrowsers lists the names of other sites at which a forwarded port answers.
func (s *stage) readByBrowsers() (wrong []string) {
	for _, host := range []string{"rebind.example", "rebind.example:8090", "127.0.0.1.rebind.example"} {
		for _, path := range ledgerPaths {
			status, _, err := s.askLedger("127.0.0.1", rig.LedgerPort, host, path)
			if err == nil && status != http.StatusMisdirectedRequest {
				wrong = append(wrong, fmt.Sprintf("host %q is answered %d at %s", host, status, path))
			}
		}
	}
	return wrong
}

// kindsOf asks the ledger for what a team's jobs come to by their names.
func (s *stage) kindsOf(who *team) (text string, err error) {
	status, text, err := s.askLedger("127.0.0.1", rig.LedgerPort, "localhost",
		"/api/v1/usage?by=job&from=1h&namespace="+who.namespace)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("the ledger answers %d: %.200s", status, text)
	}
	return text, err
}

// namesAreFolded fails until the ledger counts some of team b's jobs together.
func (s *stage) namesAreFolded() error {
	text, err := s.kindsOf(s.attacker)
	if err == nil && !strings.Contains(text, "(others)") {
		err = fmt.Errorf("the ledger keeps all of %d names", strings.Count(text, endless))
	}
	return err
}

func (s *stage) othersNamesAreFolded() []string {
	text, err := s.kindsOf(s.victim)
	if err != nil || strings.Contains(text, "(others)") {
		return []string{fmt.Sprintf("of team a's jobs the ledger says %.200s: %v", text, err)}
	}
	return nil
}

// pretend returns a Service and a pod with the ledger's labels.
func (s *stage) pretend() []client.Object {
	labels := s.ledgersLabels()
	service := &corev1.Service{ObjectMeta: s.named(pretender), Spec: corev1.ServiceSpec{
		Selector: labels, Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
	}}
	pod := &corev1.Pod{ObjectMeta: s.named(pretender), Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: thief, Image: foreignImage}},
	}}
	service.Labels, pod.Labels = labels, labels
	return []client.Object{service, pod}
}

// pretenderIsAsked lists what the plugin says if it takes the pretender for the ledger, or for one of several.
func (s *stage) pretenderIsAsked() (wrong []string) {
	for _, who := range []string{s.rig.Cluster.AdminKubeconfig(), s.victim.kubeconfig} {
		var said bytes.Buffer
		plugin.Main(s.Context(), []string{"report", "-A", "--kubeconfig", who},
			plugin.Streams{In: strings.NewReader(""), Out: &said, Err: &said})
		if strings.Contains(said.String(), pretender) || strings.Contains(said.String(), s.attacker.namespace+"/") {
			wrong = append(wrong, "kubectl harrier report says: "+said.String())
		}
	}
	return wrong
}

// endless begins the names of jobs that never repeat.
const endless = "test-of-commit-"

// neverRepeat has runners of team b say that they had jobs, more than the ledger keeps kinds of a scale set's jobs. So
// many writes are made by several at a time.
func (s *stage) neverRepeat() error {
	const names, writers = 510, 10
	failures := make(chan error, writers)
	for writer := range writers {
		go func() {
			for i := writer; i < names; i += writers {
				if err := s.hadJob(i); err != nil {
					failures <- err
					return
				}
			}
			failures <- nil
		}()
	}
	var all []error
	for range writers {
		all = append(all, <-failures)
	}
	return errors.Join(all...)
}

// hadJob makes a runner of team b that had a job, and deletes it. The manager removes a runner without a set; a
// finalizer of team b's keeps it until it has said what it has to say.
func (s *stage) hadJob(number int) error {
	runner := s.runner(fmt.Sprint("had-job-", number), "endless-names", s.attacker.namespace)
	runner.Finalizers = []string{"b.example/says-it-had-a-job"}
	if err := s.attacker.client.Create(s.Context(), runner); err != nil {
		return err
	}
	now := time.Now().UTC().Format(time.RFC3339)
	patch := fmt.Sprintf(`{"status":{"phase":"Succeeded","jobId":"job-%d","jobDisplayName":"%s%d","jobResult":"succeeded",`+
		`"jobRepositoryName":"b/app","jobWorkflowRef":"b/app/.github/workflows/ci.yaml@main","finishedAt":%q}}`,
		number, endless, number, now)
	change := client.RawPatch(types.MergePatchType, []byte(patch))
	if err := s.attacker.client.Status().Patch(s.Context(), runner, change); err != nil {
		return err
	}
	freed := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := s.attacker.client.Patch(s.Context(), runner, freed); client.IgnoreNotFound(err) != nil {
		return err
	}
	return client.IgnoreNotFound(s.attacker.client.Delete(s.Context(), runner))
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
