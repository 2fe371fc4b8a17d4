package doctor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/doctor"
	"github.com/harrier-ci/harrier/test/prometheus"
	"github.com/harrier-ci/harrier/test/rig"
)

// sight is all that the user of a scale set looks at: the line of kubectl get -o wide, conditions, Events, metrics, the doctor.
type sight struct {
	set        string
	metrics    *observer
	troubles   []prometheus.Series
	columns    map[string]string
	conditions []metav1.Condition
	events     []corev1.Event
	report     doctor.Report
	code       int
}

func (s *sight) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "columns %v\n", s.columns)
	for _, c := range s.conditions {
		fmt.Fprintf(&text, "condition %s=%s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
	}
	for i := range s.events {
		fmt.Fprintf(&text, "event %s %s: %s\n", s.events[i].Type, s.events[i].Reason, s.events[i].Message)
	}
	for _, f := range s.report.Findings {
		fmt.Fprintf(&text, "doctor %s %s (%s): %s\n  To do: %s\n", f.Severity, f.Reason, f.Object, f.Message, f.Fix)
	}
	fmt.Fprintf(&text, "doctor exits with %d\ntroubles in metrics %v\n", s.code, s.troubles)
	return text.String()
}

// look returns what there is to see of a set of the rig.
func look(t testing.TB, r *rig.Rig, metrics *observer, name string) *sight {
	t.Helper()
	set := &v1alpha1.AutoscalingRunnerSet{}
	if err := r.Cluster.Client().Get(t.Context(), types.NamespacedName{Namespace: r.RunnerNamespace, Name: name}, set); err != nil {
		t.Fatal(err)
	}
	s := &sight{set: name, metrics: metrics, conditions: set.Status.Conditions, events: eventsOf(t, r, "AutoscalingRunnerSet", name)}
	var err error
	if s.troubles, err = metrics.of("gha_controller_scale_set_trouble", name); err != nil {
		t.Fatal(err)
	}
	s.columns = columns(t, r.Cluster.Config(), r.RunnerNamespace, "autoscalingrunnersets", name)
	s.report, s.code = consult(t, r, name)
	return s
}

// consult runs the doctor's command line.
func consult(t testing.TB, r *rig.Rig, name string) (doctor.Report, int) {
	t.Helper()
	output, trouble := &bytes.Buffer{}, &bytes.Buffer{}
	code := doctor.Main(t.Context(), []string{"doctor", "-kubeconfig", r.Cluster.AdminKubeconfig(), "-n", r.RunnerNamespace, "-o", "json", name}, output, trouble)
	report := doctor.Report{}
	if err := json.Unmarshal(output.Bytes(), &report); err != nil {
		t.Fatalf("the doctor ended with %d: %s%s: %v", code, output, trouble, err)
	}
	return report, code
}

// eventsOf returns the Events about one object, or about all of a kind where the name is empty.
func eventsOf(t testing.TB, r *rig.Rig, kind, name string) []corev1.Event {
	t.Helper()
	list := &corev1.EventList{}
	if err := r.Cluster.Client().List(t.Context(), list, client.InNamespace(r.RunnerNamespace)); err != nil {
		t.Fatal(err)
	}
	var about []corev1.Event
	for i := range list.Items {
		if object := &list.Items[i].InvolvedObject; object.Kind == kind && (name == "" || object.Name == name) {
			about = append(about, list.Items[i])
		}
	}
	return about
}

// columns are the cells of one object's line as the API server prints it, hidden ones included, by the column's name.
func columns(t testing.TB, config *rest.Config, namespace, resource, name string) map[string]string {
	t.Helper()
	table := tableOf(t, config, namespace, resource+"/"+name)
	if len(table.Rows) != 1 {
		t.Fatalf("%d lines for %s %s", len(table.Rows), resource, name)
	}
	cells := map[string]string{}
	for i, column := range table.ColumnDefinitions {
		cell := table.Rows[0].Cells[i]
		if cell == nil {
			cell = ""
		}
		cells[column.Name] = fmt.Sprint(cell)
	}
	return cells
}

// tableOf asks the API server for the table that kubectl get prints.
func tableOf(t testing.TB, config *rest.Config, namespace, path string) *metav1.Table {
	t.Helper()
	connection, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("%s/apis/%s/namespaces/%s/%s", config.Host, v1alpha1.GroupVersion, namespace, path)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	answer, err := connection.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	table := &metav1.Table{}
	if err := json.Unmarshal(content, table); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v\n%s", path, answer.Status, err, content)
	}
	return table
}

// has says that the condition is as wanted.
func (s *sight) has(about string, status metav1.ConditionStatus, reason string) bool {
	c := meta.FindStatusCondition(s.conditions, about)
	return c != nil && c.Status == status && c.Reason == reason
}

// told says that an Event has the reason.
func (s *sight) told(reason string) bool {
	for i := range s.events {
		if s.events[i].Reason == reason {
			return true
		}
	}
	return false
}

// holds says that a finding has all the words.
func holds(finding doctor.Finding, words []string) bool {
	text := finding.Object + " " + finding.Message + " " + finding.Fix
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
