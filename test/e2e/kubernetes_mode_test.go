package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/hack/installation"
	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/fakegithub/state"
	rootkube "github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/operations/doctor/diagnosis"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/finding"
)

// inMode prepares a set in a kubernetes mode with a program in place of its hooks (test/standin/hook). In mode
// kubernetes its runners claim volumes that belong to root; so many exist.
func inMode(t *testing.T, name, mode string, volumes, maxRunners int) *scaleSet {
	t.Helper()
	directory := t.TempDir() // it outlives the pods that use it
	s := prepare(t, serve(t, fakegithub.Options{}), name, 0, maxRunners)
	s.values["containerMode"] = site.Values{"type": mode}
	s.useStandIn()
	s.setEnv("JOB_IMAGE", site.StandInImage)
	if mode == "kubernetes" {
		s.provide(directory, volumes)
		s.values["containerMode"].(site.Values)["kubernetesModeWorkVolumeClaim"] = site.Values{
			"accessModes": []string{"ReadWriteOnce"}, "storageClassName": s.namespace,
			"resources": site.Values{"requests": site.Values{"storage": "1Gi"}},
		}
	}
	return s
}

// setEnv sets a variable of the runner container.
func (s *scaleSet) setEnv(name, value string) {
	env, _ := s.container()["env"].([]site.Values)
	s.container()["env"] = append(env, site.Values{"name": name, "value": value})
}

// provide makes a storage class with local volumes. Their directories belong to root, and nobody else may write to
// them.
func (s *scaleSet) provide(directory string, volumes int) {
	s.t.Helper()
	var nodes corev1.NodeList
	if err := kube.List(s.t.Context(), &nodes); err != nil {
		s.t.Fatal(err)
	}
	binding := storagev1.VolumeBindingWaitForFirstConsumer
	objects := []client.Object{&storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace}, Provisioner: "kubernetes.io/no-provisioner",
		VolumeBindingMode: &binding,
	}}
	for i := range volumes {
		path := filepath.Join(directory, fmt.Sprint(i))
		if err := os.Mkdir(path, 0o755); err != nil {
			s.t.Fatal(err)
		}
		objects = append(objects, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", s.namespace, i)},
			Spec: corev1.PersistentVolumeSpec{
				StorageClassName: s.namespace, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				PersistentVolumeSource: corev1.PersistentVolumeSource{
					Local: &corev1.LocalVolumeSource{Path: path}},
				NodeAffinity: &corev1.VolumeNodeAffinity{
					Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
						MatchExpressions: []corev1.NodeSelectorRequirement{
							{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn,
								Values: []string{nodes.Items[0].Labels[corev1.LabelHostname]}}},
					}}}},
			},
		})
	}
	for _, object := range objects {
		if err := kube.Create(s.t.Context(), object); err != nil {
			s.t.Fatal(err)
		}
	}
	s.t.Cleanup(func() {
		for _, object := range objects {
			if err := client.IgnoreNotFound(kube.Delete(context.Background(), object)); err != nil {
				s.t.Error(err)
			}
		}
	})
}

// jobPods returns the pods of the set's hooks.
func (s *scaleSet) jobPods() []corev1.Pod {
	s.t.Helper()
	var pods corev1.PodList
	if err := kube.List(s.t.Context(), &pods, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !rootkube.IsJobPod(&p) })
}

func (s *scaleSet) awaitNoClaims() {
	s.t.Helper()
	s.await(s.t.Context(), "no volume claim to be left", func() (string, error) {
		var claims corev1.PersistentVolumeClaimList
		err := kube.List(s.t.Context(), &claims, client.InNamespace(s.namespace))
		if err != nil || len(claims.Items) == 0 {
			return "", err
		}
		return "claim " + claims.Items[0].Name, nil
	})
}

// A program in place of the container hooks makes their requests for pods, Jobs and Secrets under the runner pod's
// ServiceAccount. If one fails the runner takes no job. Job pods belong to the set and are protected, although its
// values don't mention them.
func TestHooksMayRunJobPodsInKubernetesMode(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]string{"job-pods": "kubernetes", "job-pods-novolume": "kubernetes-novolume"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := inMode(t, name, mode, 2, 2)
			s.makeNamespace()
			pods := recordPodsOf(t, s.namespace, client.HasLabels{v1alpha1.LabelScaleSetName})
			s.install()
			s.awaitSuccess(s.queue(2, time.Second))
			s.awaitNoRunners()
			s.uninstall(t.Context())
			s.awaitNoClaims()
			seen := 0
			for _, pod := range pods.all() {
				if !rootkube.IsJobPod(&pod) {
					continue
				}
				seen++
				if pod.Labels[v1alpha1.LabelScaleSetNamespace] != s.namespace ||
					pod.Labels["actions.github.com/runner-busy"] != "true" ||
					pod.Annotations[v1alpha1.AnnotationDoNotDisrupt] != "true" ||
					pod.Annotations[v1alpha1.AnnotationSafeToEvict] != "false" {
					t.Errorf("job pod %s has labels %v and annotations %v", pod.Name, pod.Labels, pod.Annotations)
				}
			}
			if seen < 4 {
				t.Errorf("%d job pods were seen, want one of each job and of each step", seen)
			}
		})
	}
}

