package charts

import "testing"

// claimSpec is the spec of a claim template that is accepted.
const claimSpec = "{accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"

func TestClaimsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ values, want string }{
		{"volumeClaimTemplates: [{metadata: {}, spec: " + claimSpec + "}]", "name"},
		{"volumeClaimTemplates: [{metadata: {name: a}, spec: " + claimSpec + "}, {metadata: {name: a}, spec: " + claimSpec + "}]",
			"volumeClaimTemplates has two entries named a"},
		{"volumeClaimTemplates: [{metadata: {name: a}, spec: {accessModes: [ReadWriteOnce]}}]", "resources"},
		{"volumeClaimTemplates: [{metadata: {name: a}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {}}}}]", "storage"},
		{"volumeClaimTemplates: [{metadata: {name: a}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 0Gi}}}}]", "storage"},
		{"volumeClaimPool: {whenExhausted: Fail}", "whenExhausted"},
		{"volumeClaimPool: {idleTTL: 7d}", "idleTTL"},
		{"volumeClaimPool: {keepAfter: {results: [success]}}", "results"},
		{"persistentVolumeClaimRetentionPolicy: {whenDeleted: Keep}", "whenDeleted"},
	} {
		checkContains(t, refusal(t, scaleSet, minimal, test.values), test.want)
	}
}

// A claim at /var/lib/docker needs one value besides its template: what is said about the container dind is merged with the mode's own.
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
