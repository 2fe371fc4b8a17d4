package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/operations/commands"
	"github.com/harrier-ci/harrier/operations/doctor"
	"github.com/harrier-ci/harrier/operations/finding"
	"github.com/harrier-ci/harrier/test/prometheus"
	"github.com/harrier-ci/harrier/test/rig"
)

// sight has everything that the user of a scale set looks at: the line of kubectl get -o wide, conditions, Events,
// metrics, the doctor.
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

// look returns the sight of a set of the rig. It fails if something can't be read; that may exist at the next attempt.
func look(ctx context.Context, r *rig.Rig, metrics *observer, name string) (*sight, error) {
	set := &v1alpha1.AutoscalingRunnerSet{}
	key := types.NamespacedName{Namespace: r.RunnerNamespace, Name: name}
	if err := r.Cluster.Client().Get(ctx, key, set); err != nil {
		return nil, err
	}
	s := &sight{set: name, metrics: metrics, conditions: set.Status.Conditions}
	var err error
	if s.events, err = eventsOf(ctx, r, "AutoscalingRunnerSet", name); err != nil {
		return nil, err
	}
	if s.troubles, err = metrics.of("gha_controller_scale_set_trouble", name); err != nil {
		return nil, err
	}
	if s.columns, err = columns(ctx, r.Cluster.Config(), r.RunnerNamespace, "autoscalingrunnersets", name); err != nil {
		return nil, err
	}
	s.report, s.code, err = consult(ctx, r, name)
	return s, err
}

// consult runs the doctor's command line.
func consult(ctx context.Context, r *rig.Rig, name string) (report doctor.Report, code int, err error) {
	output, trouble := &bytes.Buffer{}, &bytes.Buffer{}
	code = commands.Main(ctx, []string{"doctor", "-kubeconfig", r.Cluster.AdminKubeconfig(), "-n", r.RunnerNamespace, "-o",
		"json", name}, output, trouble)
	if err := json.Unmarshal(output.Bytes(), &report); err != nil {
		return report, code, fmt.Errorf("the doctor ended with %d: %s%s: %w", code, output, trouble, err)
	}
	return report, code, nil
}

// eventsOf returns the Events about one object, or about all of a kind if the name is empty.
func eventsOf(ctx context.Context, r *rig.Rig, kind, name string) ([]corev1.Event, error) {
	list := &corev1.EventList{}
	if err := r.Cluster.Client().List(ctx, list, client.InNamespace(r.RunnerNamespace)); err != nil {
		return nil, err
	}
	var about []corev1.Event
	for i := range list.Items {
		if object := &list.Items[i].InvolvedObject; object.Kind == kind && (name == "" || object.Name == name) {
			about = append(about, list.Items[i])
		}
	}
	return about, nil
}

// columns returns the cells of one object's line as the API server prints it, by the column's name, including hidden
// ones.
func columns(ctx context.Context, config *rest.Config, namespace, resource, name string) (map[string]string, error) {
	table, err := tableOf(ctx, config, namespace, resource+"/"+name)
	if err != nil {
		return nil, err
	}
	if len(table.Rows) != 1 {
		return nil, fmt.Errorf("%d lines for %s %s", len(table.Rows), resource, name)
	}
	cells := map[string]string{}
	for i, column := range table.ColumnDefinitions {
		cell := table.Rows[0].Cells[i]
		if cell == nil {
			cell = ""
		}
		cells[column.Name] = fmt.Sprint(cell)
	}
	return cells, nil
}

// tableOf asks the API server for the table that kubectl get prints.
func tableOf(ctx context.Context, config *rest.Config, namespace, path string) (*metav1.Table, error) {
	connection, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("%s/apis/%s/namespaces/%s/%s", config.Host, v1alpha1.GroupVersion, namespace, path)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	answer, err := connection.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s\n%s", path, answer.Status, content)
	}
	table := &metav1.Table{}
	return table, json.Unmarshal(content, table)
}

// has reports whether the condition is as wanted.
func (s *sight) has(about string, status metav1.ConditionStatus, reason string) bool {
	c := meta.FindStatusCondition(s.conditions, about)
	return c != nil && c.Status == status && c.Reason == reason
}

// told reports whether an Event has the reason.
func (s *sight) told(reason string) bool {
	for i := range s.events {
		if s.events[i].Reason == reason {
			return true
		}
	}
	return false
}

// holds reports whether a finding has all the words.
func holds(finding finding.Finding, words []string) bool {
	text := finding.Object + " " + finding.Message + " " + finding.Fix
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
