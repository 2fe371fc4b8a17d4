package charts

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/harrier-ci/harrier/internal/testkube"
)

// The API server takes every object with the longest names that the charts allow: 45 characters of a scale set, 53 of a
// release, 63 of a controller's full name. The charts' additions have to fit too. A release's name may have dots, but
// no cut name may end with one, and it may begin with a digit.
func TestLongestNames(t *testing.T) {
	t.Parallel()
	cluster := testkube.Shared(t)
	namespace := cluster.NewNamespace(t)
	for _, values := range []string{"", mode("dind"), mode("kubernetes-novolume"), hookTemplate} {
		set := scaleSet.as(strings.Repeat("a", 45), namespace)
		rendered := render(t, set, minimal, values)
		checkLengths(t, rendered)
		admitAll(t, cluster, namespace, rendered)
	}
	for _, release := range []string{"test.runners", "1runners", "123"} {
		admitAll(t, cluster, namespace, render(t, scaleSet.as(release, namespace), minimal, hookTemplate))
	}
	everything := `
replicaCount: 2
crds: {install: false}
networkPolicy: {enabled: true}
metrics: {controllerManagerAddr: ":8080", listenerAddr: ":8080", listenerEndpoint: /metrics, secure: true}
monitoring: {dashboards: {enabled: true}, serviceMonitor: {enabled: true}}
`
	for _, long := range []chart{
		controller.as(strings.Repeat("a", 53), namespace),
		controller.as("arc.prod", namespace),
		controller.as("1arc", namespace),
		controller.as("123", namespace),
		controller.as("1"+strings.Repeat("a", 45)+".bbbb.c", namespace),
		controller.as("arc", namespace).with("--set", "fullnameOverride="+strings.Repeat("a", 63)),
		controller.as("arc", namespace).with("--set",
			"fullnameOverride="+strings.Repeat("a", 80)+",nameOverride="+strings.Repeat("b", 80)),
		controller.as("arc", namespace).with("--set",
			"flags.watchSingleNamespace="+namespace+",nameOverride="+strings.Repeat("b", 63)),
	} {
		rendered := render(t, long, everything)
		for file, documents := range rendered {
			rendered[file] = withoutKind(documents, "ServiceMonitor") // the cluster doesn't have the kind
		}
		admitAll(t, cluster, namespace, rendered)
	}
}

// No name in a scale set's chart is longer than the value of a label may be, so that it can be one. Names that fit are
// unchanged.
func TestNamesMadeFromLongOnesFit(t *testing.T) {
	t.Parallel()
	accounts := map[string]int{}
	for length := 36; length <= 45; length++ {
		name := strings.Repeat("a", length)
		for _, values := range []string{"", mode("kubernetes"), mode("kubernetes-novolume"), hookTemplate} {
			checkLengths(t, render(t, scaleSet, minimal, "runnerScaleSetName: "+name, values))
		}
		account := one[object](t, render(t, scaleSet, minimal, "runnerScaleSetName: "+name),
			"no_permission_serviceaccount.yaml").Metadata.Name
		if usual := name + "-gha-rs-no-permission"; len(usual) <= 63 {
			check(t, "account", account, usual)
		}
		accounts[account]++
		set := runnerSet(t, scaleSet, "runnerScaleSetName: "+name)
		check(t, "account of the pods", set.Spec.Template.Spec.ServiceAccountName, account)
		check(t, "named account", set.Annotations["actions.github.com/cleanup-no-permission-service-account-name"],
			account)
	}
	check(t, "different accounts", len(accounts), 10)
	for _, other := range []string{strings.Repeat("a", 44) + "b", strings.Repeat("a", 30) + "." + strings.Repeat("a", 14),
		strings.Repeat("a-", 22) + "a"} {
		checkLengths(t, render(t, scaleSet, minimal, "runnerScaleSetName: "+other, hookTemplate))
	}
}

// checkLengths fails the test if an object's name is too long for the value of a label.
func checkLengths(t *testing.T, rendered manifests) {
	t.Helper()
	for file, documents := range rendered {
		for _, document := range documents {
			if name := decode[object](t, document).Metadata.Name; len(name) > 63 ||
				len(validation.IsDNS1123Subdomain(name)) > 0 {
				t.Errorf("%s: %s has %d characters", file, name, len(name))
			}
		}
	}
}

// withoutKind returns the documents of other kinds.
func withoutKind(documents []string, kind string) (others []string) {
	for _, document := range documents {
		if strings.Contains(document, "\nkind: ") && !strings.Contains(document, "\nkind: "+kind+"\n") {
			others = append(others, document)
		}
	}
	return others
}
