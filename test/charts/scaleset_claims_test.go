package charts

import "testing"

// claimSpec is the spec of a claim template that is accepted.
const claimSpec = "{accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"

func TestClaimsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ values, want string }{
		{"volumeClaimTemplates: [{metadata: {}, spec: " + claimSpec + "}]", "name"},
		{"volumeClaimTemplates: [{metadata: {name: a}, spec: " + claimSpec + "}, {metadata: {name: a}, spec: " +
			claimSpec + "}]",
			"volumeClaimTemplates has two entries named a"},
		{"volumeClaimTemplates: [{metadata: {name: a}, spec: {accessModes: [ReadWriteOnce]}}]", "resources"},
		{"volumeClaimTemplates: [{metadata: {name: a}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {}}}}]", "storage"},
		{"volumeClaimTemplates: [{metadata: {name: a}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 0Gi}}}}]", "storage"},
		{"volumeClaimTemplates: [{metadata: {name: a}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: -1Gi}}}}]", "storage"},
		{"volumeClaimTemplates: [{metadata: {name: a}, spec: {accessModes: [ReadWriteOnce], volumeMode: Block, " +
			"resources: {requests: {storage: 1Gi}}}}]",
			"volumeMode is Block"},
		{"containerMode: {type: dind}\nvolumeClaimTemplates: [{metadata: {name: dind-sock}, spec: " + claimSpec + "}]",
			"an entry named dind-sock, which is a volume of containerMode.type dind"},
		{"containerMode: {type: kubernetes, kubernetesModeWorkVolumeClaim: " + claimSpec + "}\nvolumeClaimTemplates: " +
			"[{metadata: {name: work}, spec: " + claimSpec + "}]",
			"an entry named work, which is a volume of containerMode.type kubernetes"},
		{"feedback: {jobLog: true}\nvolumeClaimTemplates: [{metadata: {name: job-hooks}, spec: " + claimSpec + "}]",
			"an entry named job-hooks, which is a volume of feedback.jobLog"},
		{"volumeClaimPool: {whenExhausted: Fail}", "whenExhausted"},
		{"volumeClaimPool: {idleTTL: 7d}", "idleTTL"},
		{"volumeClaimPool: {keepAfter: {results: [success]}}", "results"},
		{"persistentVolumeClaimRetentionPolicy: {whenDeleted: Keep}", "whenDeleted"},
	} {
		checkContains(t, refusal(t, scaleSet, minimal, test.values), test.want)
	}
}

// The scripts of feedback.jobLog have a volume and a place of their own.
func TestJobHooksKeepTheirVolume(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ values, want string }{
		{"volumes: [{name: job-hooks, emptyDir: {}}]", "template.spec.volumes has a volume named job-hooks, which feedback.jobLog"},
		{"volumes: [{name: own, emptyDir: {}}], containers: [{name: runner, image: r, volumeMounts: [{name: own, " +
			"mountPath: /opt/job-hooks/}]}]",
			"mounts volume own at /opt/job-hooks/"},
	} {
		checkContains(t, refusal(t, scaleSet, minimal, "feedback: {jobLog: true}\ntemplate: {spec: {"+test.values+"}}"),
			test.want)
	}
	claim := "volumeClaimTemplates: [{metadata: {name: job-hooks}, spec: " + claimSpec + "}]"
	if _, said, err := scaleSet.template(t, minimal, claim); err != nil {
		t.Errorf("without feedback a claim may have any name: %s", said)
	}
}

// A claim at /var/lib/docker needs one value besides its template: the user's container dind is merged with the mode's
// own.
func TestDockerKeepsItsLayersOnAClaim(t *testing.T) {
	t.Parallel()
	rendered, said, err := scaleSet.template(t, minimal, "containerMode: {type: dind}\n"+
		"template: {spec: {containers: [{name: dind, volumeMounts: [{name: docker, mountPath: /var/lib/docker}]}]}}\n"+
		"volumeClaimTemplates: [{metadata: {name: docker}, spec: "+claimSpec+"}]")
	if err != nil {
		t.Fatal(said)
	}
	checkContains(t, rendered, "mountPath: /var/lib/docker\n")
	checkContains(t, rendered, "mountPath: /home/runner/_work\n")
	checkContains(t, rendered, "volumeClaimTemplates:\n")
}
