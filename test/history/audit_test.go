package history

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/internal/testkube"
)

const (
	managerUser  = "system:serviceaccount:system:manager"
	listenerUser = "system:serviceaccount:system:listener"
)

// logged is an audit log that is written by hand: one request a second.
type logged struct {
	t      *testing.T
	events []testkube.AuditEvent
}

// add adds a request for one of the runners' objects that was answered with 200 and the given object.
func (l *logged) add(user, verb, resource, subresource, answer string) *testkube.AuditEvent {
	l.t.Helper()
	at := beginning.Add(time.Duration(len(l.events)) * time.Second)
	var event testkube.AuditEvent
	text := fmt.Sprintf(`{
		"stage": "ResponseComplete", "verb": %q, "user": {"username": %q, "extra": {"authentication.kubernetes.io/credential-id": ["id"]}},
		"objectRef": {"resource": %q, "subresource": %q, "namespace": "runners", "name": "a"}, "responseStatus": {"code": 200},
		"requestReceivedTimestamp": %q, "stageTimestamp": %q, "responseObject": %s}`,
		verb, user, resource, subresource, at.Format(time.RFC3339Nano), at.Format(time.RFC3339Nano), answer)
	if err := json.Unmarshal([]byte(text), &event); err != nil {
		l.t.Fatal(err)
	}
	l.events = append(l.events, event)
	return &l.events[len(l.events)-1]
}

func (l *logged) history() *History {
	l.t.Helper()
	h := &History{}
	if err := h.FromAudit(l.events, Accounts{Manager: managerUser, Namespace: "runners"}); err != nil {
		l.t.Fatal(err)
	}
	return h
}

// object returns an answer of the API server.
func object(kind string, revision int, metadata, rest string) string {
	return fmt.Sprintf(`{"kind": %q, "metadata": {"name": "a", "uid": "uid of %s", "resourceVersion": "%d"%s}%s}`,
		kind, kind, revision, metadata, rest)
}

const (
	owned    = `, "ownerReferences": [{"kind": "Owner", "uid": "owner", "controller": true}]`
	deleting = `, "deletionTimestamp": "2026-03-01T12:00:00Z"`
	kept     = `, "finalizers": ["f"]`
)

