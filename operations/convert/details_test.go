package convert_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/operations/finding"
)

// plainRunner begins the container of a runner that says nothing of itself; it stands for IMG.
const plainRunner = "{name: runner, image: 'ghcr.io/actions/actions-runner:latest', command: [/home/runner/run.sh]"

// details are cases beyond ARC's examples. Each is the spec of a Runner's organization acme with more fields; what is
// wanted are parts of the values, and of the report; ! is before what it must not say.
var details = map[string]struct{ spec, values, said string }{
	"only self-hosted":       {"labels: [self-hosted]", "scaleSetLabels: null", "spec.labels"},
	"labels of GitHub's":     {"labels: [linux, b]", "scaleSetLabels: [linux, b]", "[self-hosted, Linux, X64, b], or some of these -> a"},
	"not given":              {"labels: [linux, b]", "scaleSetLabels: [linux, b]", "without self-hosted, X64. To"},
	"other machines":         {"nodeSelector: {kubernetes.io/arch: arm64}", "", "not by self-hosted, Linux, ARM64, which GitHub gives legacy runners by itself"},
	"an organization of two": {"organization: acme/widgets", "githubConfigUrl: https://github.com/CHANGE-ME", "the organization is not"},
	"a repository of one":    {"organization: null, repository: widgets", "githubConfigUrl: https://github.com/CHANGE-ME", "the repository is not OWNER/REPOSITORY"},
	"no repository":          {"organization: null, repository: enterprises/acme", "githubConfigUrl: https://github.com/CHANGE-ME", "PROBLEM NoAddress"},
	"an address's password":  {"organization: null, repository: 'https://me:hunter2@github.com/a/b'", "githubConfigUrl: https://github.com/CHANGE-ME", "!hunter2"},
	"an enterprise of two":   {"organization: null, enterprise: a/b", "githubConfigUrl: https://github.com/CHANGE-ME", "the enterprise is not"},
	"not converted then":     {"organization: a/b", "", "!githubConfigUrl\n"},
	"a group":                {"group: 'a \"b'", "runnerGroup: 'a \"b'", ""},
	"a group without use":    {"organization: null, repository: a/b, group: g", "runnerGroup: null", "a repository has no runner groups"},
	"several addresses":      {"repository: a/b", "githubConfigUrl: https://github.com/acme", "PROBLEM NoAddress"},
	"hooks without a claim":  {"containerMode: kubernetes", "containerMode: {type: kubernetes-novolume}", "PROBLEM NoWorkVolume"},
	"the container's first": {
		"image: ghcr.io/actions/actions-runner:2, resources: {requests: {cpu: 1}, limits: {cpu: 2}}, containers: " +
			"[{name: runner, image: other, resources: {requests: {cpu: 3}}}]",
		"template: {spec: {containers: [{name: runner, image: ghcr.io/actions/actions-runner:2, command: " +
			"[/home/runner/run.sh], resources: {requests: {cpu: 3}, limits: {cpu: 2}}}]}}",
		"spec.containers[0].image",
	},
	"what the mode sets": {
		"env: [{name: DOCKER_HOST, value: tcp://localhost:2376}]",
		"template: {spec: {containers: [{name: runner, image: 'ghcr.io/actions/actions-runner:latest', command: " +
			"[/home/runner/run.sh]}]}}", "the container mode sets it",
	},
	"an option from elsewhere": {
		"dockerdWithinRunnerContainer: true, env: [{name: MTU, valueFrom: {configMapKeyRef: {name: a, key: b}}}]",
		"template: {spec: {containers: [{name: runner, image: 'ghcr.io/actions/actions-runner:latest', command: " +
			"[/home/runner/run.sh]}]}}", "PROBLEM NoCounterpart",
	},
	"memory for the work directory": {
		"dockerEnabled: false, volumeStorageMedium: Memory",
		"template: {spec: {containers: [{name: runner, image: 'ghcr.io/actions/actions-runner:latest', command: " +
			"[/home/runner/run.sh], volumeMounts: [{name: work, mountPath: /home/runner/_work}]}], volumes: [{name: " +
			"work, emptyDir: {medium: Memory}}]}}", "",
	},
	"a socket of a size": {
		"dockerVarRunVolumeSizeLimit: 2M",
		"template: {spec: {containers: [{name: runner, image: 'ghcr.io/actions/actions-runner:latest', command: " +
			"[/home/runner/run.sh]}], volumes: [{name: dind-sock, emptyDir: {medium: Memory, sizeLimit: 2M}}]}}", "",
	},
	"a name of the mode's": {
		"sidecarContainers: [{name: dind, image: mine}, {image: nameless}, {name: fine, image: i}]",
		"template: {spec: {containers: [{name: runner, image: 'ghcr.io/actions/actions-runner:latest', command: " +
			"[/home/runner/run.sh]}, {name: fine, image: i}]}}", "spec.sidecarContainers[0]",
	},
	"ARC's directory":                          {"dockerEnabled: false, volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: /runner/externals}]", "containerMode: null", "GitHub's image has no /runner/externals"},
	"what no pod has":                          {"hostNetwork: true, affinity: {nodeAffinty: {}}", "containerMode: {type: dind}", "nodeAffinty"},
	"a claim beside Docker":                    {"workVolumeClaimTemplate: {storageClassName: a, accessModes: [ReadWriteOnce], resources: {}}", "containerMode: {type: dind}", "with containerMode: kubernetes only"},
	"ephemeral containers":                     {"ephemeralContainers: [{name: debug, image: i}]", "containerMode: {type: dind}", "PROBLEM NoCounterpart"},
	"ARC's directory in an image of one's own": {"image: mine, volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: /runner/x}]", "", "!GitHub's image has no"},
	"Docker saw the work directory": {
		"dockerdWithinRunnerContainer: true, volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: " +
			"/runner/_work/_tool}, {name: a, mountPath: /cache}]",
		"template: {spec: {containers: [IMG, volumeMounts: [{name: a, mountPath: /home/runner/_work/_tool}, {name: " +
			"a, mountPath: /cache}]}], initContainers: [{name: dind, volumeMounts: [{name: a, mountPath: " +
			"/home/runner/_work/_tool}]}], volumes: [{name: a, emptyDir: {}}]}}",
		"spec.volumeMounts[1].mountPath\n   Docker ran in the runner's container",
	},
	"Docker has the mount already": {
		"dockerdWithinRunnerContainer: true, volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: " +
			"/runner/_work}], containers: [{name: docker, volumeMounts: [{name: a, subPath: b, mountPath: " +
			"/runner/_work}]}]",
		"template: {spec: {containers: [IMG, volumeMounts: [{name: a, mountPath: /home/runner/_work}]}], " +
			"initContainers: [{name: dind, volumeMounts: [{name: a, subPath: b, mountPath: /home/runner/_work}]}], " +
			"volumes: [{name: a, emptyDir: {}}]}}", "",
	},
	"a path with a variable": {
		"dockerdWithinRunnerContainer: true, env: [{name: POD, value: p}, {name: B, value: b}], volumes: [{name: a, " +
			"emptyDir: {}}], volumeMounts: [{name: a, mountPath: /runner/_work, subPathExpr: x$(POD)}]",
		"template: {spec: {containers: [IMG, env: [{name: POD, value: p}, {name: B, value: b}], volumeMounts: " +
			"[{name: a, mountPath: /home/runner/_work, subPathExpr: x$(POD)}]}], initContainers: [{name: dind, env: " +
			"[{name: POD, value: p}], volumeMounts: [{name: a, mountPath: /home/runner/_work, subPathExpr: " +
			"x$(POD)}]}], volumes: [{name: a, emptyDir: {}}]}}", "",
	},
	"containers of their own": {
		"dockerEnabled: false, volumes: [{name: a, emptyDir: {}}], sidecarContainers: [{name: s, image: i, " +
			"volumeMounts: [{name: a, mountPath: /runner/_work}]}], initContainers: [{name: t, image: i, " +
			"volumeMounts: [{name: a, mountPath: /runner/x}]}]",
		"template: {spec: {containers: [IMG}, {name: s, image: i, volumeMounts: [{name: a, mountPath: " +
			"/runner/_work}]}], initContainers: [{name: t, image: i, volumeMounts: [{name: a, mountPath: " +
			"/runner/x}]}], volumes: [{name: a, emptyDir: {}}]}}", "!GitHub's image has no",
	},
	"half an address pool": {
		"dockerdWithinRunnerContainer: true, env: [{name: DOCKER_DEFAULT_ADDRESS_POOL_BASE, value: 10.0.0.0/8}]",
		"template: {spec: {containers: [IMG}]}}",
		"WARNING NoCounterpart (Runner b/a)\n   spec.env[DOCKER_DEFAULT_ADDRESS_POOL_BASE]",
	},
	"half an address pool is not converted": {"dockerdWithinRunnerContainer: true, env: [{name: DOCKER_DEFAULT_ADDRESS_POOL_BASE, value: 10.0.0.0/8}]", "", "!spec.env[DOCKER_DEFAULT_ADDRESS_POOL_BASE] ->"},
	"the node's Docker beside another": {
		"volumes: [{name: s, hostPath: {path: /var/run/docker.sock}}], volumeMounts: [{name: s, mountPath: /var/run/docker.sock}]",
		"containerMode: {type: dind}", "WARNING TwoDockers (Runner b/a)\n   spec.volumes[0].hostPath\n   the volume s has the socket",
	},
	"the node's run directory":    {"volumes: [{name: s, hostPath: {path: /run/}}]", "", "TwoDockers"},
	"the node's Docker alone":     {"dockerEnabled: false, volumes: [{name: s, hostPath: {path: /var/run/docker.sock}}]", "containerMode: null", "!TwoDockers"},
	"another directory of a node": {"volumes: [{name: s, hostPath: {path: /var/run/secrets}}, {name: t, emptyDir: {}}]", "", "!TwoDockers"},
	"a mount without volume":      {"volumeMounts: [{name: none, mountPath: /a}]", "containerMode: {type: dind}", "PROBLEM InvalidValues"},
}

