package launch_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/launch"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
)

// What the API server says to a pod: an invalid one stays so until the template changes, anything else may be allowed
// later.
func TestRefusalsOfAPod(t *testing.T) {
	invalid := &rules.Failure{Kind: rules.Invalid, Reason: v1alpha1.ReasonInvalidPod,
		Message: "correct spec.template of the AutoscalingRunnerSet"}
	for rule, test := range map[string]struct {
		create, live error
		want         *rules.Failure
	}{
		"an invalid template":         {errInvalid, nil, invalid},
		"a webhook's denial":          {errBadRequest, nil, invalid},
		"a quota":                     {errQuota, nil, &rules.Failure{Reason: v1alpha1.ReasonQuotaExceeded, Message: "exceeded quota: compute"}},
		"a policy":                    {errForbidden, nil, &rules.Failure{Reason: v1alpha1.ReasonPodForbidden, Message: "forbids it in namespace arc-runners"}},
		"a namespace that is going":   {errNamespace, nil, &rules.Failure{Kind: rules.Closed, Reason: "NamespaceTerminating"}},
		"no answer":                   {errNoAnswer, nil, &rules.Failure{Kind: rules.Away, Reason: v1alpha1.ReasonAPIServerUnavailable, Message: "create pod set-runner-abcde: "}},
		"a webhook's failure":         {errInternal, nil, &rules.Failure{Reason: v1alpha1.ReasonPodRefused, Message: "create pod set-runner-abcde: "}},
		"it exists, whosever it is":   {errExists, errForbidden, &rules.Failure{Reason: "PodUnreadable", Message: "read pod set-runner-abcde: "}},
		"it exists, and nobody knows": {errExists, errNoAnswer, &rules.Failure{Kind: rules.Away, Reason: v1alpha1.ReasonAPIServerUnavailable, Message: "read pod set-runner-abcde: "}},
	} {
		t.Run(rule, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.fails["create Pod"], f.fails["live Pod"] = test.create, test.live
				wantFailure(t, f.launch(newRunner(), 0), test.want)
				if _, id := f.memory.Launched(); id != 42 || !f.hasSecret() {
					t.Errorf("registration %d, Secret: %t: the next try uses both", id, f.hasSecret())
				}
			})
		})
	}
}

// A pod of the runner's name is its own only if the runner controls it.
func TestOwnPod(t *testing.T) {
	for rule, test := range map[string]struct {
		pod  *corev1.Pod
		err  error
		want string // its UID
		says string
	}{
		"the runner's":         {newPod("7"), nil, "pod-uid", ""},
		"another's":            {another(), nil, "", ""},
		"none":                 {nil, nil, "", ""},
		"one that nobody sees": {newPod("7"), errForbidden, "", "get pod: "},
	} {
		inBubble(t, func(f *fixture) {
			if test.pod != nil {
				controllertest.Create(t, f.api, test.pod)
			}
			f.fails["live Pod"] = test.err
			pod, err := launch.OwnPod(t.Context(), f.asked("live"), newRunner())
			if (err != nil) != (test.says != "") || (err != nil && !strings.HasPrefix(err.Error(), test.says)) {
				t.Errorf("%s: OwnPod() = %v", rule, err)
			}
			if (pod != nil) != (test.want != "") || (pod != nil && string(pod.UID) != test.want) {
				t.Errorf("%s: OwnPod() = %v", rule, pod)
			}
		})
	}
}

// The pod says which registration its runner has, unless it says nothing that could be one.
func TestTheRegistrationOfAPod(t *testing.T) {
	for annotation, want := range map[string]int{"7": 7, "1": 1, "": 5, "0": 5, "-7": 5, "x": 5, "7 ": 5,
		"99999999999999999999": 5} {
		if got := launch.RunnerIDOf(newPod(annotation), 5); got != want {
			t.Errorf("annotation %q: %d, want %d", annotation, got, want)
		}
	}
}

