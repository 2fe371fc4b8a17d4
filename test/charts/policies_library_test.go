package charts

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// libraryPolicy says what a policy of the public libraries of Kyverno and Gatekeeper asks of objects, in our own words.
type libraryPolicy struct {
	name, about, asks, expression string
}

// kindsOf are the resources that policies are about, with their API groups. Those about pods see templates of pods, too.
var kindsOf = map[string][]string{
	"pods": {"/pods", "apps/deployments", "apps/statefulsets", "apps/daemonsets", "batch/jobs"},
	"bare": {"/pods"}, "workloads": {"apps/deployments", "apps/statefulsets"}, "accounts": {"/serviceaccounts"},
	"roles":    {"rbac.authorization.k8s.io/roles", "rbac.authorization.k8s.io/clusterroles"},
	"bindings": {"rbac.authorization.k8s.io/rolebindings", "rbac.authorization.k8s.io/clusterrolebindings"},
	"services": {"/services"}, "budgets": {"policy/poddisruptionbudgets"}, "claims": {"/persistentvolumeclaims"},
}

func variable(name, expression string) admissionregistrationv1.Variable {
	return admissionregistrationv1.Variable{Name: name, Expression: expression}
}

// variablesOf are the parts of objects that expressions are about: spec, labels and all containers of a pod.
var variablesOf = map[string][]admissionregistrationv1.Variable{
	"pods": {
		variable("pod", "object.kind == 'Pod' ? object : object.spec.template"),
		variable("spec", "variables.pod.spec"),
		variable("labels", "has(variables.pod.metadata.labels) ? variables.pod.metadata.labels : {}"),
		variable("main", "variables.spec.containers"),
		variable("all", "variables.main + (has(variables.spec.initContainers) ? variables.spec.initContainers : [])"),
		variable("secure", "has(variables.spec.securityContext)"),
		variable("volumes", "has(variables.spec.volumes) ? variables.spec.volumes : []"),
	},
}

