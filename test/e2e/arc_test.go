package e2e

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/fakegithub/state"
	"github.com/harrier-ci/harrier/test/arc"
)

// docs/from-arc.md promises users of ARC: after its two upgrades the same scale set is served, a running job has gone
// on, and nothing of ARC holds up the uninstallation.
func TestUpgradeFromARC(t *testing.T) {
	s := prepare(t, serve(t, fakegithub.Options{}), arc.Name, 0, 5)
	s.values["githubConfigUrl"] = s.github.BaseURL + "/org"
	s.values["controllerServiceAccount"] = site.Values{"namespace": managerObject.Namespace, "name": managerObject.Name}
	withoutController(t)
	s.installed = true
	// Helm 3 applied so, and made most installations of ARC. Helm 4 goes on with a release in the way it began.
	if err := place.Apply(t.Context(), s.name, site.ScaleSetChart, s.namespace, s.values,
		"--server-side=false"); err != nil {
		t.Fatal(err)
	}
	id := s.createARCs()
	s.awaitListener()
	ids := s.queue(1, longJob)
	s.awaitJobs(ids, state.Running)
	runner, listener := s.runnerPods()[0], s.listenerPod()

	if err := place.Apply(t.Context(), site.ControllerName, site.ControllerChart, site.SystemNamespace,
		place.ControllerValues(),
		"--wait", "--timeout="+site.HelmLimit.String(), "--take-ownership"); err != nil {
		t.Fatal(err)
	}
	s.apply()
	s.await(t.Context(), "a listener of ours", func() (string, error) {
		pods := systemPods(t, v1alpha1.ComponentListener, client.MatchingLabels{v1alpha1.LabelScaleSetName: s.name})
		if len(pods) == 1 && pods[0].UID != listener.UID {
			return "", nil
		}
		return "ARC's is there", nil
	})
	if pods := s.runnerPods(); len(pods) == 0 || pods[0].UID != runner.UID {
		t.Errorf("runner pods are %v, want ARC's that is at work", namesOf(pods))
	}
	s.endJobs()
	s.awaitSuccess(append(ids, s.queue(2, time.Second)...))
	if sets := s.snapshot(t.Context()).ScaleSets; len(sets) != 1 || sets[0].ID != id {
		t.Errorf("on GitHub there are %+v, want the scale set that ARC made, %d, alone", sets, id)
	}
}

// withoutController takes the shared controller away until the test ends, and leaves CRDs of no release, as ARC's chart
// does.
func withoutController(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := installController(ctx); err != nil {
			t.Error(err)
		}
		kubectl(ctx, t, "label", "namespace", site.SystemNamespace, "--overwrite", podSecurity+"=restricted")
	})
	if err := place.Uninstall(t.Context(), site.ControllerName, site.SystemNamespace); err != nil {
		t.Fatal(err)
	}
	kubectl(t.Context(), t, "apply", "--server-side", "--filename="+filepath.Join(place.Root, "apis", "crds"))
	// kubectl waits for no condition of an object that has none yet: it fails.
	for _, until := range []string{"jsonpath={.status.conditions[0].type}", "condition=Established"} {
		kubectl(t.Context(), t, "wait", "--for="+until, "--filename="+filepath.Join(place.Root, "apis", "crds"))
	}
	// ARC's listener pods don't satisfy "restricted".
	kubectl(t.Context(), t, "label", "namespace", site.SystemNamespace, "--overwrite", podSecurity+"=privileged")
}

func kubectl(ctx context.Context, t *testing.T, arguments ...string) {
	t.Helper()
	if _, err := place.Kubectl(ctx, arguments...); err != nil {
		t.Fatal(err)
	}
}

// createARCs makes the objects of ARC's controller, and returns the id of the scale set on GitHub. Objects of the
// release get ARC's marks.
func (s *scaleSet) createARCs() int {
	s.t.Helper()
	set, err := arc.Register(s.t.Context(), arc.Place{
		System: managerObject.Namespace, Account: managerObject.Name, Runners: s.namespace,
		URL: s.values["githubConfigUrl"].(string), Token: "any-token-will-do",
	})
	if err == nil {
		err = set.CreateObjects(s.createOrMark, "image: runner", "image: "+place.DemoImage,
			"image: ghcr.io/actions/gha-runner-scale-set-controller:0.14.2", "image: "+place.ProductImage)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return set.ScaleSet
}

// createOrMark creates the object. An existing one gets its labels, annotations and finalizers. Both get its status.
func (s *scaleSet) createOrMark(wanted *unstructured.Unstructured) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(wanted.GroupVersionKind())
	status, reported := wanted.Object["status"]
	err := kube.Get(s.t.Context(), client.ObjectKeyFromObject(wanted), object)
	switch {
	case client.IgnoreNotFound(err) != nil:
	case err != nil:
		object = wanted
		err = kube.Create(s.t.Context(), object)
	default:
		labels, annotations := object.GetLabels(), object.GetAnnotations()
		maps.Copy(labels, wanted.GetLabels())
		maps.Copy(annotations, wanted.GetAnnotations())
		object.SetLabels(labels)
		object.SetAnnotations(annotations)
		object.SetFinalizers(slices.Concat(object.GetFinalizers(), wanted.GetFinalizers()))
		err = kube.Update(s.t.Context(), object)
	}
	if err == nil && reported {
		object.Object["status"] = status
		err = kube.Status().Update(s.t.Context(), object)
	}
	wanted.Object = object.Object
	return err
}
