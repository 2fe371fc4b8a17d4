package convert_test

import (
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/internal/doctor/finding"
)

// Cases beyond ARC's examples. Each is the spec of a Runner's organization acme with more fields; what is wanted are parts of the values, and of
// the report.
func TestDetails(t *testing.T) {
	for name, test := range map[string]struct{ spec, values, said string }{
		"only self-hosted":      {"labels: [self-hosted]", "scaleSetLabels: null", "spec.labels"},
		"a group":               {"group: 'a \"b'", "runnerGroup: 'a \"b'", ""},
		"a group without use":   {"organization: null, repository: a/b, group: g", "runnerGroup: null", "a repository has no runner groups"},
		"several addresses":     {"repository: a/b", "githubConfigUrl: https://github.com/acme", "PROBLEM NoAddress"},
		"hooks without a claim": {"containerMode: kubernetes", "containerMode: {type: kubernetes-novolume}", "PROBLEM NoWorkVolume"},
		"the container's first": {
			"image: ghcr.io/actions/actions-runner:2, resources: {requests: {cpu: 1}, limits: {cpu: 2}}, containers: [{name: runner, image: other, resources: {requests: {cpu: 3}}}]",
			"template: {spec: {containers: [{name: runner, image: ghcr.io/actions/actions-runner:2, command: [/home/runner/run.sh], resources: {requests: {cpu: 3}, limits: {cpu: 2}}}]}}",
			"spec.containers[0].image",
		},
		"what the mode sets": {
			"env: [{name: DOCKER_HOST, value: tcp://localhost:2376}]",
			"template: {spec: {containers: [{name: runner, image: 'ghcr.io/actions/actions-runner:latest', command: [/home/runner/run.sh]}]}}", "the container mode sets it",
		},
		"an option from elsewhere": {
			"dockerdWithinRunnerContainer: true, env: [{name: MTU, valueFrom: {configMapKeyRef: {name: a, key: b}}}]",
			"template: {spec: {containers: [{name: runner, image: 'ghcr.io/actions/actions-runner:latest', command: [/home/runner/run.sh]}]}}", "PROBLEM NoCounterpart",
		},
		"memory for the work directory": {
			"dockerEnabled: false, volumeStorageMedium: Memory",
			"template: {spec: {containers: [{name: runner, image: 'ghcr.io/actions/actions-runner:latest', command: [/home/runner/run.sh], volumeMounts: [{name: work, mountPath: /home/runner/_work}]}], volumes: [{name: work, emptyDir: {medium: Memory}}]}}", "",
		},
		"a socket of a size": {
			"dockerVarRunVolumeSizeLimit: 2M",
			"template: {spec: {containers: [{name: runner, image: 'ghcr.io/actions/actions-runner:latest', command: [/home/runner/run.sh]}], volumes: [{name: dind-sock, emptyDir: {medium: Memory, sizeLimit: 2M}}]}}", "",
		},
		"a name of the mode's": {
			"sidecarContainers: [{name: dind, image: mine}, {image: nameless}, {name: fine, image: i}]",
			"template: {spec: {containers: [{name: runner, image: 'ghcr.io/actions/actions-runner:latest', command: [/home/runner/run.sh]}, {name: fine, image: i}]}}", "spec.sidecarContainers[0]",
		},
		"ARC's directory":        {"dockerEnabled: false, volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: /runner/externals}]", "containerMode: null", "GitHub's image has no /runner/externals"},
		"what no pod has":        {"hostNetwork: true, affinity: {nodeAffinty: {}}", "containerMode: {type: dind}", "nodeAffinty"},
		"a claim beside Docker":  {"workVolumeClaimTemplate: {storageClassName: a, accessModes: [ReadWriteOnce], resources: {}}", "containerMode: {type: dind}", "with containerMode: kubernetes only"},
		"ephemeral containers":   {"ephemeralContainers: [{name: debug, image: i}]", "containerMode: {type: dind}", "PROBLEM NoCounterpart"},
		"a mount without volume": {"volumeMounts: [{name: none, mountPath: /a}]", "containerMode: {type: dind}", "PROBLEM InvalidValues"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := "organization: acme, "
			if strings.HasPrefix(test.spec, "organization:") {
				spec = ""
			}
			o := run(t, "kind: Runner\nmetadata: {name: a, namespace: b}\nspec: {"+spec+test.spec+"}\n", "--github-config-secret", "github")
			var want map[string]any
			if err := yaml.UnmarshalStrict([]byte(test.values), &want); err != nil {
				t.Fatal(err)
			}
			for key, value := range want {
				if got := o.values["a"][key]; !reflect.DeepEqual(got, value) {
					t.Errorf("%s is\n%s\nwant\n%s", key, toYAML(t, got), toYAML(t, value))
				}
			}
			if !strings.Contains(o.text, test.said) {
				t.Errorf("says\n%s\nwant %q", o.text, test.said)
			}
		})
	}
}

