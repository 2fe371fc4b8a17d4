package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/credentials"
)

// partOfController is what the controller's chart labels its Deployment with, whatever its name is.
const partOfController = "gha-rs-controller"

// Snapshot is what the cluster shows at one time.
type Snapshot struct {
	// Namespace and Name are what was asked for.
	Namespace, Name string
	// NotInstalled says that the API server does not know our kinds.
	NotInstalled bool
	Managers     []appsv1.Deployment
	Sets         []Set
	// Others are names of scale sets that were not asked for, as NAMESPACE/NAME.
	Others []string
	// Unread are kinds that the caller may not read, and why.
	Unread map[string]error
}

// Set is a scale set with what belongs to it.
type Set struct {
	v1alpha1.AutoscalingRunnerSet
	RunnerSets []v1alpha1.EphemeralRunnerSet
	Runners    []v1alpha1.EphemeralRunner
	Pods       []corev1.Pod
	Quotas     []corev1.ResourceQuota
	// Credentials is why the Secret can't be used, nil where it can, or was not read.
	Credentials error
}

// Gather reads a snapshot of the scale sets in a namespace ("" is all) with a name ("" is any). It fails only where
// scale sets themselves can't be read for another reason than that they are not installed.
func Gather(ctx context.Context, reader client.Reader, namespace, name string) (*Snapshot, error) {
	s := &Snapshot{Namespace: namespace, Name: name, Unread: map[string]error{}}
	managers := &appsv1.DeploymentList{}
	s.read(ctx, reader, managers, "Deployments", client.MatchingLabels{v1alpha1.LabelPartOf: partOfController})
	s.Managers = managers.Items
	sets := &v1alpha1.AutoscalingRunnerSetList{}
	err := reader.List(ctx, sets, client.InNamespace(namespace))
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		s.NotInstalled = true
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list scale sets: %w; use -n NAMESPACE for one whose scale sets you may read", err)
	}
	for i := range sets.Items {
		set := &sets.Items[i]
		if name != "" && set.Name != name && set.Spec.RunnerScaleSetName != name {
			s.Others = append(s.Others, set.Namespace+"/"+set.Name)
			continue
		}
		s.Sets = append(s.Sets, s.gatherSet(ctx, reader, set))
	}
	return s, nil
}

func (s *Snapshot) gatherSet(ctx context.Context, reader client.Reader, set *v1alpha1.AutoscalingRunnerSet) Set {
	ours := []client.ListOption{client.InNamespace(set.Namespace), client.MatchingLabels{v1alpha1.LabelScaleSetName: set.Name}}
	runnerSets, runners := &v1alpha1.EphemeralRunnerSetList{}, &v1alpha1.EphemeralRunnerList{}
	pods, quotas := &corev1.PodList{}, &corev1.ResourceQuotaList{}
	s.read(ctx, reader, runnerSets, "EphemeralRunnerSets", ours...)
	s.read(ctx, reader, runners, "EphemeralRunners", ours...)
	s.read(ctx, reader, pods, "Pods", ours...)
	s.read(ctx, reader, quotas, "ResourceQuotas", client.InNamespace(set.Namespace))
	slices.SortFunc(runnerSets.Items, func(a, b v1alpha1.EphemeralRunnerSet) int {
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	return Set{
		AutoscalingRunnerSet: *set, RunnerSets: runnerSets.Items, Runners: runners.Items, Pods: pods.Items, Quotas: quotas.Items,
		Credentials: s.credentials(ctx, reader, set),
	}
}

// credentials returns what is wrong with the set's Secret. A vault is not asked: that would need credentials of ours.
func (s *Snapshot) credentials(ctx context.Context, reader client.Reader, set *v1alpha1.AutoscalingRunnerSet) error {
	if set.Spec.VaultConfig != nil {
		return nil
	}
	_, err := credentials.New(reader, credentials.Options{}).Resolve(ctx, credentials.ForAutoscalingRunnerSet(set))
	var status apierrors.APIStatus
	switch {
	case credentials.IsVerdict(err):
		return err
	case errors.As(err, &status):
		s.Unread["Secrets"] = err
	}
	return nil
}

// read lists what there is, and notes where it may not.
func (s *Snapshot) read(ctx context.Context, reader client.Reader, list client.ObjectList, what string, options ...client.ListOption) {
	if err := reader.List(ctx, list, options...); err != nil && !meta.IsNoMatchError(err) {
		s.Unread[what] = err
	}
}

// runnerSet returns the EphemeralRunnerSet in use, nil where there is none.
func (s *Set) runnerSet() *v1alpha1.EphemeralRunnerSet {
	if len(s.RunnerSets) == 0 {
		return nil
	}
	return &s.RunnerSets[0]
}
