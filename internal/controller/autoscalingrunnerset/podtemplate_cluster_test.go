package autoscalingrunnerset_test

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// site is a namespace with a scale set, and what its administrator does there.
type site struct {
	// prepare creates what decides about pods in the namespace.
	prepare func(w *world, namespace string)
	// template changes the set's template.
	template func(*corev1.PodSpec)
	// mayNotCreate takes the right to create pods from the manager.
	mayNotCreate bool
	// reason and words are of the refusal, "" if the pods would be admitted, or nobody knows. about is the condition that
	// has them, "" for PodTemplateRefused.
	reason, words, about string
}

// sites have everything by which a real API server refuses a pod, or seems to.
var sites = map[string]site{
	"nothing": {},
	"pod-security": {
		prepare: func(w *world, namespace string) {
			w.label(namespace, "pod-security.kubernetes.io/enforce", "baseline")
		},
		template: func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		},
		reason: v1alpha1.ReasonPodForbidden, words: `violates PodSecurity "baseline:latest": privileged`,
	},
	"limit-range": {
		prepare: func(w *world, namespace string) {
			w.create(&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "small"},
				Spec: corev1.LimitRangeSpec{
					Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer,
						Max: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}},
				}})
		},
		template: func(s *corev1.PodSpec) {
			s.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		},
		reason: v1alpha1.ReasonPodForbidden, words: "maximum cpu usage per Container is 1",
	},
	"account": {
		template: func(s *corev1.PodSpec) { s.ServiceAccountName = "nobody" },
		reason:   v1alpha1.ReasonPodForbidden, words: `serviceaccount "nobody" not found`,
	},
	"priority": {
		template: func(s *corev1.PodSpec) { s.PriorityClassName = "nobody" },
		reason:   v1alpha1.ReasonPodForbidden, words: "no PriorityClass with name nobody was found",
	},
	"runtime": {
		template: func(s *corev1.PodSpec) { s.RuntimeClassName = new("nobody") },
		reason:   v1alpha1.ReasonPodForbidden, words: `RuntimeClass "nobody" not found`,
	},
	"invalid": {
		template: func(s *corev1.PodSpec) {
			s.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "none", MountPath: "/x"}}
		},
		reason: v1alpha1.ReasonInvalidPod, words: "volumeMounts[0].name",
	},
	"policy": {
		prepare: func(w *world, namespace string) { w.policy(namespace, "false") },
		reason:  v1alpha1.ReasonInvalidPod, words: "no such image",
	},
	"webhook": {
		prepare: func(w *world, namespace string) { w.webhook(namespace, w.denying()) },
		reason:  v1alpha1.ReasonInvalidPod, words: "denied the request",
	},
	"quota-for-limits": {
		prepare: func(w *world, namespace string) { w.quota(namespace, corev1.ResourceLimitsCPU, "10") },
		reason:  v1alpha1.ReasonPodForbidden, words: "must specify limits.cpu",
	},
	"full-quota":    {prepare: func(w *world, namespace string) { w.quota(namespace, corev1.ResourcePods, "0") }},
	"webhook-down":  {prepare: func(w *world, namespace string) { w.webhook(namespace, &httptest.Server{URL: "https://127.0.0.1:1"}) }},
	"missing-right": {mayNotCreate: true},
	"job-pod": {
		prepare: func(w *world, namespace string) {
			w.label(namespace, "pod-security.kubernetes.io/enforce", "restricted")
		},
		template: runsJobsAsPods,
		about:    v1alpha1.ConditionJobPodRefused, reason: v1alpha1.ReasonPodForbidden,
		words: `"set-runner-check-workflow" is forbidden: violates PodSecurity "restricted:latest"`,
	},
	"job-image": {
		prepare: func(w *world, namespace string) {
			w.policy(namespace, "!has(object.metadata.labels) || !('runner-pod' in object.metadata.labels) || "+
				"object.spec.containers.all(c, c.image.startsWith('jobs/'))")
		},
		template: runsJobsAsPods,
		about:    v1alpha1.ConditionJobPodRefused, reason: v1alpha1.ReasonJobImageRefused, words: "no such image",
	},
	"lost-account": {
		prepare: func(w *world, namespace string) {
			w.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other"}})
			w.mutation(namespace, `[{"op":"replace","path":"/spec/serviceAccountName","value":"other"},`+
				`{"op":"replace","path":"/spec/serviceAccount","value":"other"}]`)
		},
		about: v1alpha1.ConditionPodsAltered, reason: v1alpha1.ReasonPodFieldsLost, words: `account default (it gets "other")`,
		template: func(s *corev1.PodSpec) { s.ServiceAccountName = "default" },
	},
	"lost-token": {
		prepare: func(w *world, namespace string) {
			w.mutation(namespace, `[{"op":"remove","path":"/spec/containers/0/volumeMounts"}]`)
		},
		template: func(s *corev1.PodSpec) { // as the chart's: one that the API server mounts, it mounts again
			runsJobsAsPods(s)
			s.AutomountServiceAccountToken = new(false)
			s.Volumes = []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{
				Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{
					ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}}}}}
			s.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "token",
				MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}}
		},
		about: v1alpha1.ConditionPodsAltered, reason: v1alpha1.ReasonPodFieldsLost,
		words: "asks for: the token of its account in container runner",
	},
}