func TestChangesFromAudit(t *testing.T) {
	l := &logged{t: t}
	l.add(listenerUser, "patch", "ephemeralrunnersets", "",
		object("EphemeralRunnerSet", 3, "", `, "spec": {"replicas": 4, "patchID": 9, "maxRunners": 5}`))
	l.add(managerUser, "create", "ephemeralrunners", "", object("EphemeralRunner", 4, owned+kept, ""))
	l.add(listenerUser, "patch", "ephemeralrunners", "status", object("EphemeralRunner", 5, owned+kept,
		`, "status": {"phase": "Running", "jobId": "j", "jobResult": "succeeded", "jobPatchID": 9}`))
	l.add(managerUser, "delete", "ephemeralrunners", "",
		object("EphemeralRunner", 6, owned+kept+deleting, `, "status": {"phase": "Failed"}`))
	l.add(managerUser, "patch", "ephemeralrunners", "", object("EphemeralRunner", 6, owned+deleting, ""))
	l.add(managerUser, "create", "autoscalingrunnersets", "", object("AutoscalingRunnerSet", 7, "",
		`, "spec": {"volumeClaimPool": {"max": 3, "keepAfter": {"events": ["push"], "results": ["succeeded"]}}}`))
	l.add(managerUser, "create", "persistentvolumeclaims", "", object("PersistentVolumeClaim", 8, kept+
		`, "labels": {"actions.github.com/scale-set-name": "linux", "actions.github.com/volume-claim-template": "go"}`, ""))
	l.add("system:kube-controller-manager", "update", "persistentvolumeclaims", "",
		object("PersistentVolumeClaim", 9, deleting, ""))
	l.add(managerUser, "create", "ephemeralrunners", "",
		object("EphemeralRunner", 10, owned, `, "spec": {"volumeClaims": {"npm": "y", "go": "x", "none": ""}}`))
	l.add(managerUser, "create", "pods", "", object("Pod", 11, owned,
		`, "spec": {"volumes": [{"name": "go", "persistentVolumeClaim": {"claimName": "x"}}, {"name": "none", "emptyDir": {}}]}`))
	l.add("admin", "delete", "ephemeralrunners", "",
		`{"kind": "Status", "metadata": {}, "details": {"name": "a", "uid": "other"}}`)

	maxRunners, maxClaims := 5, 3
	want := []Change{
		{By: Listener, Verb: "patch", Revision: 3, Set: &Set{UID: "uid of EphemeralRunnerSet", Name: "a", Replicas: 4, PatchID: 9, MaxRunners: &maxRunners}},
		{By: Manager, Verb: "create", Revision: 4, Runner: &Runner{UID: "uid of EphemeralRunner", Name: "a", SetUID: "owner"}},
		{By: Listener, Verb: "patch", Revision: 5, Runner: &Runner{
			UID: "uid of EphemeralRunner", Name: "a", SetUID: "owner", HasJob: true, Completed: true, JobPatchID: 9}},
		{By: Manager, Verb: "delete", Revision: 6, Runner: &Runner{UID: "uid of EphemeralRunner", Name: "a", SetUID: "owner", Deleting: true, Failed: true}},
		{By: Manager, Verb: "patch", Revision: 6, Gone: true, Runner: &Runner{UID: "uid of EphemeralRunner", Name: "a", SetUID: "owner", Deleting: true}},
		{By: Manager, Verb: "create", Revision: 7, Pool: &Pool{
			UID: "uid of AutoscalingRunnerSet", Name: "a", Max: &maxClaims, Events: []string{"push"},
			Results: []string{"succeeded"}}},
		{By: Manager, Verb: "create", Revision: 8, Claim: &Claim{UID: "uid of PersistentVolumeClaim", Name: "a", Set: "linux", Template: "go"}},
		{By: Other, Verb: "update", Revision: 9, Gone: true, Claim: &Claim{UID: "uid of PersistentVolumeClaim", Name: "a"}},
		{By: Manager, Verb: "create", Revision: 10, Runner: &Runner{UID: "uid of EphemeralRunner", Name: "a", SetUID: "owner", Claims: []string{"x", "y"}}},
		{By: Manager, Verb: "create", Revision: 11, Pod: &Pod{UID: "uid of Pod", Name: "a", RunnerUID: "owner", Claims: []string{"x"}}},
		{By: Other, Verb: "delete", Revision: 11, Gone: true, Runner: &Runner{UID: "other", Name: "a"}},
	}
	for i := range want {
		want[i].Received = beginning.Add(time.Duration(i) * time.Second)
		want[i].Answered = want[i].Received
	}
	if difference := cmp.Diff(want, l.history().Changes); difference != "" {
		t.Errorf("changes (-want +got):\n%s", difference)
	}
}

// A pod is gone with the answer only if there was no grace period.
func TestDeletionsOfPodsFromAudit(t *testing.T) {
	const running = `, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}`
	for name, tt := range map[string]struct {
		options, metadata, rest string
		gone                    bool
	}{
		"with grace":         {`{}`, deleting, running, false},
		"without grace":      {`{"gracePeriodSeconds": 0}`, deleting, running, true},
		"on no node":         {`{}`, deleting, `, "status": {"phase": "Pending"}`, true},
		"that has ended":     {`{}`, deleting, `, "spec": {"nodeName": "n"}, "status": {"phase": "Failed"}`, true},
		"without a deadline": {`{}`, "", running, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := &logged{t: t}
			event := l.add("admin", "delete", "pods", "", object("Pod", 3, owned+tt.metadata, tt.rest))
			event.RequestObject, event.UserAgent = json.RawMessage(tt.options),
				"kube-controller-manager/v1/generic-garbage-collector"
			change := l.history().Changes[0]
			if change.Gone != tt.gone || change.By != Collector || change.Pod.RunnerUID != "owner" {
				t.Errorf("got %+v by %s, gone %t", change.Pod, change.By, change.Gone)
			}
		})
	}
}

