// Package check tries, before an installation, what the manager would find out after it: it renders values as Helm would
// and sends what comes of them, and the pods that would be made, to the API server as dry runs, so that nothing stays
// behind. It asks GitHub with the credentials that the values name.
//
//	values ─▶ rendered objects ─▶ each tried ─▶ pods of them tried ─▶ claims ─▶ GitHub ─▶ a list of lines
//
// It says of each line whose step it is. What only the manager can know, such as its listener's pod, is not tried.
package check

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/strvals"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/charts"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/operations/dryrun"
	"github.com/harrier-ci/harrier/operations/files"
	"github.com/harrier-ci/harrier/operations/finding"
	"github.com/harrier-ci/harrier/operations/validation"
)

// Options say what is to be installed where.
type Options struct {
	// Files have values, later ones over earlier ones, and Set lies on all of them, as --set of Helm.
	Files, Set []string
	// Chart is the values' chart. Release and Namespace are those of the installation.
	Chart, Release, Namespace string
	// TryIn is the namespace in which pods are tried while Namespace doesn't exist.
	TryIn string
	// AllowedURLs are the controller's flags.allowedGitHubURLs.
	AllowedURLs []string
	// WithoutGitHub is set if GitHub is not asked.
	WithoutGitHub bool
	Format        string
}

// Run writes the list. It fails with finding.ErrProblems if somebody has to act before the installation works.
func Run(ctx context.Context, cluster client.Client, options Options, to io.Writer) error {
	values, err := options.values()
	if err != nil {
		return err
	}
	x := &examination{Options: options, cluster: cluster, in: options.Namespace}
	rendered, err := x.render(ctx, values)
	if err != nil {
		return err
	}
	if rendered {
		if err := x.examine(ctx); err != nil {
			return err
		}
	}
	if err := write(to, x.lines, options.Format); err != nil {
		return err
	}
	for _, line := range x.lines {
		if line.Status == Problem {
			return finding.ErrProblems
		}
	}
	return nil
}

// examine goes through everything that asks somebody.
func (x *examination) examine(ctx context.Context) error {
	if err := x.place(ctx); err != nil {
		return err
	}
	for _, object := range x.objects {
		x.try(ctx, object)
	}
	if err := x.pods(ctx); err != nil {
		return err
	}
	if x.set == nil {
		return nil
	}
	x.claims(ctx)
	x.resourceClaims(ctx)
	if !x.WithoutGitHub {
		x.github(ctx)
	}
	return nil
}

// values merges the files, and what the command line sets.
func (o *Options) values() (map[string]any, error) {
	if len(o.Files)+len(o.Set) == 0 {
		return nil, errors.New("name a file of values with -f FILE; -h explains the flags")
	}
	inputs, err := files.ReadInputs(o.Files)
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	for _, input := range inputs {
		var more map[string]any
		if err := yaml.Unmarshal(input.Content, &more); err != nil {
			return nil, fmt.Errorf("%s: %w", input.Name, err)
		}
		if _, isObject := more["kind"]; isObject {
			return nil, fmt.Errorf("%s is a Kubernetes object and has no values; kubectl harrier validate takes it", input.Name)
		}
		values = loader.MergeMaps(values, more)
	}
	for _, set := range o.Set {
		if err := strvals.ParseInto(set, values); err != nil {
			return nil, fmt.Errorf("--set %s: %w", set, err)
		}
	}
	return values, nil
}

// render renders the chart, and says what validate says of the values. It reports whether there is anything to try.
func (x *examination) render(ctx context.Context, values map[string]any) (bool, error) {
	x.Chart = cmp.Or(x.Chart, chartOf(values))
	x.Release = cmp.Or(x.Release, map[string]string{charts.ScaleSet: "runners", charts.Controller: "arc"}[x.Chart])
	content, err := yaml.Marshal(values)
	if err != nil {
		return false, fmt.Errorf("write the values: %w", err)
	}
	said := []finding.Finding{}
	if x.Chart == charts.ScaleSet { // which shows by its keys whose values they are
		if said, err = validation.ValidateValues(content, x.Namespace, x.AllowedURLs); err != nil {
			return false, err
		}
	}
	statuses := map[finding.Severity]Status{finding.Problem: Problem, finding.Warning: Warning, finding.Info: OK}
	for _, one := range said {
		x.add(Line{Check: "values", Status: statuses[one.Severity], Object: one.Object, Reason: one.Reason,
			Message: one.Message, Fix: one.Fix, Whose: meaning.User.String()})
	}
	rendered, faults, err := dryrun.Render(x.Chart, values, dryrun.Release{Name: x.Release, Namespace: x.Namespace,
		Cluster: x.seen(ctx)})
	if err != nil {
		return false, err
	}
	for _, fault := range faults {
		if len(said) == 0 {
			status := Problem
			if fault.Warning {
				status = Warning
			}
			x.add(Line{Check: "values", Status: status, Reason: "InvalidValues", Message: fault.String(),
				Fix: "change it as the message says", Whose: meaning.User.String()})
		}
	}
	if rendered == nil {
		return false, nil
	}
	if len(said)+len(faults) == 0 {
		x.add(Line{Check: "values", Status: OK, Message: "the chart " + x.Chart + " takes them"})
	}
	for _, object := range rendered.Objects {
		if err := x.take(object); err != nil {
			return false, err
		}
	}
	return true, nil
}

