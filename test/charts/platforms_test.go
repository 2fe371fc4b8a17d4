package charts

import (
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/podtrial"
	"github.com/harrier-ci/harrier/internal/testkube"
)

// patch is a change of a pod by a webhook: a JSON patch.
type patch []map[string]any

// surroundings are what a platform does to pods: what it enforces, refuses and changes.
type surroundings struct {
	// enforce is the Pod Security Standard of the namespace.
	enforce string
	// refuses are pods for which an expression of these is false.
	refuses []string
	// changes are what a webhook does to a pod, and adds is what that comes to.
	changes func(*corev1.Pod) patch
	adds    string
	// more are values that the file leaves out, and that are tried, too.
	more string
}

const (
	// The published rules of SCC restricted-v2, for a namespace with these users and groups.
	sccUser  = "has(object.spec.securityContext) && has(object.spec.securityContext.runAsUser) && object.spec.securityContext.runAsUser >= 1000700000 && object.spec.securityContext.runAsUser < 1000710000"
	sccGroup = "has(object.spec.securityContext) && has(object.spec.securityContext.fsGroup) && object.spec.securityContext.fsGroup >= 1000700000 && object.spec.securityContext.fsGroup < 1000710000"
	sccAll   = "(object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : [])).all(c, !has(c.securityContext) || !has(c.securityContext.runAsUser))"

	// Those of GKE Autopilot.
	autopilotPrivileged = "object.spec.containers.all(c, !(has(c.securityContext) && has(c.securityContext.privileged) && c.securityContext.privileged))"
	autopilotPaths      = "!has(object.spec.volumes) || object.spec.volumes.all(v, !has(v.hostPath) || v.hostPath.path.startsWith('/var/log'))"
	autopilotHost       = "!(has(object.spec.hostNetwork) && object.spec.hostNetwork) && !(has(object.spec.hostPID) && object.spec.hostPID)"
	autopilotAdded      = "object.spec.containers.all(c, !(has(c.securityContext) && has(c.securityContext.capabilities) && has(c.securityContext.capabilities.add)) || c.securityContext.capabilities.add.all(a, a in ['AUDIT_WRITE', 'CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'KILL', 'MKNOD', 'NET_BIND_SERVICE', 'SETFCAP', 'SETGID', 'SETPCAP', 'SETUID', 'SYS_CHROOT']))"
	autopilotNodes      = "!has(object.spec.nodeSelector) || object.spec.nodeSelector.all(k, k.startsWith('cloud.google.com/') || k.startsWith('topology.') || k.startsWith('iam.gke.io/') || k in ['kubernetes.io/arch', 'kubernetes.io/os'])"

	registry = "(object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : [])).all(c, c.image.startsWith('registry.example.com/'))"
)

// platforms are the values files of docs/platforms, each with what is in force where it is used.
var platforms = map[string]surroundings{
	"restricted.yaml":            {enforce: "restricted", refuses: []string{registry}, more: "prepull: {enabled: true}"},
	"restricted-controller.yaml": {enforce: "restricted", refuses: []string{registry}},
	"openshift.yaml": {enforce: "restricted", refuses: []string{sccUser, sccGroup, sccAll}, changes: assignUser,
		more: "prepull: {enabled: true}"},
	"gke-autopilot.yaml": {enforce: "baseline", refuses: []string{autopilotPrivileged, autopilotPaths, autopilotHost,
		autopilotAdded, autopilotNodes}},
	"eks-karpenter-spot.yaml": {enforce: "baseline"},
	"eks-irsa.yaml": {enforce: "baseline", changes: addVariable("AWS_ROLE_ARN", "aws-iam-token", nil),
		adds: "volume aws-iam-token"},
	"azure-workload-identity.yaml": {enforce: "baseline", changes: addVariable("AZURE_CLIENT_ID", "azure-identity-token",
		func(pod *corev1.Pod) bool { return pod.Labels["azure.workload.identity/use"] == "true" }),
		adds: "volume azure-identity-token"},
	"gke-workload-identity.yaml": {enforce: "baseline", refuses: []string{autopilotNodes}},
	"vault-agent.yaml":           {enforce: "baseline", changes: addAgent, adds: "container vault-agent-init (vault:1); volume vault-secrets"},
	"aks-spot.yaml":              {enforce: "baseline"},
	"bottlerocket.yaml":          {enforce: "baseline"},
	"mixed-architectures.yaml":   {enforce: "baseline"},
	"windows.yaml":               {enforce: "baseline"},
	"registry-mirror.yaml":       {enforce: "privileged", refuses: []string{registry}},
	"proxy.yaml":                 {enforce: "baseline"},
}

