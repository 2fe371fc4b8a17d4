package charts

import (
	"strings"
	"testing"
)

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
			"volumeClaimTemplates has an entry named work, and so describes the volume that containerMode.kubernetesModeWorkVolumeClaim"},
		{"containerMode: {type: kubernetes}\nvolumeClaimPool: {whenExhausted: Ephemeral}\nvolumeClaimTemplates: " +
			"[{metadata: {name: work}, spec: " + claimSpec + "}]",
			"job pods can't mount an empty directory of their runner"},
		{"volumeClaimPool: {maxUsedPercent: 100}", "maxUsedPercent"},
		{"feedback: {jobLog: true}\nvolumeClaimTemplates: [{metadata: {name: job-hooks}, spec: " + claimSpec + "}]",
			"an entry named job-hooks, which is a volume of feedback.jobLog"},
		{"volumeClaimPool: {whenExhausted: Fail}", "whenExhausted"},
		{"volumeClaimPool: {idleTTL: 7d}", "idleTTL"},
		{"volumeClaimPool: {keepAfter: {results: [success]}}", "results"},
		{"persistentVolumeClaimRetentionPolicy: {whenDeleted: Keep}", "whenDeleted"},
		{"volumeClaimPool: {mode: Snapshots}", "mode"},
		{"volumeClaimPool: {mode: Snapshot, max: 3}", "volumeClaimPool.max must be left out in mode Snapshot"},
		{"volumeClaimPool: {mode: Snapshot, idleTTL: 1h}", "volumeClaimPool.idleTTL must be left out in mode Snapshot"},
		{"volumeClaimPool: {mode: Snapshot, maxAge: 1h}", "volumeClaimPool.maxAge must be left out in mode Snapshot"},
		{"volumeClaimPool: {mode: Snapshot, keepAfter: {events: [push]}}", "volumeClaimPool.keepAfter must be left out in mode Snapshot"},
		{"volumeClaimPool: {mode: Snapshot, seedFrom: {newest: true}}", "volumeClaimPool.seedFrom must be left out in mode Snapshot"},
		{"volumeClaimPool: {mode: Snapshot, maxUsedPercent: 90}", "volumeClaimPool.maxUsedPercent must be left out in mode Snapshot"},
		{"volumeClaimPool: {mode: Snapshot, keepSnapshots: 0}", "keepSnapshots"},
		{"volumeClaimPool: {mode: Snapshot, commitAfter: {results: [success]}}", "results"},
		{"volumeClaimPool: {commitAfter: {events: [push]}}", "volumeClaimPool.commitAfter needs volumeClaimPool.mode Snapshot"},
		{"volumeClaimPool: {mode: Claims, snapshotInterval: 1h}", "volumeClaimPool.snapshotInterval needs"},
		{"volumeClaimPool: {keepSnapshots: 3}", "volumeClaimPool.keepSnapshots needs"},
		{"volumeClaimPool: {snapshotClassName: fast}", "volumeClaimPool.snapshotClassName needs"},
		{"volumeClaimPool: {mode: Snapshot}\nvolumeClaimTemplates: [{metadata: {name: a}, spec: {dataSource: {kind: " +
			"PersistentVolumeClaim, name: b}, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]",
			"volumeClaimTemplates, a: spec.dataSource must be left out"},
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

// The right to make snapshots comes with the mode, and is not among those of a set without it.
func TestRightToMakeSnapshotsComesWithTheMode(t *testing.T) {
	t.Parallel()
	const right = `resources: ["volumesnapshots"]`
	claims := "volumeClaimTemplates: [{metadata: {name: cache}, spec: " + claimSpec + "}]\n"
	rendered, said, err := scaleSet.template(t, minimal, claims+"volumeClaimPool: {mode: Snapshot, max: null, "+
		"commitAfter: {events: [push]}, snapshotInterval: 30m, keepSnapshots: 5, snapshotClassName: \"\"}")
	if err != nil {
		t.Fatal(said)
	}
	checkContains(t, rendered, right)
	checkContains(t, rendered, "snapshotInterval: 30m\n")
	if strings.Contains(rendered, "snapshotClassName") {
		t.Error("a class without a name is set")
	}
	if rendered, _, _ = scaleSet.template(t, minimal, claims); strings.Contains(rendered, "volumesnapshots") {
		t.Error("a set in mode Claims gives the manager a right on snapshots")
	}
}

// A work directory of the pool is the one that runner and job pods share: there is no other volume of that name.
func TestJobPodsKeepTheirWorkDirectory(t *testing.T) {
	t.Parallel()
	rendered, said, err := scaleSet.template(t, minimal, "containerMode: {type: kubernetes}\n"+
		"volumeClaimTemplates: [{metadata: {name: work}, spec: "+claimSpec+"}]")
	if err != nil {
		t.Fatal(said)
	}
	checkContains(t, rendered, "mountPath: /home/runner/_work\n")
	if strings.Contains(rendered, "ephemeral:") {
		t.Errorf("there is another volume:\n%s", rendered)
	}
}

// The hook at a job's end is told which volumes are claims, and where they are.
func TestTheHookKnowsWhereClaimsAre(t *testing.T) {
	t.Parallel()
	rendered, said, err := scaleSet.template(t, minimal, "feedback: {jobLog: true}\n"+
		"template: {spec: {containers: [{name: runner, image: r, volumeMounts: [{name: other, mountPath: /other}, "+
		"{name: cache, mountPath: /cache}, {name: cache, mountPath: /part, subPath: part}]}]}}\n"+
		"volumeClaimTemplates: [{metadata: {name: cache}, spec: "+claimSpec+"}]")
	if err != nil {
		t.Fatal(said)
	}
	checkContains(t, rendered, "volumes: |\n    cache /cache\n")
}
