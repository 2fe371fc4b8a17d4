package check

import (
	"fmt"
	"io"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/internal/podtrial"
	"github.com/harrier-ci/harrier/operations/finding"
)

// Status is the outcome of one check.
type Status string

// Outcomes.
const (
	OK Status = "ok"
	// Warning: it works, but perhaps not as intended.
	Warning Status = "warning"
	// Problem: the installation fails, or no job runs, until somebody acts.
	Problem Status = "problem"
	// Unknown: it could not be tried, and the message says why.
	Unknown Status = "unknown"
)

// marks begin the lines of the list.
var marks = map[Status]string{OK: "✓", Warning: "!", Problem: "✗", Unknown: "?"}

// Line is one line of the list.
type Line struct {
	// Check is what was tried: values, namespace, object, pod, claim, github.
	Check  string `json:"check"`
	Status Status `json:"status"`
	// Object is KIND NAMESPACE/NAME, or which pod. Reason is one word that stays the same across versions.
	Object  string `json:"object,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
	// Fix is what to do, and Whose is whose step that is.
	Fix   string `json:"fix,omitempty"`
	Whose string `json:"whose,omitempty"`
}

// examination is one run.
type examination struct {
	Options
	cluster client.Client
	// in is the namespace in which everything is tried.
	in string
	// objects are what the chart renders, and set is the scale set among them, nil for the controller's chart.
	objects []*unstructured.Unstructured
	set     *v1alpha1.AutoscalingRunnerSet
	lines   []Line
}

func (x *examination) add(line Line) {
	line.Message, line.Fix = output.Clean(line.Message), output.Clean(line.Fix)
	x.lines = append(x.lines, line)
}

func write(to io.Writer, lines []Line, format string) error {
	if format == output.JSON {
		return output.WriteJSON(to, struct {
			Checks []Line `json:"checks"`
		}{lines}, true)
	}
	counted := map[Status]int{}
	for _, line := range lines {
		counted[line.Status]++
		text := line.Check
		if line.Object != "" {
			text += ": " + output.Clean(line.Object)
		}
		if line.Reason != "" {
			text += ": " + line.Reason
		}
		fmt.Fprintf(to, "%s %s: %s\n", marks[line.Status], text, line.Message)
		if line.Fix != "" && line.Status != OK {
			fmt.Fprintf(to, "    To do, by %s: %s\n", line.Whose, line.Fix)
		}
	}
	_, err := fmt.Fprintf(to, "%s, %s, %d could not be tried. Nothing was created.\n",
		finding.Counted(counted[Problem], "problem", "problems"), finding.Counted(counted[Warning], "warning", "warnings"),
		counted[Unknown])
	return err
}

// judged says what the API server's answer to a dry run means. That the object exists is the last thing it finds out,
// and so it is that a quota is full: everything else has let the object through.
func judged(line Line, err error) Line {
	policy := "change the value that it comes from, or have what the message names make an exception: docs/policies.md"
	switch {
	case err == nil:
		line.Status, line.Message = OK, "the API server takes it"
	case apierrors.IsAlreadyExists(err):
		line.Status, line.Message = OK, "it exists, and the API server takes it"
	case meta.IsNoMatchError(err):
		line.Status, line.Reason, line.Message = Problem, "KindMissing", err.Error()
		line.Whose, line.Fix = meaning.Administrator.String(),
			"install the chart gha-runner-scale-set-controller first, or what else brings this kind"
	case kube.IsQuotaExceeded(err):
		line.Status, line.Reason, line.Message = Warning, v1alpha1.ReasonQuotaExceeded, err.Error()
		line.Whose, line.Fix = meaning.For(line.Reason).Actor.String(), meaning.For(line.Reason).Advice
	case kube.IsDeniedByAuthorizer(err):
		line.Status, line.Reason, line.Message = Problem, "Forbidden", err.Error()
		line.Whose, line.Fix = meaning.Administrator.String(),
			"run the check, and the installation, as somebody who may do this: --as, --kubeconfig"
	case kube.IsUnanswered(err):
		line.Status, line.Message = Unknown, fmt.Sprintf("the API server gave no answer: %v", err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		line.Status, line.Reason, line.Message = Problem, "Invalid", err.Error()
		line.Whose, line.Fix = meaning.User.String(), policy
	case apierrors.IsForbidden(err):
		line.Status, line.Reason, line.Message = Problem, "Refused", err.Error()
		line.Whose, line.Fix = meaning.Administrator.String(), policy
	default:
		line.Status, line.Message = Unknown, err.Error()
	}
	return line
}

// judgedPod says what the answer means for a pod: a refusal lasts only if it says something about the pod.
func judgedPod(line Line, err error) Line {
	reason, refused := podtrial.Refuses(err)
	if !refused {
		return judged(line, err)
	}
	row := meaning.For(reason)
	line.Status, line.Reason, line.Message = Problem, reason, err.Error()
	line.Whose, line.Fix = row.Actor.String(), row.Advice
	return line
}

// named names an object as findings do.
func named(object client.Object, kind string) string {
	return strings.TrimSpace(kind + " " + strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/"))
}
