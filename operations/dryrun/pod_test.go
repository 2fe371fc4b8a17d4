package dryrun_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/operations/dryrun"
)

// What the API server refuses in a pod is told of the template: what another template adds isn't missing in a part of
// one, what clusters allow by default isn't refused, and no message has Go's names of fields.
func TestPodsOfTemplates(t *testing.T) {
	const whole, part = "AutoscalingRunnerSet", "PodTemplate"
	for _, test := range []struct{ kind, spec, want string }{
		{whole, "{containers: [{name: runner, image: i, securityContext: {privileged: true}}]}", ""},
		{whole, "{containers: [{name: runner, image: ' i'}]}", "containers[0].image: Invalid value"},
		{whole, "{containers: [{name: runner}]}", "containers[0].image: Required value"},
		{whole, "{containers: [{name: runner, image: i, resources: {limits: {nvidia.com/gpu: 500m}}}]}",
			`resources.limits.nvidia.com/gpu: Invalid value: "500m": must be an integer`},
		{whole, "{containers: [{name: runner, image: i, securityContext: {privileged: true, allowPrivilegeEscalation: false}}]}",
			"securityContext: Invalid value: \"\": cannot set `allowPrivilegeEscalation` to false"},
		{whole, "{containers: [{name: runner, image: i, volumeMounts: [{name: a, mountPath: /a}]}]}", `volumeMounts[0].name: Not found: "a"`},
		{whole, "{containers: [{name: runner, image: i, volumeMounts: [{name: cache, mountPath: /a}]}]}", ""},
		{whole, "{containers: [{name: runner, image: i, volumeMounts: [{name: a, mountPath: /a}]}], " +
			"volumes: [{name: a, ephemeral: {volumeClaimTemplate: {spec: {}}}}]}", ""},
		{part, "{containers: [{name: $job, volumeMounts: [{name: a, mountPath: /a}]}], serviceAccountName: A_b}", ""},
		{part, "{nodeSelector: {a: b}}", ""},
		{part, "{dnsPolicy: First}", `dnsPolicy: Unsupported value: "First"`},
	} {
		object := map[string]string{
			whole: "apiVersion: actions.github.com/v1alpha1\nkind: AutoscalingRunnerSet\nmetadata: {name: a}\nspec: {githubConfigUrl: 'https://github.com/acme', " +
				"githubConfigSecret: gh, volumeClaimTemplates: [{metadata: {name: cache}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}], template: {spec: %s}}",
			part: "apiVersion: v1\nkind: PodTemplate\ntemplate: {spec: %s}",
		}[test.kind]
		faults, err := dryrun.CheckObject(read(t, fmt.Sprintf(object, test.spec)))
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, fault := range faults {
			said += fault.String() + "\n"
		}
		if (test.want == "") != (said == "") || !strings.Contains(said, test.want) {
			t.Errorf("%s %s: says %q, want %q", test.kind, test.spec, said, test.want)
		}
	}
}
