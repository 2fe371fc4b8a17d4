package rbac

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// requests has the permissions that the requests of a rig's accounts needed.
type requests struct {
	used map[program]map[permission]bool
	// refused are requests whose last answer was 403. The API server learns of a Role a moment after it has made it, so
	// it may refuse the first request under one, but not its repetition.
	refused []string
}

// requestsOf reads the audit log from the rig's beginning.
func requestsOf(t *testing.T, r *rig.Rig) requests {
	t.Helper()
	events, err := r.Cluster.AuditEvents(testkube.AuditFilter{Since: r.Started})
	if err != nil {
		t.Fatal(err)
	}
	found := requests{used: map[program]map[permission]bool{manager: {}, listener: {}, check: {}}}
	codes := map[string]int{} // of the last answer to each request
	for _, event := range events {
		account, ours := strings.CutPrefix(event.User.Username, testkube.ServiceAccountUser(r.SystemNamespace, ""))
		if !ours || event.Object.Resource == "" {
			continue
		}
		for _, p := range asked(event) {
			found.used[programOf(account)][p] = true
		}
		codes[fmt.Sprintf("%s: %s %s", account, event.Verb, target(event.RequestURI))] = event.Response.Code
	}
	for request, code := range codes {
		if code == http.StatusForbidden {
			found.refused = append(found.refused, request)
		}
	}
	return found
}

// target leaves out the parameters on which rights don't depend, because a repetition may have others. Some rules
// depend on a name in fieldSelector.
func target(requestURI string) string {
	address, err := url.Parse(requestURI)
	if err != nil {
		return requestURI
	}
	return address.Path + " " + address.Query().Get("fieldSelector")
}

// asked returns the permissions that a request needs. A patch that makes an object (server-side apply) needs create as
// well.
func asked(event testkube.AuditEvent) []permission {
	resource := event.Object.Resource
	if event.Object.Subresource != "" {
		resource += "/" + event.Object.Subresource
	}
	needed := []permission{{event.Object.Namespace, event.Object.APIGroup, resource, event.Verb}}
	if event.Verb == "patch" && event.Response.Code == http.StatusCreated {
		needed = append(needed, permission{event.Object.Namespace, event.Object.APIGroup, resource, "create"})
	}
	return needed
}