// chartOf returns the chart whose values these are: every scale set has an address or a Secret.
func chartOf(values map[string]any) string {
	for _, key := range []string{"githubConfigUrl", "githubConfigSecret"} {
		if _, has := values[key]; has {
			return charts.ScaleSet
		}
	}
	return charts.Controller
}

// take keeps an object that the chart renders; hooks of Helm, too, as policies see these as well.
func (x *examination) take(object map[string]any) error {
	content, err := json.Marshal(object)
	taken := &unstructured.Unstructured{}
	if err == nil {
		err = taken.UnmarshalJSON(content)
	}
	if err == nil && taken.GetKind() == "AutoscalingRunnerSet" {
		x.set = &v1alpha1.AutoscalingRunnerSet{}
		err = json.Unmarshal(content, x.set)
	}
	if err != nil {
		return fmt.Errorf("read what the chart renders: %w", err)
	}
	x.objects = append(x.objects, taken)
	return nil
}

// place finds out whether the namespace exists. Into one that doesn't, nothing can be tried.
func (x *examination) place(ctx context.Context) error {
	found := &corev1.Namespace{}
	err := x.cluster.Get(ctx, client.ObjectKey{Name: x.Namespace}, found)
	switch {
	case err == nil:
		if found.DeletionTimestamp != nil {
			x.add(Line{Check: "namespace", Status: Problem, Object: "Namespace " + x.Namespace, Reason: "NamespaceTerminating",
				Message: "it is being deleted", Fix: "wait until it is gone", Whose: meaning.Administrator.String()})
			return nil
		}
		level := found.Labels["pod-security.kubernetes.io/enforce"]
		x.add(Line{Check: "namespace", Status: OK, Object: "Namespace " + x.Namespace,
			Message: "it exists; Pod Security enforces " + cmp.Or(level, "what the cluster's default is")})
	case apierrors.IsNotFound(err):
		x.in = x.TryIn
		if err := client.IgnoreNotFound(x.cluster.Get(ctx, client.ObjectKey{Name: x.in}, found)); err != nil || found.Name == "" {
			return fmt.Errorf("namespace %s does not exist, nor %s to try it in; name one that is like it with --try-in",
				x.Namespace, x.in)
		}
		created := &corev1.Namespace{}
		created.Name = x.Namespace
		message := "it does not exist yet; everything is tried in namespace " + x.in + " instead, where quotas, limits and " +
			"policies may be others"
		line := Line{Check: "namespace", Status: Warning, Object: "Namespace " + x.Namespace, Reason: "NamespaceMissing",
			Message: message, Whose: meaning.Administrator.String(),
			Fix: "create it with its labels and run the check again, or name one that is like it with --try-in"}
		if err := x.cluster.Create(ctx, created, client.DryRunAll); err != nil {
			line.Status, line.Message = Problem, message+"; and it can't be created: "+err.Error()
		}
		x.add(line)
	case apierrors.IsForbidden(err):
		x.add(Line{Check: "namespace", Status: Unknown, Object: "Namespace " + x.Namespace,
			Message: "you may not read it; what is wrong with it shows below"})
	case kube.IsUnanswered(err):
		return fmt.Errorf("ask the API server: %w", err)
	default:
		return fmt.Errorf("read namespace %s: %w", x.Namespace, err)
	}
	return nil
}

// try sends an object as a dry run and says what becomes of it.
func (x *examination) try(ctx context.Context, object *unstructured.Unstructured) {
	tried := object.DeepCopy()
	if tried.GetNamespace() == x.Namespace {
		tried.SetNamespace(x.in)
	}
	line := Line{Check: "object", Object: named(object, object.GetKind())}
	x.add(judged(line, x.cluster.Create(ctx, tried, client.DryRunAll)))
}