// Each values file of docs/platforms is rendered and applied to an API server with the platform's policies in force, which
// takes the objects, and the pods that come of them.
func TestPlatforms(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "docs", "platforms", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		names = append(names, filepath.Base(file))
	}
	check(t, "files in docs/platforms", names, slices.Sorted(maps.Keys(platforms)))
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newSite(t, platforms[name]).apply(t, name)
		})
	}
}

// site is a namespace of a platform.
type site struct {
	surroundings
	cluster   *testkube.Cluster
	namespace string
}

// newSite makes a namespace, and waits until everything is in force there.
func newSite(t *testing.T, s surroundings) *site {
	t.Helper()
	at := &site{surroundings: s, cluster: testkube.Shared(t)}
	at.namespace = at.cluster.NewNamespace(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: at.namespace}}
	if err := at.cluster.Client().Patch(t.Context(), namespace, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"`+s.enforce+`"}}}`))); err != nil {
		t.Fatal(err)
	}
	at.create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: at.namespace, Name: "builds"}})
	selects := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: at.namespace}}
	at.create(t, at.policy(selects)...)
	if s.changes != nil {
		at.create(t, at.webhook(t, selects))
	}
	gomega.NewWithT(t).Eventually(func() bool {
		trap := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: at.namespace, Name: "trap",
			Labels:      map[string]string{"trap": "yes", "azure.workload.identity/use": "true"},
			Annotations: map[string]string{"vault.hashicorp.com/agent-inject": "true"}}, Spec: corev1.PodSpec{
			ServiceAccountName: "builds",
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{Name: "c", Image: "i", SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}}}}
		err := at.cluster.Client().Create(t.Context(), trap, client.DryRunAll)
		inForce := err != nil && strings.Contains(err.Error(), "the trap")
		if s.changes == nil {
			return inForce
		}
		delete(trap.Labels, "trap")
		before := trap.DeepCopy()
		_ = at.cluster.Client().Create(t.Context(), trap, client.DryRunAll)
		return inForce && len(s.changes(before)) > 0 && asked.hasSeen(at.namespace)
	}, "1m", "100ms").Should(gomega.BeTrue(), "the platform is in force")
	return at
}

func (at *site) create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := at.cluster.Client().Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		if object.GetNamespace() == "" {
			t.Cleanup(func() { _ = at.cluster.Client().Delete(t.Context(), object) })
		}
	}
}

// policy refuses pods for which an expression is false, and those with the label trap, by which a test knows that it is
// in force.
func (at *site) policy(selects *metav1.LabelSelector) []client.Object {
	validations := []admissionregistrationv1.Validation{{Message: "the trap",
		Expression: "!has(object.metadata.labels) || !('trap' in object.metadata.labels)"}}
	for _, expression := range at.refuses {
		validations = append(validations, admissionregistrationv1.Validation{Expression: expression})
	}
	name := metav1.ObjectMeta{Name: "platform-" + at.namespace}
	return []client.Object{
		&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: name,
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{Validations: validations,
				MatchConstraints: &admissionregistrationv1.MatchResources{NamespaceSelector: selects,
					ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: creationsOfPods}}}}},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: name,
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name.Name,
				ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}}},
	}
}

var creationsOfPods = admissionregistrationv1.RuleWithOperations{
	Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
	Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
		Resources: []string{"pods"}},
}

// webhook changes pods as the platform does.
func (at *site) webhook(t *testing.T, selects *metav1.LabelSelector) client.Object {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		var review admissionv1.AdmissionReview
		pod := &corev1.Pod{}
		err := json.NewDecoder(request.Body).Decode(&review)
		if err == nil {
			err = json.Unmarshal(review.Request.Object.Raw, pod)
		}
		if err != nil {
			response.WriteHeader(http.StatusBadRequest)
			return
		}
		asked.see(review.Request.Namespace)
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if changes := at.changes(pod); len(changes) > 0 {
			content, _ := json.Marshal(changes)
			review.Response.Patch, review.Response.PatchType = content, new(admissionv1.PatchTypeJSONPatch)
		}
		_ = json.NewEncoder(response).Encode(review)
	}))
	t.Cleanup(server.Close)
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "platform-" + at.namespace},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "pods.example.com", NamespaceSelector: selects,
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &server.URL, CABundle: pem.EncodeToMemory(
				&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
			Rules:       []admissionregistrationv1.RuleWithOperations{creationsOfPods},
			SideEffects: new(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"}}},
	}
}

// chartOfFile is the first line of a values file.
var chartOfFile = regexp.MustCompile(`^# Chart: (\S+)\n`)

