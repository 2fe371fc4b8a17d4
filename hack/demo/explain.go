package main

import (
	"fmt"
	"strings"

	"github.com/harrier-ci/harrier/hack/site"
)

// introduce tells what the demo is going to do, and on which cluster.
func (d *demo) introduce() {
	where := "on a Kubernetes cluster of one node that is started on this machine"
	if d.settings.current {
		where = "on the cluster of the current kubeconfig context, in namespaces of its own (harrier-demo-*)"
	}
	d.screen.say("Harrier runs %d jobs of a simulated GitHub %s.", jobCount, where)
	if !d.settings.current {
		d.screen.say("The first run builds Kubernetes, which takes 6 to 9 minutes on two cores; later ones take " +
			"about a minute.")
	}
	d.screen.say("Ctrl-C ends it and cleans up.\n")
}

// explain lists the commands to look at what KEEP=1 leaves running, and to remove it.
func (d *demo) explain(failed bool) {
	lines := []string{"", "Everything is left running (KEEP=1). To look around:", ""}
	if d.site.Kubeconfig != "" {
		lines = append(lines, "  export KUBECONFIG="+d.site.Kubeconfig)
	}
	if d.site.Programs != "" {
		lines = append(lines, "  export PATH="+d.site.Programs+":$PATH")
	}
	lines = append(lines,
		"  kubectl get autoscalingrunnersets,ephemeralrunnersets,ephemeralrunners -A",
		"  kubectl get pods -A --watch",
		fmt.Sprintf("  kubectl logs -n %s -l app.kubernetes.io/component=controller-manager --follow",
			site.SystemNamespace),
		fmt.Sprintf("  kubectl exec -n %s deployment/%s-gha-rs-controller -- /manager doctor", site.SystemNamespace,
			site.ControllerName),
	)
	if !failed {
		lines = append(lines, d.questions()...)
	}
	lines = append(lines, "", "To end it: "+d.stopCommand(), "")
	d.screen.say("%s", strings.Join(lines, "\n"))
}

func (d *demo) questions() []string {
	reach, github := "", d.site.Control.BaseURL
	if d.settings.current { // this process's port-forward ends with it
		reach, github = fmt.Sprintf("  kubectl port-forward -n %s service/github 8090:%s &", githubNamespace,
			githubPort), "localhost:8090"
	}
	return []string{
		"",
		"To open the page of what became of jobs, at http://localhost:8091/, and to have the same as text:",
		fmt.Sprintf("  kubectl port-forward -n %s pod/%s-gha-rs-controller-history-0 8091:8090 &", site.SystemNamespace,
			site.ControllerName),
		"  go run ./operations/cmd/kubectl-harrier report --by workflow",
		"",
		"To read the metrics of manager and listener:",
		metricsCommand("controller-manager"),
		metricsCommand("runner-scale-set-listener"),
		"",
		"To queue more jobs and see what GitHub knows:", reach,
		fmt.Sprintf(`  curl -s %s/_control/jobs -d '{"count": 5, "scaleSet": %q, "minDuration": "2s", "maxDuration": "15s"}'`, github, scaleSetName),
		fmt.Sprintf("  curl -s %s/_control/state", github),
	}
}

// metricsCommand returns a command that reads metrics through the API server, which reaches every pod.
func metricsCommand(component string) string {
	pod := fmt.Sprintf("$(kubectl get pods -n %s -l app.kubernetes.io/component=%s -o "+
		"jsonpath='{.items[0].metadata.name}')", site.SystemNamespace, component)
	return fmt.Sprintf(`  kubectl get --raw "/api/v1/namespaces/%s/pods/%s:8080/proxy/metrics"`,
		site.SystemNamespace, pod)
}

func (d *demo) stopCommand() string {
	if d.settings.current {
		return "make demo-down CLUSTER=current"
	}
	return "make demo-down"
}
