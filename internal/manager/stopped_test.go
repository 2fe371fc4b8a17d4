package manager

import (
	"context"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/testkube"
	programs "github.com/harrier-ci/harrier/internal/testkube/process"
)

// asManager makes the test binary a manager of the cluster that the variable names.
const asManager = "HARRIER_TEST_AS_MANAGER"

func TestMain(m *testing.M) {
	if kubeconfig := os.Getenv(asManager); kubeconfig != "" {
		os.Exit(runAsManager(kubeconfig))
	}
	os.Exit(m.Run())
}

func runAsManager(kubeconfig string) int {
	options := testOptions()
	log := NewLogger(options, os.Stderr)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err == nil {
		err = run(context.Background(), config, options, log)
	}
	log.Error(err, "Exiting")
	return 1
}

// A process that was stopped, as by a freezer or an overloaded node, ends as soon as it goes on, and leaves the Lease
// to the manager that has taken it meanwhile. client-go's elector alone would let it lead for six seconds more.
func TestAManagerThatWasStoppedEndsWhenItGoesOn(t *testing.T) {
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(startTimeout)
	cluster := testkube.Start(t, testkube.Options{})
	grantChartPermissions(t, cluster.Client())
	holder := func() string {
		lease := &coordinationv1.Lease{}
		key := client.ObjectKey{Namespace: "default", Name: defaults().LeaderElectionID}
		if err := cluster.Client().Get(t.Context(), key, lease); err != nil || lease.Spec.HolderIdentity == nil {
			return ""
		}
		return *lease.Spec.HolderIdentity
	}

	var log, others output
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), asManager+"="+cluster.Kubeconfig(t, testkube.User("manager")))
	command.Stdout, command.Stderr = io.Discard, &log
	stopped, err := programs.Start(command)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stopped.Stop(0) })
	g.Eventually(holder).ShouldNot(gomega.BeEmpty(), log.String)
	first := holder()
	if err := stopped.Pause(); err != nil {
		t.Fatal(err)
	}
	startManager(t, cluster, &others)
	g.Eventually(holder).ShouldNot(gomega.BeElementOf(first, ""), others.String)
	second := holder()
	if err := stopped.Resume(); err != nil {
		t.Fatal(err)
	}
	g.Eventually(stopped.Done()).Should(gomega.BeClosed(), log.String)
	g.Expect(log.String()).To(gomega.ContainSubstring(errLeaseLost.Error()))
	g.Expect(holder()).To(gomega.Equal(second))
}