// policies are those of both libraries that are about objects of the kinds that we make.
var policies = []libraryPolicy{
	// Pod Security "baseline" and "restricted", field by field
	{"disallow-privileged-containers", "pods", "no container is privileged",
		"variables.all.all(c, !(has(c.securityContext) && has(c.securityContext.privileged) && c.securityContext.privileged))"},
	{"disallow-host-namespaces", "pods", "no network, process or IPC namespace of the node",
		"!(has(variables.spec.hostNetwork) && variables.spec.hostNetwork) && !(has(variables.spec.hostPID) && variables.spec.hostPID) && !(has(variables.spec.hostIPC) && variables.spec.hostIPC)"},
	{"disallow-host-path", "pods", "no volume of the node's disk", "variables.volumes.all(v, !has(v.hostPath))"},
	{"disallow-host-ports", "pods", "no port of the node",
		"variables.all.all(c, !has(c.ports) || c.ports.all(p, !has(p.hostPort) || p.hostPort == 0))"},
	{"disallow-privilege-escalation", "pods", "`allowPrivilegeEscalation: false` in each container",
		"variables.all.all(c, has(c.securityContext) && has(c.securityContext.allowPrivilegeEscalation) && !c.securityContext.allowPrivilegeEscalation)"},
	{"require-drop-all", "pods", "each container drops all capabilities",
		"variables.all.all(c, has(c.securityContext) && has(c.securityContext.capabilities) && has(c.securityContext.capabilities.drop) && 'ALL' in c.securityContext.capabilities.drop)"},
	{"require-run-as-nonroot", "pods", "`runAsNonRoot: true`",
		"(variables.secure && has(variables.spec.securityContext.runAsNonRoot) && variables.spec.securityContext.runAsNonRoot) || variables.all.all(c, has(c.securityContext) && has(c.securityContext.runAsNonRoot) && c.securityContext.runAsNonRoot)"},
	{"disallow-run-as-root-user", "pods", "no `runAsUser: 0`",
		"!(variables.secure && has(variables.spec.securityContext.runAsUser) && variables.spec.securityContext.runAsUser == 0) && variables.all.all(c, !(has(c.securityContext) && has(c.securityContext.runAsUser) && c.securityContext.runAsUser == 0))"},
	{"restrict-seccomp-strict", "pods", "a seccomp profile: the runtime's or a local one",
		"(variables.secure && has(variables.spec.securityContext.seccompProfile) && variables.spec.securityContext.seccompProfile.type in ['RuntimeDefault', 'Localhost']) || variables.all.all(c, has(c.securityContext) && has(c.securityContext.seccompProfile) && c.securityContext.seccompProfile.type in ['RuntimeDefault', 'Localhost'])"},
	{"restrict-volume-types", "pods", "volumes of the kinds that \"restricted\" allows only",
		"variables.volumes.all(v, has(v.configMap) || has(v.csi) || has(v.downwardAPI) || has(v.emptyDir) || has(v.ephemeral) || has(v.persistentVolumeClaim) || has(v.projected) || has(v.secret))"},
	{"restrict-sysctls", "pods", "no kernel parameters", "!(variables.secure && has(variables.spec.securityContext.sysctls))"},
	// other fields of pods
	{"require-ro-rootfs", "pods", "`readOnlyRootFilesystem: true` in each container",
		"variables.main.all(c, has(c.securityContext) && has(c.securityContext.readOnlyRootFilesystem) && c.securityContext.readOnlyRootFilesystem)"},
	{"restrict-automount-sa-token", "pods", "`automountServiceAccountToken: false`, though the pod may mount the token itself",
		"has(variables.spec.automountServiceAccountToken) && !variables.spec.automountServiceAccountToken"},
	{"require-requests-limits", "pods", "each container requests CPU and memory, and limits memory",
		"variables.all.all(c, has(c.resources) && has(c.resources.requests) && 'cpu' in c.resources.requests && 'memory' in c.resources.requests && has(c.resources.limits) && 'memory' in c.resources.limits)"},
	{"container-limits", "pods", "each container limits CPU and memory",
		"variables.all.all(c, has(c.resources) && has(c.resources.limits) && 'cpu' in c.resources.limits && 'memory' in c.resources.limits)"},
	{"ephemeral-storage-limit", "pods", "each container limits its disk",
		"variables.all.all(c, has(c.resources) && has(c.resources.limits) && 'ephemeral-storage' in c.resources.limits)"},
	{"require-probes", "workloads", "liveness and readiness probes",
		"object.spec.template.spec.containers.all(c, has(c.livenessProbe) && has(c.readinessProbe))"},
	{"disallow-latest-tag", "pods", "images have a tag, and not `latest`",
		"variables.all.all(c, (c.image.contains('@') || c.image.matches(':[^/]+$')) && !c.image.endsWith(':latest'))"},
	{"restrict-image-registries", "pods", "images of your registry only, here `registry.example.com`",
		"variables.all.all(c, c.image.startsWith('registry.example.com/'))"},
	{"require-labels", "pods", "the label `app.kubernetes.io/name`", "'app.kubernetes.io/name' in variables.labels"},
	{"prevent-bare-pods", "bare", "a pod has an owner", "has(object.metadata.ownerReferences) && size(object.metadata.ownerReferences) > 0"},
	{"secrets-not-from-env-vars", "pods", "no Secret in a variable",
		"variables.all.all(c, (!has(c.env) || c.env.all(e, !has(e.valueFrom) || !has(e.valueFrom.secretKeyRef))) && (!has(c.envFrom) || c.envFrom.all(e, !has(e.secretRef))))"},
	{"disallow-container-sock-mounts", "pods", "no socket of the container runtime",
		"variables.volumes.all(v, !has(v.hostPath) || !v.hostPath.path.endsWith('.sock'))"},
	{"disallow-interactive-tty", "pods", "neither `stdin` nor `tty`",
		"variables.all.all(c, !(has(c.tty) && c.tty) && !(has(c.stdin) && c.stdin))"},
	{"replica-limits", "workloads", "at most 50 replicas", "!has(object.spec.replicas) || object.spec.replicas <= 50"},
	// accounts and their rights
	{"restrict-sa-automount-sa-token", "accounts", "`automountServiceAccountToken: false`",
		"has(object.automountServiceAccountToken) && !object.automountServiceAccountToken"},
	{"restrict-wildcard-verbs", "roles", "no `*` among verbs", "!has(object.rules) || object.rules == null || object.rules.all(r, !('*' in r.verbs))"},
	{"restrict-wildcard-resources", "roles", "no `*` among resources",
		"!has(object.rules) || object.rules == null || object.rules.all(r, !has(r.resources) || !('*' in r.resources))"},
	{"restrict-escalation-verbs-roles", "roles", "no `escalate`, `bind` or `impersonate`",
		"!has(object.rules) || object.rules == null || object.rules.all(r, r.verbs.all(v, !(v in ['escalate', 'bind', 'impersonate'])))"},
	{"restrict-secret-role-verbs", "roles", "nobody may get, list or watch Secrets",
		"!has(object.rules) || object.rules == null || object.rules.all(r, !has(r.resources) || !('secrets' in r.resources) || r.verbs.all(v, !(v in ['get', 'list', 'watch'])))"},
	{"restrict-clusterrole-nodesproxy", "roles", "no `nodes/proxy`",
		"!has(object.rules) || object.rules == null || object.rules.all(r, !has(r.resources) || !('nodes/proxy' in r.resources))"},
	{"block-endpoint-edit", "roles", "nobody may write endpoints",
		"!has(object.rules) || object.rules == null || object.rules.all(r, !has(r.resources) || !('endpoints' in r.resources) || r.verbs.all(v, v in ['get', 'list', 'watch']))"},
	{"restrict-binding-clusteradmin", "bindings", "nobody becomes `cluster-admin`", "object.roleRef.name != 'cluster-admin'"},
	{"restrict-binding-system-groups", "bindings", "no groups of everybody, and nobody anonymous",
		"!has(object.subjects) || object.subjects.all(s, !(s.name in ['system:anonymous', 'system:unauthenticated', 'system:masters', 'system:authenticated']))"},
	// the rest
	{"restrict-nodeport", "services", "no port of the node", "!has(object.spec.type) || object.spec.type != 'NodePort'"},
	{"block-loadbalancer", "services", "no load balancer", "!has(object.spec.type) || object.spec.type != 'LoadBalancer'"},
	{"restrict-external-ips", "services", "no external addresses", "!has(object.spec.externalIPs) || size(object.spec.externalIPs) == 0"},
	{"pdb-maxunavailable", "budgets", "`maxUnavailable` is not 0",
		"!has(object.spec.maxUnavailable) || string(object.spec.maxUnavailable) != '0'"},
	{"require-storageclass", "claims", "a claim names its StorageClass", "has(object.spec.storageClassName) && object.spec.storageClassName != ''"},
}