// Schedules become those of CronJobs, in UTC.
func TestSchedules(t *testing.T) {
	o := runFiles(t, "-f", "testdata/schedules.yaml", "--github-config-secret", "github")
	for _, want := range []string{
		`to 100 at "0 15 31 5 *", and one that sets it to 1 at "0 15 2 6 *"`, `to 0 at "0 15 * * 5", and one that sets it to 1 at "0 15 * * 0"`,
		`to 0 at "30 18 * * *", and one that sets it to 1 at "0 4 * * *"`, "delete them after 2032-05-01",
	} {
		if !strings.Contains(o.text, want) {
			t.Errorf("the report lacks %s:\n%s", want, o.text)
		}
	}
}

// Two autoscalers of one deployment, one without a limit, and one whose least is above its most.
func TestAutoscalers(t *testing.T) {
	const autoscaler = "---\nkind: HorizontalRunnerAutoscaler\nmetadata: {name: NAME}\nspec: {scaleTargetRef: {name: a}, LIMITS}\n"
	with := func(limits ...string) string {
		text := deployment
		for _, one := range limits {
			text += strings.NewReplacer("NAME", "x"+one[:3], "LIMITS", one).Replace(autoscaler)
		}
		return text
	}
	for name, test := range map[string]struct{ input, problems, values string }{
		"two":           {with("minReplicas: 1, maxReplicas: 2", "maxReplicas: 5"), "TwoAutoscalers", "{minRunners: 1, maxRunners: 2}"},
		"no limit":      {with("minReplicas: 1"), "NoLimit", "{minRunners: 1, maxRunners: null}"},
		"least is most": {with("minReplicas: 9, maxReplicas: 2"), "InvalidField", "{minRunners: 2, maxRunners: 2}"},
		"another kind":  {strings.Replace(with("maxReplicas: 2"), "{name: a}, max", "{name: a, kind: RunnerSet}, max", 1), "NoTarget", "{maxRunners: 1}"},
		"another place": {strings.Replace(strings.Replace(with("maxReplicas: 2"), "{name: a}", "{name: a, namespace: b}", 1), "xmax", "y, namespace: c", 1), "NoTarget", "{maxRunners: 1}"},
		"credentials":   {with("maxReplicas: 2, githubAPICredentialsFrom: {secretRef: {name: other}}"), "CredentialsDiffer", "{maxRunners: 2}"},
	} {
		t.Run(name, func(t *testing.T) {
			o := run(t, test.input, "--github-config-secret", "github")
			var want map[string]any
			if err := yaml.Unmarshal([]byte(test.values), &want); err != nil {
				t.Fatal(err)
			}
			for key, value := range want {
				if got := o.values["a"][key]; !reflect.DeepEqual(got, value) {
					t.Errorf("%s is %v, want %v", key, got, value)
				}
			}
			if got := strings.Join(o.problems(), " "); got != test.problems || o.err == nil || o.report.Findings[0].Severity != finding.Problem {
				t.Errorf("needs a hand for %q, want %q", got, test.problems)
			}
		})
	}
}
