package testkube

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// AuditEvent is one request that the API server has answered, or a watch that has ended or begun.
type AuditEvent struct {
	Stage      string    `json:"stage"` // ResponseStarted (watches), ResponseComplete or Panic
	Verb       string    `json:"verb"`  // get, list, watch, create, update, patch, delete, deletecollection
	RequestURI string    `json:"requestURI"`
	UserAgent  string    `json:"userAgent"`
	Received   time.Time `json:"requestReceivedTimestamp"`
	Answered   time.Time `json:"stageTimestamp"`
	User       struct {
		Username string `json:"username"`
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
}

// AuditFilter selects events; empty fields select all.
type AuditFilter struct {
	UserAgent string // prefix
	User      string // as the API server sees it, e.g. system:serviceaccount:NAMESPACE:NAME
	Namespace string // of the object
	Since     time.Time
}

// ServiceAccountUser is the name under which the API server knows a ServiceAccount.
func ServiceAccountUser(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

func (f AuditFilter) selects(event AuditEvent) bool {
	return strings.HasPrefix(event.UserAgent, f.UserAgent) &&
		(f.User == "" || f.User == event.User.Username) &&
		(f.Namespace == "" || f.Namespace == event.Object.Namespace) &&
		!event.Received.Before(f.Since)
}

// AuditEvents returns the answered requests the filter selects, in the order of their answers. A request whose answer has just
// arrived may be missing for a moment. It fails without Options.AuditLog.
func (c *Cluster) AuditEvents(filter AuditFilter) ([]AuditEvent, error) {
	if !c.audit {
		return nil, errors.New("this cluster keeps no audit log: set Options.AuditLog")
	}
	file, err := os.Open(c.path("audit.log"))
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	defer file.Close()
	var events []AuditEvent
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			// The rest is the beginning of a line that is being written.
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