// runsJobsAsPods makes a template that Pod Security "restricted" lets through, and whose container hooks say nothing of
// the pods of jobs.
func runsJobsAsPods(s *corev1.PodSpec) {
	s.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(1001)),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	s.Containers[0].SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: new(false),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
	s.Containers[0].Env = []corev1.EnvVar{
		{Name: "ACTIONS_RUNNER_CONTAINER_HOOKS", Value: "/home/runner/k8s-novolume/index.js"},
		{Name: "ACTIONS_RUNNER_REQUIRE_JOB_CONTAINER", Value: "true"},
	}
}

// A lasting refusal of a real API server is told before the first job, in its own words. One that passes by itself, or
// says nothing about the template, isn't.
func TestWhatTheAPIServerRefusesIsTold(t *testing.T) {
	w := newWorld(t)
	namespaces := map[string]string{}
	for name, site := range sites {
		namespaces[name] = w.build(site)
	}
	for name, site := range sites {
		t.Run(name, func(t *testing.T) {
			set := &v1alpha1.AutoscalingRunnerSet{}
			w.Eventually(func() bool {
				w.exists(set, namespaces[name], "set")
				return set.Status.ObservedGeneration == set.Generation &&
					meta.IsStatusConditionTrue(set.Status.Conditions, v1alpha1.ConditionScaleSetRegistered) &&
					meta.FindStatusCondition(set.Status.Conditions,
						v1alpha1.ConditionListenerReady).Reason != "WaitingForScaleSet" &&
					meta.FindStatusCondition(set.Status.Conditions,
						v1alpha1.ConditionReady).Reason != "CheckingPodTemplate"
			}).Should(isTrue)
			refused := meta.FindStatusCondition(set.Status.Conditions, cmp.Or(site.about, v1alpha1.ConditionPodTemplateRefused))
			switch {
			case site.reason == "" && refused != nil:
				t.Errorf("%+v", refused)
			case site.reason != "" && (refused == nil || refused.Reason != site.reason ||
				!strings.Contains(refused.Message, site.words)):
				t.Errorf("condition %+v, want reason %s with %q", refused, site.reason, site.words)
			}
		})
	}
	for name, namespace := range namespaces {
		var pods corev1.PodList
		if err := w.client.List(t.Context(), &pods, client.InNamespace(namespace)); err != nil || len(pods.Items) > 0 {
			t.Errorf("%s: %d pods, %v", name, len(pods.Items), err)
		}
	}
}