// worst returns objects that break every policy.
func worst(namespace string) (objects []*unstructured.Unstructured) {
	for _, document := range []string{`
apiVersion: v1
kind: Pod
metadata: {name: worst}
spec:
  hostNetwork: true
  securityContext: {runAsUser: 0, sysctls: [{name: kernel.shm_rmid_forced, value: "1"}]}
  volumes: [{name: node, hostPath: {path: /run/containerd.sock}}, {name: old, nfs: {server: s, path: /}}]
  containers:
    - {name: c, image: busybox, tty: true, securityContext: {privileged: true}, ports: [{containerPort: 80, hostPort: 80}], env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]}
`, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: worst}
spec:
  replicas: 51
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: busybox}]}}
`, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: worst}
`, `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: worst}
rules:
  - {apiGroups: [""], resources: ["*"], verbs: ["*"]}
  - {apiGroups: [""], resources: ["nodes/proxy", "endpoints", "secrets"], verbs: ["get", "update", "bind"]}
`, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: worst}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: system:masters}]
`, `
apiVersion: v1
kind: Service
metadata: {name: worst}
spec: {type: NodePort, externalIPs: [192.0.2.1], ports: [{port: 80}]}
`, `
apiVersion: v1
kind: Service
metadata: {name: worst}
spec: {type: LoadBalancer, ports: [{port: 80}]}
`, `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: worst}
spec: {maxUnavailable: 0, selector: {matchLabels: {a: b}}}
`, `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: worst}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`} {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			panic(err)
		}
		object.SetNamespace(namespace)
		objects = append(objects, object)
	}
	return objects
}
