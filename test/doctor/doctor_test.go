// Package doctor has the doctor look at real installations, healthy and broken.
package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/harrier-ci/harrier/internal/doctor"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

// ask returns the reasons that the doctor gives with a severity.
func ask(t *testing.T, r *rig.Rig, severity doctor.Severity) []string {
	t.Helper()
	output := &bytes.Buffer{}
	err := doctor.Run(t.Context(), r.Cluster.Client(), doctor.Options{Namespace: r.RunnerNamespace, Name: rig.DefaultSet, Output: "json"}, output)
	if err != nil && !errors.Is(err, doctor.ErrProblems) {
		t.Fatal(err)
	}
	report := doctor.Report{}
	if err := json.Unmarshal(output.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, finding := range report.Findings {
		if finding.Severity == severity {
			reasons = append(reasons, finding.Reason)
		}
	}
	return reasons
}

// A healthy set without jobs is told what a job needs to reach it; one without a manager that it has none.
func TestDoctorOnAnInstallation(t *testing.T) {
	r := rig.Start(t, testkube.Shared(t), rig.Options{})
	eventually := NewWithT(t).Eventually
	eventually(func() []string { return ask(t, r, doctor.Info) }).WithTimeout(20 * time.Second).Should(ContainElement("NoJobAssigned"))
	// The manager's probes have a period of 10 s, and its Deployment follows them.
	eventually(func() []string { return ask(t, r, doctor.Problem) }).WithTimeout(time.Minute).Should(BeEmpty())
	r.StopManager()
	eventually(func() bool { return slices.Contains(ask(t, r, doctor.Problem), "ManagerNotRunning") }).WithTimeout(20 * time.Second).Should(BeTrue())
	r.StartManager()
}
