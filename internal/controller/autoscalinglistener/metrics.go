package autoscalinglistener

import (
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/kube"
)

// running has one series per listener, until the listener is being deleted and its container has ended. The deletion may then wait
// for hours, for running jobs and for GitHub, and nobody should be alerted.
var running = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "gha_controller_running_listeners",
	Help: "1 while the listener's container is running, 0 otherwise; name and namespace are the AutoscalingListener's.",
}, []string{"name", "namespace", "repository", "organization", "enterprise"})

func init() { metrics.Registry.MustRegister(running) }

// publishRunning sets the listener's series, and deletes the series of an earlier address, which would keep its last value. The
// series is not deleted if the address is the same, because a scrape may come at any moment.
func publishRunning(p *pass) {
	runs := containerRuns(p.pod)
	if p.listener.DeletionTimestamp != nil && !runs {
		unpublish(p.key)
		return
	}
	if address := p.listener.Spec.GitHubConfigUrl; address != p.memory.publishedAddress {
		unpublish(p.key)
		p.memory.publishedAddress = address
	}
	labels := prometheus.Labels{"name": p.key.Name, "namespace": p.key.Namespace, "repository": "", "organization": "", "enterprise": ""}
	if url, err := actions.ParseConfigURL(p.listener.Spec.GitHubConfigUrl); err == nil {
		labels["repository"], labels["organization"], labels["enterprise"] = url.Repository, url.Organization, url.Enterprise
	}
	value := 0.0
	if runs {
		value = 1
	}
	running.With(labels).Set(value)
}

// containerRuns reports whether the listener's own container is running, whatever its sidecars do.
func containerRuns(pod *corev1.Pod) bool {
	if pod == nil {
		return false
	}
	status := kube.ContainerStatus(pod, v1alpha1.ListenerContainerName)
	return status != nil && status.State.Running != nil
}

// unpublish deletes the listener's series by name and namespace alone, because the other labels follow the spec.
func unpublish(listener types.NamespacedName) {
	running.DeletePartialMatch(prometheus.Labels{"name": listener.Name, "namespace": listener.Namespace})
}