// A pod takes its registration from the Secret of its name: the variable of the runner container says so.
func TestWhereAPodTakesItsRegistration(t *testing.T) {
	const variable = "ACTIONS_RUNNER_INPUT_JITCONFIG"
	fromField := corev1.EnvVar{Name: variable, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}
	for rule, test := range map[string]struct {
		container string
		env       []corev1.EnvVar
		want      bool
	}{
		"from its Secret":             {"runner", []corev1.EnvVar{fromSecret(variable, name, "jitToken")}, true},
		"after what the user gives":   {"runner", []corev1.EnvVar{{Name: "MINE"}, fromSecret(variable, name, "jitToken")}, true},
		"from another Secret":         {"runner", []corev1.EnvVar{fromSecret(variable, "other", "jitToken")}, false},
		"from the template":           {"runner", []corev1.EnvVar{{Name: variable, Value: "config"}}, false},
		"from a field":                {"runner", []corev1.EnvVar{fromField}, false},
		"something else from it":      {"runner", []corev1.EnvVar{fromSecret("TOKEN", name, "token")}, false},
		"nothing":                     {"runner", nil, false},
		"another container, not this": {"dind", []corev1.EnvVar{fromSecret(variable, name, "jitToken")}, false},
	} {
		pod := newPod("7")
		pod.Spec.Containers = []corev1.Container{{Name: test.container, Env: test.env}}
		if got := launch.TakesRegistration(pod); got != test.want {
			t.Errorf("%s: %t", rule, got)
		}
	}
	if !launch.TakesRegistration(launch.SamplePod(newRunner(wholeRunner), "dev")) {
		t.Error("a pod that is created here doesn't")
	}
}

// The proxies are in a Secret of their own. Each variable is there only if its proxy is, and the Secret.
func TestProxiesOfTheRunner(t *testing.T) {
	server := &v1alpha1.ProxyServerConfig{Url: "http://proxy"}
	for rule, test := range map[string]struct {
		proxy  *v1alpha1.ProxyConfig
		secret string
		want   string
	}{
		"no proxy":           {nil, "", ""},
		"all of them":        {&v1alpha1.ProxyConfig{HTTP: server, HTTPS: server, NoProxy: []string{"x"}}, "proxy", "http_proxy https_proxy no_proxy"},
		"one for HTTP":       {&v1alpha1.ProxyConfig{HTTP: server}, "proxy", "http_proxy"},
		"one for HTTPS":      {&v1alpha1.ProxyConfig{HTTPS: server}, "proxy", "https_proxy"},
		"only exceptions":    {&v1alpha1.ProxyConfig{NoProxy: []string{"x"}}, "proxy", "no_proxy"},
		"no Secret yet":      {&v1alpha1.ProxyConfig{HTTP: server}, "", ""},
		"a Secret of no one": {nil, "proxy", ""},
	} {
		runner := newRunner()
		runner.Spec.Proxy, runner.Spec.ProxySecretRef = test.proxy, test.secret
		var names []string
		for _, variable := range launch.SamplePod(runner, "dev").Spec.Containers[0].Env[3:] {
			names = append(names, variable.Name)
		}
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("%s: %q, want %q", rule, got, test.want)
		}
	}
}

// A daemon that pulls the images of jobs needs the proxy as much as the runner, with its password, from the same Secret.
// Others get none, and what a container says itself stays.
func TestProxiesOfDaemons(t *testing.T) {
	server := &v1alpha1.ProxyServerConfig{Url: "http://proxy", CredentialSecretRef: "password"}
	runner := newRunner()
	runner.Spec.Proxy = &v1alpha1.ProxyConfig{HTTP: server, HTTPS: server, NoProxy: []string{"x"}}
	runner.Spec.ProxySecretRef = "set-proxy"
	runner.Spec.PodSpec.InitContainers = []corev1.Container{{Name: "dind", Image: "docker:dind"}, {Name: "init", Image: "cp"}}
	runner.Spec.PodSpec.Containers = append(runner.Spec.PodSpec.Containers,
		corev1.Container{Name: "builder", Image: "registry.example.com:5000/moby/buildkit:v0.20@sha256:0"},
		corev1.Container{Name: "buildkitd", Image: "mine", Env: []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://other"}}},
		corev1.Container{Name: "shipper", Image: "docker.example.com/shipper"})
	spec := launch.SamplePod(runner, "dev").Spec
	for name, want := range map[string]string{"dind": "http_proxy https_proxy no_proxy", "init": "",
		"builder": "http_proxy https_proxy no_proxy", "buildkitd": "HTTPS_PROXY http_proxy no_proxy", "shipper": ""} {
		var names []string
		for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
			for _, container := range containers {
				for _, variable := range container.Env {
					if container.Name != name {
						continue
					}
					names = append(names, variable.Name)
					if from := variable.ValueFrom; from != nil && from.SecretKeyRef.Name != "set-proxy" {
						t.Errorf("%s: %s comes from %+v", name, variable.Name, from)
					}
				}
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if len(runner.Spec.PodSpec.InitContainers[0].Env) != 0 {
		t.Error("the runner's own spec has changed")
	}
}