func TestDetails(t *testing.T) {
	for name, test := range details {
		t.Run(name, func(t *testing.T) {
			spec := "organization: acme, "
			if strings.HasPrefix(test.spec, "organization:") {
				spec = ""
			}
			o := run(t, "kind: Runner\nmetadata: {name: a, namespace: b}\nspec: {"+spec+test.spec+
				"}\n", "--github-config-secret", "github")
			var want map[string]any
			if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(test.values, "IMG", plainRunner)),
				&want); err != nil {
				t.Fatal(err)
			}
			for key, value := range want {
				if got := o.values["a"][key]; !reflect.DeepEqual(got, value) {
					t.Errorf("%s is\n%s\nwant\n%s", key, toYAML(t, got), toYAML(t, value))
				}
			}
			said, without := strings.CutPrefix(test.said, "!")
			if strings.Contains(o.text, said) == without && said != "" {
				t.Errorf("says\n%s\nwant %q", o.text, test.said)
			}
		})
	}
}

// A fault of many labels is said a single time.
func TestTooManyLabels(t *testing.T) {
	var labels []string
	for i := range 140 {
		labels = append(labels, fmt.Sprintf("l%d", i))
	}
	o := run(t, "kind: Runner\nmetadata: {name: a}\nspec: {organization: acme, labels: "+
		asJSON(t, append(labels, "", strings.Repeat("x", 256)))+"}\n")
	if strings.Count(o.text, "PROBLEM InvalidField") != 1 || !strings.Contains(o.text, "42 are left out") {
		t.Errorf("says\n%s", o.text)
	}
}