// Of two deletions of a pod at the same time, one may be answered with an object that is all but empty.
func TestDeletionThatIsAnsweredWithoutObject(t *testing.T) {
	l := &logged{t: t}
	l.add(managerUser, "create", "pods", "", object("Pod", 3, owned, ""))
	l.add(managerUser, "delete", "pods", "", `{"kind": "Pod", "metadata": {}}`)
	changes := l.history().Changes
	if last := changes[1]; last.Pod.UID != "uid of Pod" || last.Revision != 3 || !last.Gone {
		t.Errorf("got %+v of %+v", last, last.Pod)
	}
}

// A request that was not carried out is no change, nor is one of another namespace. A write that timed out may have
// been made: nothing more is known of the object, until somebody else is answered.
func TestWritesThatTimedOut(t *testing.T) {
	for _, verb := range []string{"delete", "patch"} {
		log := &logged{t: t}
		log.add(managerUser, verb, "ephemeralrunners", "", `{"kind": "Status"}`).Response.Code = 504
		if got := log.history().Changes; len(got) != 0 {
			t.Errorf("%s of an object that nothing is known of: changes %+v", verb, got)
		}
		log = &logged{t: t}
		log.add(managerUser, "create", "ephemeralrunners", "", object("EphemeralRunner", 7, kept, ""))
		log.add(managerUser, verb, "ephemeralrunners", "", `{"kind": "Status"}`).Response.Code = 504
		log.add(listenerUser, "patch", "ephemeralrunners", "status", object("EphemeralRunner", 9, kept, ""))
		got := log.history().Changes
		if len(got) != 3 || !got[1].Gone || got[1].Runner.UID != got[0].Runner.UID || got[1].Revision != 7 || got[2].Gone {
			t.Errorf("%s: changes %+v", verb, got)
		}
	}
}

func TestRequestsThatAreNoChanges(t *testing.T) {
	l := &logged{t: t}
	pod := object("Pod", 3, owned, "")
	l.add(managerUser, "create", "pods", "", pod).Response.Code = 409
	l.add(managerUser, "create", "pods", "", pod).Stage = "ResponseStarted"
	l.add(managerUser, "create", "pods", "", pod).RequestURI = "/pods?dryRun=All"
	l.add(managerUser, "get", "pods", "", pod)
	l.add(managerUser, "create", "pods", "", pod).Object.Namespace = "elsewhere"
	l.add("admin", "create", "pods", "binding", `{"kind": "Status"}`)
	l.add(managerUser, "create", "secrets", "", `null`)
	l.add(managerUser, "create", "events", "", `null`)
	h := l.history()
	if len(h.Changes) > 0 {
		t.Errorf("changes: %+v", h.Changes)
	}
	// Rule 5 is about all namespaces and also about Secrets.
	if len(h.Writes) != 2 || h.Writes[1].What != "create secrets/ a" || h.Writes[1].Credential != "id" {
		t.Errorf("writes: %+v", h.Writes)
	}
}

func TestLeasesFromAudit(t *testing.T) {
	l := &logged{t: t}
	l.add(managerUser, "update", "leases", "", object("Lease", 3, "", `, "spec": {"holderIdentity": "x"}`))
	l.add(managerUser, "update", "leases", "", object("Lease", 4, "", `, "spec": {"holderIdentity": ""}`))
	l.add("somebody", "update", "leases", "", object("Lease", 5, "", `, "spec": {"holderIdentity": "y"}`))
	h := l.history()
	want := []LeaseWrite{{beginning, "id", "x"}, {beginning.Add(time.Second), "id", ""}}
	if difference := cmp.Diff(want, h.Leases); difference != "" || len(h.Writes) > 0 {
		t.Errorf("leases (-want +got):\n%s\nwrites: %v", difference, h.Writes)
	}
}