// build creates a namespace with a scale set, after everything that decides about its pods is in force.
func (w *world) build(s site) (namespace string) {
	w.Helper()
	namespace = w.cluster.NewNamespace(w.T)
	rights := ofScaleSets()
	if s.mayNotCreate {
		rights[0].Verbs = []string{"delete", "get"}
	}
	w.grantIn(namespace, rights)
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "runner",
		Image: "runner:1"}}}}
	if s.template != nil {
		s.template(&template.Spec)
	}
	if s.prepare != nil {
		s.prepare(w, namespace)
		try := template.Spec.DeepCopy()
		if s.about == v1alpha1.ConditionJobPodRefused {
			try.SecurityContext = nil // the runner's own pod passes
		}
		w.Eventually(func() error {
			return w.client.Create(w.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "try",
				Labels: map[string]string{v1alpha1.LabelRunnerPod: "try"}}, Spec: *try.DeepCopy()}, client.DryRunAll)
		}).ShouldNot(succeed)
	}
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "github"},
		StringData: map[string]string{"github_token": "token"}},
		&v1alpha1.AutoscalingRunnerSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "set"},
			Spec: v1alpha1.AutoscalingRunnerSetSpec{
				GitHubConfigUrl: w.address, GitHubConfigSecret: "github", RunnerScaleSetName: namespace,
				ProtectRunners: v1alpha1.ProtectNoRunners, Template: template,
			},
		})
	return namespace
}

// label sets a label of a namespace.
func (w *world) label(namespace, key, value string) {
	w.Helper()
	object := &corev1.Namespace{}
	w.exists(object, "", namespace)
	before := object.DeepCopy()
	object.Labels = maps.Clone(object.Labels)
	object.Labels[key] = value
	if err := w.client.Patch(w.Context(), object, client.MergeFrom(before)); err != nil {
		w.Fatal(err)
	}
}

func (w *world) quota(namespace string, name corev1.ResourceName, hard string) {
	w.Helper()
	w.create(&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "team"},
		Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{name: resource.MustParse(hard)},
		}})
}

// in selects a namespace.
func in(namespace string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
}

// ofPods are the creations of pods.
func ofPods() admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
			Resources: []string{"pods"}},
	}
}

// policy admits pods of the namespace for which the expression is true.
func (w *world) policy(namespace, expression string) {
	w.Helper()
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: ofPods()}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: expression, Message: "no such image"}},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: namespace, ValidationActions: []admissionregistrationv1.ValidationAction{
				admissionregistrationv1.Deny},
			MatchResources: &admissionregistrationv1.MatchResources{NamespaceSelector: in(namespace)},
		},
	}
	w.create(policy, binding)
	w.Cleanup(func() { w.deleteEventually(policy, binding) })
}

// webhook has a server asked about pods of the namespace.
func (w *world) webhook(namespace string, server *httptest.Server) {
	w.Helper()
	url, none, always := server.URL, admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail
	hook := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "pods.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url},
			Rules:         []admissionregistrationv1.RuleWithOperations{ofPods()},
			FailurePolicy: &always, NamespaceSelector: in(namespace), SideEffects: &none,
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
	if certificate := server.Certificate(); certificate != nil {
		hook.Webhooks[0].ClientConfig.CABundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
			Bytes: certificate.Raw})
	}
	w.create(hook)
	w.Cleanup(func() { w.deleteEventually(hook) })
}

// mutation has a webhook change all pods of the namespace but the one named try, which it denies.
func (w *world) mutation(namespace, patch string) {
	w.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
			response.WriteHeader(http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: review.Request.Name != "try",
			Patch: []byte(patch), PatchType: new(admissionv1.PatchTypeJSONPatch)}
		_ = json.NewEncoder(response).Encode(review) // the API server says so if it can't read it
	}))
	w.Cleanup(server.Close)
	hook := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "pods.example.com", Rules: []admissionregistrationv1.RuleWithOperations{ofPods()},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &server.URL,
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
			NamespaceSelector: in(namespace), SideEffects: new(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
	w.create(hook)
	w.Cleanup(func() { w.deleteEventually(hook) })
}

// denying is a webhook that denies everything and gives no code.
func (w *world) denying() *httptest.Server {
	server := httptest.NewTLSServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
			response.WriteHeader(http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID,
			Result: &metav1.Status{Message: "not here"}}
		_ = json.NewEncoder(response).Encode(review) // the API server says so if it can't read it
	}))
	w.Cleanup(server.Close)
	return server
}

// deleteEventually deletes objects after the test, whose context has ended by then.
func (w *world) deleteEventually(objects ...client.Object) {
	w.Helper()
	for _, object := range objects {
		if err := w.client.Delete(context.WithoutCancel(w.Context()), object); err != nil {
			w.Error(err)
		}
	}
}
