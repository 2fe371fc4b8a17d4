package doctor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/finding"
)

// idle returns the report of a number of scale sets that wait for jobs.
func idle(count int) *Report {
	r := &Report{Managers: []Manager{{"harrier-system", "harrier", "0.1.0", 1}}}
	for i := range count {
		name := fmt.Sprintf("linux-%02d", i)
		r.Sets = append(r.Sets, Summary{Namespace: "runners", Name: name, Max: new(10), Listener: "Listening"})
		r.Findings = append(r.Findings, finding.Finding{
			Severity: finding.Info, Object: "AutoscalingRunnerSet runners/" + name, Reason: "NoJobAssigned",
			Message: "none for " +
				name, Fix: "use " + name,
		})
	}
	return r
}

// One set is reported in a sentence, several in a table. A finding that many share is reported a single time.
func TestTextStaysReadable(t *testing.T) {
	one := idle(1).text()
	if want := "runners/linux-00: 0 jobs assigned, 0 runners wanted (at most 10), 0 pending, 0 idle, 0 busy, 0 " +
		"failed, listener Listening\n"; !strings.Contains(one, want) {
		t.Errorf("one set:\n%s\nwant %s", one, want)
	}
	if none := idle(0).text(); none != "Manager harrier-system/harrier: version 0.1.0, 1 pod ready\n\nNothing is "+
		"wrong.\n" {
		t.Errorf("no set:\n%s", none)
	}
	r := idle(50)
	problem := finding.Finding{
		Severity: finding.Problem, Object: "AutoscalingRunnerSet runners/linux-03", Reason: "GitHubUnavailable",
		Message: "it does not answer", Fix: "look at the proxy",
	}
	again, other := problem, problem
	again.Object, other.Object, other.Message = "AutoscalingRunnerSet runners/linux-04",
		"AutoscalingRunnerSet runners/linux-05", "it answers 503"
	r.Findings = append([]finding.Finding{problem, again, other}, r.Findings...)
	text := r.text()
	for _, want := range []string{
		"SCALE SET         JOBS  RUNNERS WANTED  LIMIT       PENDING  IDLE  BUSY  FAILED  LISTENER\n",
		"runners/linux-49  0     0               at most 10  0        0     0     0       Listening\n",
		"1. PROBLEM GitHubUnavailable (AutoscalingRunnerSet runners/linux-03)\n   it does not answer\n   To do: look at the proxy\n   The same applies to AutoscalingRunnerSet runners/linux-04\n",
		"2. PROBLEM GitHubUnavailable (AutoscalingRunnerSet runners/linux-05)\n   it answers 503\n",
		"3. INFO NoJobAssigned (AutoscalingRunnerSet runners/linux-00)\n", "runners/linux-10 and 39 more\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if lines := strings.Count(text, "\n"); lines > 75 {
		t.Errorf("%d lines about fifty sets, want one for each and few more", lines)
	}
}

// Messages quote what tenants, workflows and GitHub wrote. None of it begins a line or commands a terminal.
func TestTextOfOthersStaysOnItsLine(t *testing.T) {
	const hostile = "a\n::error::b\x1b[2J"
	text := (&Report{Findings: []finding.Finding{{Severity: finding.Problem, Reason: "R", Message: hostile, Fix: hostile}}}).text()
	if strings.Contains(text, "\n::error") || strings.Contains(text, "\x1b") ||
		strings.Count(text, "a ::error::b [2J") != 2 {
		t.Errorf("text %q", text)
	}
}

// The documentation's example has every field of the JSON, and no others.
func TestJSONIsAsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```json\n(.*?)```").FindSubmatch(page)
	if example == nil {
		t.Fatal("docs/doctor.md has no example of the JSON")
	}
	documented, reader := Report{}, json.NewDecoder(bytes.NewReader(example[1]))
	reader.DisallowUnknownFields()
	if err := reader.Decode(&documented); err != nil {
		t.Fatal(err)
	}
	written := &bytes.Buffer{}
	if err := documented.write(written, "json"); err != nil {
		t.Fatal(err)
	}
	if difference := cmp.Diff(string(example[1]), written.String()); difference != "" {
		t.Errorf("the example and what is written of it (-documented +written):\n%s", difference)
	}
}

func TestJobPodsAreCountedApart(t *testing.T) {
	const runner = "linux-abcde-runner-fghij"
	pod := func(name, label string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: runner}}}
	}
	set := snapshot.Set{Pods: []corev1.Pod{pod(runner+"-workflow", v1alpha1.LabelRunnerPod),
		pod(runner, v1alpha1.LabelRunner)}}
	set.SortPods(nil)
	if len(set.Pods) != 1 || len(set.JobPods) != 1 {
		t.Errorf("%d runner pods, %d job pods", len(set.Pods), len(set.JobPods))
	}
	if line := (&Report{Sets: summaries(&snapshot.Snapshot{Sets: []snapshot.Set{set}})}).text(); !strings.Contains(line,
		"0 failed, 1 job pod, listener") {
		t.Errorf("%q", line)
	}
}
