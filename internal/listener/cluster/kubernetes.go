package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/apiaccess"
)

const (
	runnerSets = "ephemeralrunnersets"
	runners    = "ephemeralrunners"
)

// kubernetes is the Cluster on a real API server.
type kubernetes struct {
	client          rest.Interface
	namespace, name string
}

// New returns the Cluster of the EphemeralRunnerSet with that namespace and name. It makes no request.
func New(config *rest.Config, namespace, name string) (Cluster, error) {
	config = apiaccess.WithoutProxy(config)
	config.APIPath = "/apis"
	config.GroupVersion = &v1alpha1.GroupVersion
	config.QPS = -1 // the reporter bounds the requests in flight, and API priority and fairness does the rest
	// The only answer decoded by type is Status, the type of errors. Of a set only a few fields are read, because it
	// contains a whole pod template that is not needed here.
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, v1alpha1.GroupVersion)
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType = runtime.ContentTypeJSON
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("create a client for the Kubernetes API: %w", err)
	}
	return &kubernetes{client: client, namespace: namespace, name: name}, nil
}

// setDocument has the fields of an EphemeralRunnerSet that the listener uses. Numbers have no omitempty, because a
// field that a merge patch leaves out keeps its value.
type setDocument struct {
	Metadata struct {
		UID         types.UID         `json:"uid,omitempty"` // in answers only
		Annotations map[string]string `json:"annotations,omitempty"`
	} `json:"metadata"`
	Spec struct {
		Replicas     int `json:"replicas"`
		PatchID      int `json:"patchID"`
		AssignedJobs int `json:"assignedJobs"`
		CanceledJobs int `json:"canceledJobs"`
	} `json:"spec"`
}

// RunnerSet implements Cluster.
func (k *kubernetes) RunnerSet(ctx context.Context) (*RunnerSet, error) {
	answer, err := body(k.client.Get().Namespace(k.namespace).Resource(runnerSets).Name(k.name).Do(ctx))
	return k.runnerSet("read", answer, err)
}

// Publish implements Cluster.
func (k *kubernetes) Publish(ctx context.Context, publication Publication) (*RunnerSet, error) {
	var patch setDocument
	patch.Metadata.Annotations = map[string]string{v1alpha1.AnnotationListenerSession: publication.SessionID}
	patch.Spec.Replicas = publication.Replicas
	patch.Spec.PatchID = publication.PatchID
	patch.Spec.AssignedJobs, patch.Spec.CanceledJobs = publication.AssignedJobs, publication.CanceledJobs
	answer, err := k.patch(ctx, runnerSets, k.name, patch)
	return k.runnerSet("patch", answer, err)
}

// WriteStatus implements Cluster.
func (k *kubernetes) WriteStatus(ctx context.Context, status v1alpha1.ListenerStatus) error {
	// Empty fields are written as well: otherwise the merge patch would keep the last message.
	patch := map[string]any{"status": map[string]any{"listener": map[string]any{
		"state": status.State, "reason": status.Reason, "message": status.Message, "since": status.Since,
		"strayRegistrations": status.StrayRegistrations, "unknownRunnerJobs": status.UnknownRunnerJobs,
		"waiting": status.Waiting, "availableJobs": status.AvailableJobs, "gaveUp": status.GaveUp,
	}}}
	if _, err := k.patch(ctx, runnerSets, k.name, patch, "status"); err != nil {
		return fmt.Errorf("patch status of EphemeralRunnerSet %s/%s: %w", k.namespace, k.name, err)
	}
	return nil
}

// ReportJob implements Cluster. If the name can't be part of a request's path, it returns BadRequest, as the API server
// does for an invalid request. The client would never send the request.
func (k *kubernetes) ReportJob(ctx context.Context, runner string, status v1alpha1.EphemeralRunnerStatus) error {
	if wrong := rest.IsValidPathSegmentName(runner); len(wrong) > 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("no EphemeralRunner in namespace %s can be called %q, as a name "+
			"%s: the job did not run on a runner of this scale set, look it up on GitHub", k.namespace, runner,
			strings.Join(wrong, ", ")))
	}
	if _, err := k.patch(ctx, runners, runner, map[string]any{"status": status}, "status"); err != nil {
		return fmt.Errorf("patch status of EphemeralRunner %s/%s: %w", k.namespace, runner, err)
	}
	return nil
}

// body returns an answer's body, or an error in the API server's own words, which Raw leaves out.
func body(answer rest.Result) ([]byte, error) {
	if err := answer.Error(); err != nil {
		return nil, err
	}
	return answer.Raw()
}

func (k *kubernetes) patch(
	ctx context.Context, resource, name string, patch any, subresources ...string,
) ([]byte, error) {
	content, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	return body(k.client.Patch(types.MergePatchType).Namespace(k.namespace).Resource(resource).Name(name).
		SubResource(subresources...).Body(content).Do(ctx))
}

func (k *kubernetes) runnerSet(verb string, answer []byte, err error) (*RunnerSet, error) {
	var read struct {
		setDocument
		Status struct {
			Capacity    *int                     `json:"capacity"`
			DoubtedJobs int                      `json:"doubtedJobs"`
			Listener    *v1alpha1.ListenerStatus `json:"listener"`
			RunnerCounts
		} `json:"status"`
	}
	if err == nil {
		err = json.Unmarshal(answer, &read)
	}
	if err != nil {
		return nil, fmt.Errorf("%s EphemeralRunnerSet %s/%s: %w", verb, k.namespace, k.name, err)
	}
	set := &RunnerSet{
		UID:         read.Metadata.UID,
		Capacity:    read.Status.Capacity,
		DoubtedJobs: read.Status.DoubtedJobs,
		Listener:    read.Status.Listener,
		Runners:     read.Status.RunnerCounts,
	}
	set.Replicas, set.PatchID = read.Spec.Replicas, read.Spec.PatchID
	set.AssignedJobs, set.CanceledJobs = read.Spec.AssignedJobs, read.Spec.CanceledJobs
	set.SessionID = read.Metadata.Annotations[v1alpha1.AnnotationListenerSession]
	return set, nil
}
