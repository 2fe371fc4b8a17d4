package charts

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/testkube"
)

const (
	priorityFile = "priority_and_fairness.yaml"
	priorityOn   = "priorityAndFairness: {enabled: true}"
)

// By default no priority is rendered. A release restricted to one namespace doesn't collide with others of its name,
// and matches only the requests of its listeners there.
func TestPriorityIsOffByDefault(t *testing.T) {
	t.Parallel()
	check(t, "objects by default", len(render(t, controller)[priorityFile]), 0)
	const prefix = "arc-gha-rs-controller"
	for values, suffix := range map[string]string{"": "", singleNamespace: ".team-a"} {
		levels, schemas := priority(t, values)
		check(t, "levels", sortedKeys(levels), []string{prefix + "-manager" + suffix, prefix + "-urgent" + suffix})
		check(t, "schemas", sortedKeys(schemas),
			[]string{prefix + "-lease" + suffix, prefix + "-listeners" + suffix, prefix + "-manager" + suffix})
		for name, schema := range schemas {
			if _, rendered := levels[schema.Spec.PriorityLevelConfiguration.Name]; !rendered {
				t.Errorf("%s leads to %s, which isn't rendered", name, schema.Spec.PriorityLevelConfiguration.Name)
			}
		}
		served := strings.TrimPrefix(suffix, ".")
		if served == "" {
			served = "*"
		}
		listeners := schemas[prefix+"-listeners"+suffix].Spec.Rules[0]
		check(t, "namespaces of listeners", listeners.ResourceRules[0].Namespaces, []string{served})
	}
	refused := refusal(t, controller, priorityOn, "rbac: {clusterRoles: false}", singleNamespace,
		"crds: {install: false}")
	checkContains(t, refused, "Values.priorityAndFairness needs")
}

// priority returns the rendered objects, by name.
func priority(t *testing.T, values string) (
	levels map[string]flowcontrolv1.PriorityLevelConfiguration, schemas map[string]flowcontrolv1.FlowSchema,
) {
	t.Helper()
	levels, schemas = map[string]flowcontrolv1.PriorityLevelConfiguration{}, map[string]flowcontrolv1.FlowSchema{}
	for _, document := range render(t, controller, priorityOn, values)[priorityFile] {
		if strings.Contains(document, "kind: FlowSchema\n") {
			schema := decode[flowcontrolv1.FlowSchema](t, document)
			schemas[schema.Name] = schema
			continue
		}
		level := decode[flowcontrolv1.PriorityLevelConfiguration](t, document)
		levels[level.Name] = level
	}
	return levels, schemas
}

// The API server takes the objects, and names those of a request in its answer. None is left when the release is
// uninstalled.
func TestPriorityOfRequests(t *testing.T) {
	t.Parallel()
	cluster := testkube.Shared(t)
	system, runners := cluster.NewNamespace(t), cluster.NewNamespace(t)
	release := installer{cluster: cluster, version: "4"}
	// Only with one namespace are the names of cluster-scoped objects this test's own.
	release.succeed(t, "install", "arc", controller.directory(), "--namespace", system,
		"--set", "crds.install=false,priorityAndFairness.enabled=true,flags.watchSingleNamespace="+runners)

	const sets = "/apis/actions.github.com/v1alpha1/namespaces/"
	const leases = "/apis/coordination.k8s.io/v1/namespaces/"
	own := func(part, level string) counted {
		return counted{"arc-gha-rs-controller-" + part + "." + runners,
			"arc-gha-rs-controller-" + level + "." + runners}
	}
	manager, listener := testkube.ServiceAccountUser(system, "arc-gha-rs-controller"),
		testkube.ServiceAccountUser(system, "l")
	other, everybody := testkube.ServiceAccountUser(runners, "default"), counted{"service-accounts", "workload-low"}
	lease, byManager, byListener := own("lease", "urgent"), own("manager", "manager"), own("listeners", "urgent")
	for name, test := range map[string]struct {
		as, method, path string
		want             counted
	}{
		"the manager's Lease":      {manager, http.MethodGet, leases + system + "/leases/arc", lease},
		"a Lease of another":       {manager, http.MethodGet, leases + runners + "/leases/arc", byManager},
		"a pod":                    {manager, http.MethodPost, "/api/v1/namespaces/" + runners + "/pods", byManager},
		"a status by the manager":  {manager, http.MethodPatch, sets + runners + "/ephemeralrunnersets/set/status", byManager},
		"all nodes":                {manager, http.MethodGet, "/api/v1/nodes", byManager},
		"the API server's version": {manager, http.MethodGet, "/version", byManager},
		"how many runners":         {listener, http.MethodPatch, sets + runners + "/ephemeralrunnersets/set", byListener},
		"what a listener says":     {listener, http.MethodPatch, sets + runners + "/ephemeralrunnersets/set/status", byListener},
		"the end of a job":         {listener, http.MethodPatch, sets + runners + "/ephemeralrunners/runner/status", byListener},
		"somewhere else":           {listener, http.MethodPatch, sets + system + "/ephemeralrunnersets/set", everybody},
		"another kind":             {listener, http.MethodPost, "/api/v1/namespaces/" + runners + "/pods", everybody},
		"another's account":        {other, http.MethodPatch, sets + runners + "/ephemeralrunnersets/set", everybody},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := strings.Split(test.as, ":")[2]
			groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
			config := cluster.ConfigFor(t, testkube.User(test.as, groups...))
			// The API server heeds new objects with a delay.
			gomega.NewWithT(t).Eventually(func() counted { return count(t, cluster, config, test.method, test.path) }).
				WithTimeout(time.Minute).Should(gomega.Equal(test.want))
		})
	}

	release.succeed(t, "uninstall", "arc", "--namespace", system, "--no-hooks") // nothing runs the check's Job here
	ofRelease := func(object client.Object) bool { return object.GetLabels()["app.kubernetes.io/namespace"] == system }
	for _, list := range []client.ObjectList{&flowcontrolv1.FlowSchemaList{},
		&flowcontrolv1.PriorityLevelConfigurationList{}} {
		check(t, "left of the release", listed(t, cluster, list, ofRelease), "")
	}
}

// counted has the FlowSchema and the level of a request.
type counted struct{ schema, level string }

// count sends a request and returns the FlowSchema and the level in its answer. RBAC may refuse the request after that.
func count(t *testing.T, cluster *testkube.Cluster, as *rest.Config, method, path string) counted {
	t.Helper()
	server, err := rest.HTTPClientFor(as)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, as.Host+path, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := server.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	called := func(header string) func(client.Object) bool {
		return func(object client.Object) bool { return string(object.GetUID()) == response.Header.Get(header) }
	}
	return counted{
		schema: listed(t, cluster, &flowcontrolv1.FlowSchemaList{},
			called(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID)),
		level: listed(t, cluster, &flowcontrolv1.PriorityLevelConfigurationList{},
			called(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID)),
	}
}

// listed returns the names of the chosen objects in the cluster.
func listed(t *testing.T, cluster *testkube.Cluster, list client.ObjectList, chosen func(client.Object) bool) string {
	t.Helper()
	if err := cluster.Client().List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	var found []string
	err := meta.EachListItem(list, func(item runtime.Object) error {
		if object, ok := item.(client.Object); ok && chosen(object) {
			found = append(found, object.GetName())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(found, " ")
}
