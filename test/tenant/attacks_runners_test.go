package tenant

import (
	"fmt"
	"strings"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// held keeps a pod from its node, so that its runner stays pending.
var held = []corev1.PodSchedulingGate{{Name: "example.com/held"}}

// invented is the beginning of reasons that the project doesn't know.
const invented = "InventedReason"

// runnerAttacks are about what a listener or a tenant writes into runners and their sets: defects 11b, 11d and 11e.
func runnerAttacks() []attack {
	return []attack{
		{
			name:    "a listener that changes what runs in its set",
			objects: one("turned", func(_ *stage, set *v1alpha1.AutoscalingRunnerSet) { set.Spec.MinRunners = new(1) }),
			act:     (*stage).turn,
			says: all(works("turned"), func(s *stage) error {
				sets, err := s.runnerSets("turned")
				if err == nil && (len(sets) != 1 ||
					sets[0].Spec.EphemeralRunnerSpec.PodSpec.ServiceAccountName == "admin") {
					return fmt.Errorf("the runner set has not been restored")
				}
				return err
			}),
			harm: func(s *stage) (wrong []string) {
				for pod, account := range s.accounts.all() {
					if account == "admin" {
						wrong = append(wrong, "there was runner pod "+pod+" with the account that the listener chose")
					}
				}
				return wrong
			},
		},
		{
			name: "reasons that nobody knows",
			objects: one("spamming", func(_ *stage, set *v1alpha1.AutoscalingRunnerSet) {
				set.Spec.MinRunners, set.Spec.Template.Spec.SchedulingGates = new(1), held
			}),
			act:  (*stage).spam,
			says: func(*stage) error { return nil },
			harm: func(s *stage) []string { return s.metricsWith(invented) },
		},
		{
			name: "a runner with the labels of another's set",
			objects: func(s *stage) []client.Object {
				return []client.Object{s.runner("pretending", rig.DefaultSet, s.victim.namespace)}
			},
			says: func(*stage) error { return nil },
			harm: (*stage).countedForAnother,
		},
		{
			name:    "many runners at a GitHub that hangs",
			objects: (*stage).crowd,
			act:     (*stage).claimRegistrations,
			says:    func(*stage) error { return nil },
			harm:    (*stage).crowdsPods,
		},
	}
}

// crowdName begins the names of runners that team b has made by hand.
const crowdName = "crowd-"

// crowd is many runners at a GitHub that answers nothing. Every second one says that team b's honest set owns it.
func (s *stage) crowd() (objects []client.Object) {
	count := 150
	if *everyPath {
		count = 2000
	}
	own, err := s.runnerSets(ownSet)
	if err != nil || len(own) != 1 {
		s.Fatalf("%d runner sets of the honest set: %v", len(own), err)
	}
	for i := range count {
		runner := s.runner(fmt.Sprintf("%s%d", crowdName, i), fmt.Sprintf("crowd%d", i%50), s.attacker.namespace)
		runner.Spec.GitHubConfigUrl, runner.Spec.GitHubServerTLS = s.own["hanging"].URL+"/org",
			s.base.Spec.GitHubServerTLS
		if i%2 == 0 {
			owner := metav1.NewControllerRef(&own[0], v1alpha1.GroupVersion.WithKind("EphemeralRunnerSet"))
			owner.BlockOwnerDeletion = nil // for which it would need further rights
			runner.OwnerReferences = []metav1.OwnerReference{*owner}
		}
		objects = append(objects, runner)
	}
	return objects
}

// claimRegistrations has the runners that are left say that they have registrations and jobs.
func (s *stage) claimRegistrations() error {
	var runners v1alpha1.EphemeralRunnerList
	if err := s.attacker.client.List(s.Context(), &runners, client.InNamespace(s.attacker.namespace)); err != nil {
		return err
	}
	for i := range runners.Items {
		runner := &runners.Items[i]
		if !strings.HasPrefix(runner.Name, crowdName) {
			continue
		}
		patch := fmt.Sprintf(`{"status":{"phase":"Running","runnerId":%d,"jobId":"%s"}}`, 1000+i, runner.Name)
		if err := s.attacker.client.Status().Patch(s.Context(), runner,
			client.RawPatch(types.MergePatchType, []byte(patch))); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// crowdsPods lists pods of runners that nobody counts.
func (s *stage) crowdsPods() (wrong []string) {
	var pods corev1.PodList
	if err := s.attacker.client.List(s.Context(), &pods, client.InNamespace(s.attacker.namespace)); err != nil {
		s.Fatal(err)
	}
	for _, pod := range pods.Items {
		if strings.HasPrefix(pod.Name, crowdName) {
			wrong = append(wrong, "there is a pod "+pod.Name)
		}
	}
	return wrong
}

// turn uses the rights of a set's listener for what a listener doesn't do.
func (s *stage) turn() error {
	var listeners v1alpha1.AutoscalingListenerList
	gomega.NewWithT(s.T).Eventually(func() (int, error) {
		err := s.rig.Cluster.Client().List(s.Context(), &listeners, client.InNamespace(s.rig.SystemNamespace),
			client.MatchingLabels{
				v1alpha1.LabelScaleSetName: "turned", v1alpha1.LabelScaleSetNamespace: s.attacker.namespace,
			})
		return len(listeners.Items), err
	}, rig.Patience).Should(gomega.Equal(1))
	gomega.NewWithT(s.T).Eventually(func() error { return s.listening("turned") }, rig.Patience).
		Should(gomega.Succeed())
	sets, err := s.runnerSets("turned")
	if err != nil || len(sets) != 1 {
		return fmt.Errorf("%d runner sets: %w", len(sets), err)
	}
	config := s.rig.Cluster.ConfigFor(s.T, testkube.ServiceAccount(s.rig.SystemNamespace, listeners.Items[0].Name))
	listener, err := client.New(config, client.Options{Scheme: s.rig.Cluster.Client().Scheme()})
	if err != nil {
		return err
	}
	patch := `{"spec":{"replicas":3,"ephemeralRunnerSpec":{"spec":{"serviceAccountName":"admin"}}}}`
	return listener.Patch(s.Context(), &sets[0], client.RawPatch(types.MergePatchType, []byte(patch)))
}

func (s *stage) runnerSets(set string) ([]v1alpha1.EphemeralRunnerSet, error) {
	var sets v1alpha1.EphemeralRunnerSetList
	err := s.attacker.client.List(s.Context(), &sets, client.InNamespace(s.attacker.namespace),
		client.MatchingLabels{v1alpha1.LabelScaleSetName: set})
	return sets.Items, err
}

// runners returns the number of team b's runners.
func (s *stage) runners() int {
	s.Helper()
	var runners v1alpha1.EphemeralRunnerList
	if err := s.attacker.client.List(s.Context(), &runners, client.InNamespace(s.attacker.namespace)); err != nil {
		s.Fatal(err)
	}
	return len(runners.Items)
}

// runner is one that team b has made by hand.
func (s *stage) runner(name, set, namespace string) *v1alpha1.EphemeralRunner {
	runner := &v1alpha1.EphemeralRunner{ObjectMeta: s.named(name), Spec: v1alpha1.EphemeralRunnerSpec{
		GitHubConfigUrl: s.own["github"].URL + "/org", GitHubConfigSecret: ownSet + "-gha-rs-github-secret",
		RunnerScaleSetID: 1,
		PodSpec: corev1.PodSpec{SchedulingGates: held,
			Containers: []corev1.Container{{Name: v1alpha1.RunnerContainerName, Image: "i"}}},
	}}
	runner.Labels = map[string]string{v1alpha1.LabelScaleSetName: set, v1alpha1.LabelScaleSetNamespace: namespace}
	return runner
}

// spam writes many different reasons into the status of a runner, as its listener could.
func (s *stage) spam() error {
	const count = 300
	var runners v1alpha1.EphemeralRunnerList
	gomega.NewWithT(s.T).Eventually(func() (int, error) {
		err := s.attacker.client.List(s.Context(), &runners, client.InNamespace(s.attacker.namespace),
			client.MatchingLabels{v1alpha1.LabelScaleSetName: "spamming"})
		return len(runners.Items), err
	}, rig.Patience).ShouldNot(gomega.BeZero())
	for i := range count {
		patch := fmt.Sprintf(`{"status":{"phase":"Pending","reason":"%s%d","message":"m"}}`, invented, i)
		if err := s.attacker.client.Status().Patch(s.Context(), &runners.Items[0],
			client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			return err
		}
	}
	return nil
}

// metricsWith lists the manager's series that have the text.
func (s *stage) metricsWith(text string) (wrong []string) {
	for where, metrics := range s.metrics() {
		for line := range strings.Lines(metrics) {
			if strings.Contains(line, text) {
				wrong = append(wrong, where+": "+strings.TrimSpace(line))
			}
		}
	}
	return wrong
}

// countedForAnother lists series of team a's set that count a runner although all its jobs are done.
func (s *stage) countedForAnother() (wrong []string) {
	for _, line := range s.metricsWith(fmt.Sprintf("namespace=%q", s.victim.namespace)) {
		counts := strings.Contains(line, "gha_controller_runners{") ||
			strings.Contains(line, "gha_controller_pending_pods{")
		if counts && !strings.HasSuffix(line, " 0") {
			wrong = append(wrong, line)
		}
	}
	return wrong
}