// apply renders a values file, creates what is in a namespace, and tries the pods that come of it.
func (at *site) apply(t *testing.T, name string) {
	t.Helper()
	values := platform(t, name)
	found := chartOfFile.FindStringSubmatch(values)
	if found == nil {
		t.Fatalf("%s doesn't begin with the chart's name", name)
	}
	of, more := controller, ""
	if found[1] == scaleSet.name {
		of, more = scaleSet, ofInstaller
	}
	if name == "openshift.yaml" {
		of = of.with("--api-versions", "security.openshift.io/v1")
	}
	rendered := render(t, of, values, more, at.more)
	for _, documents := range rendered {
		for _, document := range documents {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil || object.GetKind() == "" ||
				object.GetKind() == "CustomResourceDefinition" {
				continue
			}
			options := []client.CreateOption{}
			if object.GetNamespace() == "" {
				options = append(options, client.DryRunAll)
			} else {
				object.SetNamespace(at.namespace)
			}
			err := at.cluster.Client().Create(t.Context(), object, options...)
			if client.IgnoreAlreadyExists(err) != nil {
				t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
			}
			at.tryPods(t, object.GetKind(), []byte(document), rendered)
		}
	}
	if at.changes == nil {
		return
	}
	// The manager's pod, and the ledger's, may ask for the same.
	rendered = render(t, controller.with("--api-versions", "security.openshift.io/v1"), `
history: {enabled: true}
podLabels: {azure.workload.identity/use: "true"}
podAnnotations: {vault.hashicorp.com/agent-inject: "true"}
`)
	at.tryPod(t, "manager", one[appsv1.Deployment](t, rendered, "deployment.yaml").Spec.Template)
	at.tryPod(t, "ledger", historyOf(t, rendered).Spec.Template)
}

// tryPods tries the pods of an object.
func (at *site) tryPods(t *testing.T, kind string, document []byte, rendered manifests) {
	t.Helper()
	switch kind {
	case "Deployment":
		at.tryPod(t, kind, decode[appsv1.Deployment](t, string(document)).Spec.Template)
	case "DaemonSet":
		at.tryPod(t, kind, decode[appsv1.DaemonSet](t, string(document)).Spec.Template)
	case "Job":
		at.tryPod(t, kind, decode[batchv1.Job](t, string(document)).Spec.Template)
	case "AutoscalingRunnerSet":
		set := decode[v1alpha1.AutoscalingRunnerSet](t, string(document))
		set.Namespace = at.namespace
		runner := runnersPod(&set)
		at.try(t, "runner", runner, runner.DeepCopy())
		hooks := podtrial.HooksOf(runner)
		if hooks == nil {
			return
		}
		template := ""
		if files := rendered["hook_extension.yaml"]; len(files) > 0 {
			template = decode[corev1.ConfigMap](t, files[0]).Data["extension"]
		}
		job, err := hooks.JobPod(runner, template)
		if err != nil {
			t.Fatal(err)
		}
		at.try(t, "job", job, job.DeepCopy())
	}
}