// A key that only begins as those that tools write is somebody's own.
func TestKeysOfTools(t *testing.T) {
	own := map[string]any{"actions-runner-size": "large", "runner-template-hashed": "a",
		"app.kubernetes.io/managed-by-us": "b"}
	metadata := map[string]any{"actions-runner/id": "5", "actions-runner": "", "actions-runner-controller/x": "y",
		"kubectl.kubernetes.io/last-applied-configuration": "{}"}
	for key, value := range own {
		metadata[key] = value
	}
	o := run(t, "kind: RunnerDeployment\nmetadata: {name: a}\nspec: {template: {metadata: {labels: "+asJSON(t,
		metadata)+
		"}, spec: {organization: acme}}}\n")
	template, _ := o.values["a"]["template"].(map[string]any)
	kept, _ := template["metadata"].(map[string]any)
	if !reflect.DeepEqual(kept["labels"], any(own)) {
		t.Errorf("the pods have the labels %v, want %v", kept["labels"], own)
	}
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	content, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// Overrides become schedules, by the clock of their offset.
func TestSchedules(t *testing.T) {
	o := runFiles(t, "-f", "testdata/schedules.yaml", "--github-config-secret", "github")
	for _, want := range []string{
		`schedule override-1: "0 0 1 6 *" for 48h0m0s, timeZone Etc/GMT-9, minRunners 100, which comes from now on, not only from 2091-06-01T00:00:00+09:00 and comes back for ever`,
		"add schedule override-1 only shortly before 2091-06-01T00:00:00+09:00: a schedule has no beginning; remove schedule override-1 after 2091-06-03T00:00:00+09:00",
		`schedule override-2: "0 0 * * 6" for 48h0m0s, timeZone Etc/GMT-9, minRunners 0, which comes back for ever`,
		"remove schedule override-2 after 2092-05-0",
		`schedule override-3: "30 20 * * *" for 9h30m0s, timeZone Etc/GMT-2, minRunners 0`,
		"overrides overlap: spec.scheduledOverrides[0] with spec.scheduledOverrides[1], spec.scheduledOverrides[0] with spec.scheduledOverrides[2], spec.scheduledOverrides[1] with spec.scheduledOverrides[2]. ARC",
	} {
		if !strings.Contains(o.text, want) {
			t.Errorf("the report lacks %s:\n%s", want, o.text)
		}
	}
}

// What is said of some overrides; ! is before what must not be said.
func TestOverrides(t *testing.T) {
	const daily, monthly = ", recurrenceRule: {frequency: Daily}", ", recurrenceRule: {frequency: Monthly}"
	at := func(start, end, more string) string {
		return "{minReplicas: 5, startTime: '" + start + "', endTime: '" + end + "'" + more + "}"
	}
	for name, test := range map[string]struct{ overrides, said string }{
		"over":              {at("2001-01-01T00:00:00Z", "2001-01-02T00:00:00Z", ""), "INFO NotNeeded (HorizontalRunnerAutoscaler a)\n   spec.scheduledOverrides[0].startTime, spec.scheduledOverrides[0].endTime, spec.scheduledOverrides[0].minReplicas\n   it is over"},
		"recurs no more":    {at("2001-01-01T00:00:00Z", "2001-01-02T00:00:00Z", ", recurrenceRule: {frequency: Weekly, untilTime: '2003-01-01T00:00:00Z'}"), "it is over"},
		"recurs for ever":   {at("2001-01-01T00:00:00Z", "2001-01-02T00:00:00Z", ", recurrenceRule: {frequency: Weekly}"), "!it is over"},
		"no whole hour":     {at("2021-01-01T09:00:00+05:30", "2021-01-01T17:00:00+05:30", daily), `a schedule at "0 9 * * *" for 8h0m0s, with minRunners 5 and the time zone of a place`},
		"a month's first":   {at("2021-01-01T00:00:00+09:00", "2021-01-02T00:00:00+09:00", monthly), `"0 0 1 * *" for 24h0m0s, timeZone Etc/GMT-9`},
		"two offsets":       {at("2091-03-01T00:00:00-05:00", "2091-04-01T00:00:00-04:00", ""), `"0 0 1 3 *" for 743h0m0s, timeZone Etc/GMT+5, minRunners 5, which comes from now on, not only from 2091-03-01T00:00:00-05:00 and comes back for ever`},
		"begins some day":   {at("2091-03-01T00:00:00Z", "2091-03-01T05:00:00Z", daily), "which comes from now on, not only from 2091-03-01T00:00:00Z\n   To do (whoever installs the scale set): add schedule override-1 only shortly before 2091-03-01T00:00:00Z: a schedule has no beginning\n"},
		"has begun":         {at("2021-03-01T00:00:00Z", "2021-03-01T05:00:00Z", daily), "!a schedule has no beginning"},
		"beyond all zones":  {at("2021-01-01T09:00:00+15:00", "2021-01-01T17:00:00Z", daily), "no Etc/GMT±n has the offset +15:00"},
		"ends before":       {at("2091-01-02T00:00:00Z", "2091-01-01T00:00:00Z", ""), "PROBLEM InvalidField"},
		"until whenever":    {at("2021-01-01T00:00:00Z", "2021-01-01T01:00:00Z", ", recurrenceRule: {frequency: Daily, untilTime: later}"), "PROBLEM InvalidField"},
		"one after another": {at("2021-01-01T00:00:00Z", "2021-01-01T08:00:00Z", daily) + ", " + at("2021-01-01T10:00:00+02:00", "2021-01-01T12:00:00+02:00", daily), "!overlap"},
		"overlapping":       {at("2021-01-01T00:00:00Z", "2021-01-01T08:00:00Z", daily) + ", " + at("2021-01-01T09:00:00+02:00", "2021-01-01T12:00:00+02:00", daily), "overlap"},
		"across midnight":   {at("2021-01-01T22:00:00Z", "2021-01-02T06:00:00Z", daily) + ", " + at("2091-05-05T05:00:00Z", "2091-05-05T07:00:00Z", ""), "overlap"},
		"on some days":      {at("0001-01-31T00:00:00Z", "0001-01-31T10:00:00Z", monthly) + ", " + at("2001-01-01T09:00:00Z", "2001-01-01T11:00:00Z", daily), "overlap"},
		"one is over":       {at("2001-01-01T00:00:00Z", "2001-01-02T00:00:00Z", "") + ", " + at("2001-01-01T00:00:00Z", "2001-01-01T05:00:00Z", daily), "!overlap"},
	} {
		t.Run(name, func(t *testing.T) {
			o := run(t, deployment+"---\nkind: HorizontalRunnerAutoscaler\nmetadata: {name: a}\nspec: "+
				"{scaleTargetRef: {name: a}, minReplicas: 1, maxReplicas: 9, "+
				"scheduledOverrides: ["+test.overrides+"]}\n")
			said, without := strings.CutPrefix(test.said, "!")
			if strings.Contains(o.text, said) == without {
				t.Errorf("says\n%s\nwant %q", o.text, test.said)
			}
		})
	}
}

// minReplicas counted busy runners, too, and minRunners doesn't: whoever pays reads how many more there are, unless the
// limit leaves no room for any.
func TestRunnersThatAreIdleBesideBusyOnesAreSaid(t *testing.T) {
	const override = "scheduledOverrides: [{minReplicas: 80, startTime: '2021-01-01T07:00:00Z', " +
		"endTime: '2021-01-01T19:00:00Z', recurrenceRule: {frequency: Daily}}]"
	for name, test := range map[string]struct{ limits, said string }{
		"twice":            {"minReplicas: 50, maxReplicas: 100", "While 50 jobs run there were 50 runners, and there are 100 now"},
		"cut by the limit": {"minReplicas: 50, maxReplicas: 70", "While 50 jobs run there were 50 runners, and there are 70 now"},
		"no limit":         {"minReplicas: 3", "While 3 jobs run there were 3 runners, and there are 6 now"},
		"in proportion": {"minReplicas: 40, maxReplicas: 100, metrics: [{type: PercentageRunnersBusy, scaleUpThreshold: '0.5'}]",
			"!counts idle runners"},
		"a fifth": {"minReplicas: 40, maxReplicas: 100, metrics: [{type: PercentageRunnersBusy}]",
			"While 40 jobs run there were 50 runners, and there are 80 now"},
		"by the clock":    {"minReplicas: 0, maxReplicas: 200, " + override, "While 80 jobs run there were 80 runners, and there are 160 now"},
		"named":           {"minReplicas: 10, maxReplicas: 200, " + override, "as do those of schedule override-1"},
		"only the clock":  {"maxReplicas: 200, " + override, "it becomes minRunners of its schedules"},
		"always the same": {"minReplicas: 50, maxReplicas: 50", "!counts idle runners"},
		"none at rest":    {"minReplicas: 0, maxReplicas: 50", "!counts idle runners"},
	} {
		t.Run(name, func(t *testing.T) {
			o := run(t, deployment+"---\nkind: HorizontalRunnerAutoscaler\nmetadata: {name: a}\nspec: "+
				"{scaleTargetRef: {name: a}, "+test.limits+"}\n")
			said, without := strings.CutPrefix(test.said, "!")
			if strings.Contains(o.text, said) == without {
				t.Errorf("says\n%s\nwant %q", o.text, test.said)
			}
		})
	}
}

// Two autoscalers of one deployment, one without a limit, and one whose least is above its most.
func TestAutoscalers(t *testing.T) {
	const autoscaler = "---\nkind: HorizontalRunnerAutoscaler\nmetadata: {name: NAME}\nspec: {scaleTargetRef: {name: " +
		"a}, LIMITS}\n"
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
		"a long delay":  {with("maxReplicas: 2, scaleDownDelaySecondsAfterScaleOut: 600"), "", "{maxRunners: 2, scaleDownDelay: 600s}"},
		"no delay":      {with("maxReplicas: 2, scaleDownDelaySecondsAfterScaleOut: 0"), "", "{scaleDownDelay: 1s}"},
		"years":         {with("maxReplicas: 2, scaleDownDelaySecondsAfterScaleOut: 2147483647"), "", "{scaleDownDelay: 31536000s}"},
		"busy":          {with("maxReplicas: 2, metrics: [{type: PercentageRunnersBusy}]"), "", "{headroom: {percent: 25}}"},
		"half busy":     {with("maxReplicas: 2, metrics: [{type: PercentageRunnersBusy, scaleUpThreshold: '0.5'}]"), "", "{headroom: {percent: 100}}"},
		"hardly busy":   {with("maxReplicas: 2, metrics: [{type: PercentageRunnersBusy, scaleUpThreshold: '1e-300'}]"), "", "{headroom: {percent: 1000}}"},
		"all busy":      {with("maxReplicas: 2, metrics: [{type: PercentageRunnersBusy, scaleUpThreshold: '1'}]"), "InvalidField", "{headroom: null}"},
		"no share":      {with("maxReplicas: 2, metrics: [{type: PercentageRunnersBusy, scaleUpThreshold: NaN}]"), "InvalidField", "{headroom: null}"},
		"a queue":       {with("maxReplicas: 2, metrics: [{type: TotalNumberOfQueuedAndInProgressWorkflowRuns}]"), "", "{headroom: null}"},
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
			if got := strings.Join(o.problems(), " "); got != test.problems ||
				(o.err == nil) != (test.problems == "") ||
				(test.problems != "" && o.report.Findings[0].Severity != finding.Problem) {
				t.Errorf("needs a hand for %q, want %q", got, test.problems)
			}
		})
	}
}
