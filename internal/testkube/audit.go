package testkube

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// AuditEvent is a request that the API server has answered, or the beginning or end of a watch.
type AuditEvent struct {
	Stage      string    `json:"stage"` // ResponseStarted (watches), ResponseComplete or Panic
	Verb       string    `json:"verb"`  // get, list, watch, create, update, patch, delete, deletecollection
	RequestURI string    `json:"requestURI"`
	UserAgent  string    `json:"userAgent"`
	Received   time.Time `json:"requestReceivedTimestamp"`
	Answered   time.Time `json:"stageTimestamp"`
	User       struct {
		Username string              `json:"username"`
		Extra    map[string][]string `json:"extra"`
	} `json:"user"`
	Object struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	// What was sent and answered, only with Options.AuditObjects.
	RequestObject  json.RawMessage `json:"requestObject"`
	ResponseObject json.RawMessage `json:"responseObject"`
}

// Credential identifies the token with which the request was made: two processes that share a ServiceAccount have
// different ones.
func (e AuditEvent) Credential() string {
	return strings.Join(e.User.Extra["authentication.kubernetes.io/credential-id"], "")
}

// DryRun reports whether the request was to change nothing, whatever its answer says.
func (e AuditEvent) DryRun() bool { return strings.Contains(e.RequestURI, "dryRun=") }

// auditPolicy records who requested what, when, and the answer's code, without bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
`

// Rules of the audit policy. The first that matches decides.
const (
	// auditObjects logs the writes that tell a runner's history: 100 runners with a job each write about 10 MB.
	auditObjects = `- level: RequestResponse
  verbs: [create, update, patch, delete]
  resources:
  - {group: "", resources: [pods, pods/status, persistentvolumeclaims, persistentvolumeclaims/status]}
  - {group: coordination.k8s.io, resources: [leases]}
  - {group: actions.github.com}
  omitManagedFields: true
`
	auditRequests = "- level: Metadata\n"
)

// AuditFilter selects events; empty fields select all.
type AuditFilter struct {
	UserAgent string // prefix
	User      string // as the API server sees it, e.g. system:serviceaccount:NAMESPACE:NAME
	Namespace string // of the object
	Since     time.Time
	// After is a mark that was taken before Since. What the log had by then is not read: at the end of a package of
	// tests, that is nearly all of it.
	After AuditMark
}

// AuditMark is a length of the audit log.
type AuditMark int64

// MarkAudit returns the present length of the audit log. It is zero without Options.AuditLog.
func (c *Cluster) MarkAudit() AuditMark {
	info, err := os.Stat(c.path("audit.log"))
	if err != nil {
		return 0 // there is nothing to skip
	}
	return AuditMark(info.Size())
}

// ServiceAccountUser returns the name under which the API server knows a ServiceAccount.
func ServiceAccountUser(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

func (f AuditFilter) selects(event AuditEvent) bool {
	return strings.HasPrefix(event.UserAgent, f.UserAgent) &&
		(f.User == "" || f.User == event.User.Username) &&
		(f.Namespace == "" || f.Namespace == event.Object.Namespace) &&
		!event.Received.Before(f.Since)
}

// AuditEvents returns the answered requests that the filter selects, in the order of their answers. A request that was
// answered a moment ago may still be missing. It fails without Options.AuditLog.
func (c *Cluster) AuditEvents(filter AuditFilter) ([]AuditEvent, error) {
	if !c.audit {
		return nil, errors.New("this cluster keeps no audit log: set Options.AuditLog")
	}
	file, err := os.Open(c.path("audit.log"))
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	defer file.Close()
	lines := bufio.NewReader(file)
	if filter.After > 0 {
		if _, err := file.Seek(int64(filter.After)-1, io.SeekStart); err != nil {
			return nil, fmt.Errorf("skip what the audit log had before: %w", err)
		}
		// Usually a line's end alone. A line that was being written then is of a request from before.
		if _, err := lines.ReadBytes('\n'); err != nil {
			return nil, nil
		}
	}
	var events []AuditEvent
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			// What is left, if anything, is a line that is still being written.
			return events, nil
		}
		var event AuditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		if filter.selects(event) {
			events = append(events, event)
		}
	}
}
