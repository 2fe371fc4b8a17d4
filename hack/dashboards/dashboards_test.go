package dashboards

import "testing"

func TestLoadReadsTheChartsDashboards(t *testing.T) {
	boards, err := Load("../../charts/gha-runner-scale-set-controller/dashboards")
	if err != nil || len(boards) != 3 {
		t.Fatalf("%d boards, %v; want three", len(boards), err)
	}
	if b := boards[0]; b.Name != "controller" || b.Title == "" || len(b.Panels) == 0 ||
		b.Panels[0].Targets[0].Expr == "" {
		t.Errorf("read %+v", b)
	}
	if _, err := Load(t.TempDir()); err == nil {
		t.Error("a directory without dashboards was read")
	}
}

func TestResolve(t *testing.T) {
	got := Resolve(`rate(m{namespace="$namespace", name="$name"}[$__rate_interval]) + $other`,
		map[string]string{"name": "linux", "namespace": "team", "__rate_interval": "1m"})
	if want := `rate(m{namespace="team", name="linux"}[1m]) + $other`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