// A runner dies while a step works in a container of its own. The step's Job would go on and keep the runner's claim.
func TestNothingOfADeadRunnersHooksIsLeft(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]string{"dead-hooks": "kubernetes",
		"dead-hooks-novolume": "kubernetes-novolume"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := inMode(t, name, mode, 1, 1)
			s.setEnv("STEP_SLEEPS", "10m")
			s.caused = []state.AnomalyKind{state.RunnerStoppedBusy}
			s.install()
			runner := s.awaitJobs(s.queue(1, longJob), state.Running)[0].Runner
			if at := s.jobPods(); len(at) != 2 {
				t.Fatalf("%d job pods, want the job's and the step's", len(at))
			}
			pods := s.runnerPods()
			kill(t, pods[slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Name == runner })])
			s.await(t.Context(), "everything of its hooks to be gone", func() (string, error) {
				left, err := site.NamespaceLeft(t.Context(), kube, s.namespace)
				left = slices.DeleteFunc(left, func(object string) bool {
					return !strings.Contains(object, runner+"-workflow") &&
						!strings.Contains(object, runner+"-step-") && !strings.Contains(object, runner+"-secret-")
				})
				return installation.Shorten(left, 5), err
			})
			s.awaitNoClaims()
		})
	}
}

// The documented values work without changes where volumes belong to root. Without the group, the message names it.
func TestWorkVolumeThatBelongsToRoot(t *testing.T) {
	t.Parallel()
	for name, group := range map[string]any{"root-owned": 1001, "root-owned-no-group": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := inMode(t, name, "kubernetes", 2, 1)
			s.podSpec()["securityContext"] = site.Values{"runAsUser": 1001, "runAsGroup": 1001}
			if group != nil {
				s.podSpec()["securityContext"].(site.Values)["fsGroup"] = group
			}
			s.install()
			ids := s.queue(1, time.Second)
			if group != nil {
				s.awaitSuccess(ids)
				// The step's Job goes with the runner; nobody has the right to delete it after the uninstallation.
				s.awaitNoRunners()
				return
			}
			s.await(t.Context(), "advice that names fsGroup", func() (string, error) {
				var runners v1alpha1.EphemeralRunnerList
				err := kube.List(t.Context(), &runners, client.InNamespace(s.namespace))
				for i := range runners.Items {
					if strings.Contains(runners.Items[i].Status.Message, "template.spec.securityContext.fsGroup") {
						return "", nil
					}
				}
				return fmt.Sprintf("none of %d runners has it", len(runners.Items)), err
			})
		})
	}
}

// The hooks put a job's pod on its runner's node. A pod that doesn't fit there is rejected, and the doctor says so.
// With the scheduler it waits, and the set says so.
func TestJobPodsThatDoNotFit(t *testing.T) {
	t.Parallel()
	for name, scheduled := range map[string]bool{"too-large": false, "too-large-waits": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := inMode(t, name, "kubernetes", 1, 1)
			s.values["containerMode"].(site.Values)["kubernetesModeHookTemplate"] = site.Values{
				"spec": site.Values{"containers": []site.Values{
					{"name": "$job", "resources": site.Values{"requests": site.Values{"cpu": "1000"}}},
				}}}
			if scheduled {
				s.setEnv("ACTIONS_RUNNER_USE_KUBE_SCHEDULER", "true")
			}
			s.install()
			s.queue(1, time.Second)
			if scheduled {
				s.await(t.Context(), "the set to say that the job's pod waits", s.saysThatAJobPodWaits)
			} else {
				s.await(t.Context(), "the doctor to report the rejection",
					func() (string, error) { return s.diagnosed("OutOfcpu", "job pod") })
			}
			// After the uninstallation nobody has the right to delete the pod: drained first, as documented.
			s.values["maxRunners"] = 0
			s.apply()
			s.awaitNoRunners()
			if left := s.jobPods(); len(left) > 0 {
				t.Errorf("pod %s of the runner's hooks is left", left[0].Name)
			}
		})
	}
}

func (s *scaleSet) saysThatAJobPodWaits() (missing string, err error) {
	set, err := s.object(s.t.Context())
	if err != nil {
		return "", err
	}
	c := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionRunnersPending)
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != corev1.PodReasonUnschedulable ||
		!strings.Contains(c.Message, "1 job pod waits") {
		return fmt.Sprintf("RunnersPending is %+v", c), nil
	}
	return s.diagnosed(corev1.PodReasonUnschedulable, "job pod")
}

// diagnosed returns "" if the doctor has a finding of the reason with the words.
func (s *scaleSet) diagnosed(reason, words string) (missing string, err error) {
	seen, err := snapshot.Gather(s.t.Context(), snapshot.Cluster{Reader: kube}, s.namespace, s.name)
	if err != nil {
		return "", err
	}
	findings := diagnosis.Diagnose(seen)
	if slices.ContainsFunc(findings,
		func(f finding.Finding) bool { return f.Reason == reason && strings.Contains(f.Message, words) }) {
		return "", nil
	}
	return fmt.Sprintf("the doctor says %+v", findings), nil
}