// tryPod tries a pod of a template. The accounts of the charts' own objects are created before or after it.
func (at *site) tryPod(t *testing.T, of string, template corev1.PodTemplateSpec) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.Name, pod.Spec.ServiceAccountName = at.namespace, "pod", "builds"
	if pod.Spec.RestartPolicy == "" {
		pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	at.try(t, of, pod, pod.DeepCopy())
}

// try tries a pod, and sees that nothing it needs is taken from it.
func (at *site) try(t *testing.T, of string, asked, answered client.Object) {
	t.Helper()
	if pod, is := answered.(*corev1.Pod); is && of == "runner" && pod.Spec.ServiceAccountName != "builds" {
		pod.Spec.ServiceAccountName = "builds" // the chart's may come later
		asked.(*corev1.Pod).Spec.ServiceAccountName = "builds"
	}
	if err := at.cluster.Client().Create(t.Context(), answered, client.DryRunAll); err != nil {
		t.Errorf("the pod of %s: %v", of, err)
		return
	}
	difference, err := podtrial.Compare(asked, answered, false)
	if err != nil {
		t.Fatal(err)
	}
	check(t, "what the pod of "+of+" loses", strings.Join(difference.Lost, "; "), "")
	if of == "runner" || of == "manager" {
		check(t, "what is added to the pod of "+of, strings.Join(difference.Added, "; "), at.adds)
	}
}

// assignUser gives pods that name none a user and a group of the namespace's range, as OpenShift does.
func assignUser(pod *corev1.Pod) (changes patch) {
	if pod.Spec.SecurityContext == nil {
		changes = append(changes, map[string]any{"op": "add", "path": "/spec/securityContext", "value": map[string]any{}})
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	if pod.Spec.SecurityContext.RunAsUser == nil {
		changes = append(changes, map[string]any{"op": "add", "path": "/spec/securityContext/runAsUser", "value": 1000700000})
	}
	if pod.Spec.SecurityContext.FSGroup == nil {
		changes = append(changes, map[string]any{"op": "add", "path": "/spec/securityContext/fsGroup", "value": 1000700000})
	}
	return changes
}

// addVariable adds a variable and a projected token, as the webhooks of clouds do.
func addVariable(name, volume string, when func(*corev1.Pod) bool) func(*corev1.Pod) patch {
	return func(pod *corev1.Pod) patch {
		if when != nil && !when(pod) || pod.Spec.ServiceAccountName != "builds" {
			return nil
		}
		return append(addVolume(pod, volume),
			list(len(pod.Spec.Containers[0].Env) > 0, "/spec/containers/0/env", map[string]any{"name": name, "value": "x"}),
			list(len(pod.Spec.Containers[0].VolumeMounts) > 0, "/spec/containers/0/volumeMounts",
				map[string]any{"name": volume, "mountPath": "/var/run/secrets/" + volume}))
	}
}

// addAgent adds an init container and its volume, as Vault's injector does.
func addAgent(pod *corev1.Pod) patch {
	if pod.Annotations["vault.hashicorp.com/agent-inject"] != "true" {
		return nil
	}
	return append(addVolume(pod, "vault-secrets"), list(len(pod.Spec.InitContainers) > 0, "/spec/initContainers",
		map[string]any{"name": "vault-agent-init", "image": "vault:1"}))
}

func addVolume(pod *corev1.Pod, name string) patch {
	return patch{list(len(pod.Spec.Volumes) > 0, "/spec/volumes", map[string]any{"name": name, "emptyDir": map[string]any{}})}
}

// list adds an entry to a list, which may not be there yet.
func list(there bool, path string, entry map[string]any) map[string]any {
	if there {
		return map[string]any{"op": "add", "path": path + "/-", "value": entry}
	}
	return map[string]any{"op": "add", "path": path, "value": []any{entry}}
}

// asked has the namespaces whose webhooks were asked.
var asked sightings

type sightings struct{ namespaces sync.Map }

func (s *sightings) see(namespace string) { s.namespaces.Store(namespace, true) }
func (s *sightings) hasSeen(namespace string) bool {
	_, seen := s.namespaces.Load(namespace)
	return seen
}
