package doctor

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/test/prometheus"
	"github.com/harrier-ci/harrier/test/rig"
)

// rules is the file of the chart's alerts.
const rules = "../../charts/gha-runner-scale-set-controller/rules/alerts.yaml"

// metricsPort is the port in the rig's chart values.
const metricsPort = 8080

// observer is a Prometheus that reads all programs of a rig, as they come and go.
type observer struct {
	*prometheus.Server
	// expressions are the alerts' expressions, by their names.
	expressions map[string]string
}

// observe starts a Prometheus for a rig.
func observe(t *testing.T, r *rig.Rig) *observer {
	t.Helper()
	targets := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		answer.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(answer).Encode([]map[string]any{{"targets": addresses(request, r)}})
	}))
	t.Cleanup(targets.Close)
	o := &observer{expressions: expressions(t), Server: prometheus.Start(t, map[string]any{
		// A scrape may take no longer than its interval. After one that does, all of a set's series are gone.
		"global": map[string]any{"scrape_interval": "3s"},
		"scrape_configs": []any{map[string]any{
			"job_name": "harrier", "honor_labels": true,
			"http_sd_configs": []any{map[string]any{"url": targets.URL, "refresh_interval": "1s"}},
		}},
	})}
	NewWithT(t).Eventually(func() (float64, error) { return o.Value("count(gha_controller_build_info)") }).
		WithTimeout(rig.Patience).Should(BeNumerically("==", 1))
	return o
}

// addresses returns the addresses at which the rig's programs serve metrics now.
func addresses(request *http.Request, r *rig.Rig) []string {
	found := []string{}
	pods := &corev1.PodList{}
	if err := r.Cluster.Client().List(request.Context(), pods, client.InNamespace(r.SystemNamespace)); err != nil {
		return found // asked again in a second
	}
	for i := range pods.Items {
		if address, err := r.Node.Address(client.ObjectKeyFromObject(&pods.Items[i]), metricsPort); err == nil {
			found = append(found, address)
		}
	}
	return found
}

// expressions returns the expressions of the chart's alerts.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	content, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			found[rule.Alert] = rule.Expr
		}
	}
	return found
}

// of returns an expression's series of a set, or of its listener: the listener's name begins with the set's.
func (o *observer) of(expression, set string) (found []prometheus.Series, err error) {
	series, err := o.Query(expression)
	for _, s := range series {
		if name := s.Metric["name"]; set == "" || name == set || strings.HasPrefix(name, set+"-") {
			found = append(found, s)
		}
	}
	return found, err
}

// alerts reports whether an alert's expression is true of a set, or at all if the name is empty.
func (o *observer) alerts(name, set string) (bool, error) {
	found, err := o.of(o.expressions[name], set)
	return len(found) > 0, err
}

// alert reports whether the expressions of all these alerts are true of the set.
func (s *sight) alert(names []string) bool {
	for _, name := range names {
		if fires, err := s.metrics.alerts(name, s.set); err != nil || !fires {
			return false
		}
	}
	return true
}

// measures reports whether an expression is empty or finds something of the set.
func (s *sight) measures(expression string) bool {
	if s.metrics == nil || expression == "" {
		return true
	}
	found, err := s.metrics.of(expression, s.set)
	return err == nil && len(found) > 0
}

// troubled reports whether the metrics name the condition and its reason.
func (s *sight) troubled(condition, reason string) bool {
	for _, trouble := range s.troubles {
		if trouble.Metric["condition"] == condition && trouble.Metric["reason"] == reason {
			return true
		}
	}
	return s.metrics == nil
}
