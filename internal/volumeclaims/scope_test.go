package volumeclaims_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// registered is the place where GitHub has the set.
func (s *scene) registered(group string) {
	s.Set.Status.Registration = &v1alpha1.ScaleSetRegistration{URL: s.Set.Spec.GitHubConfigUrl, ID: 1, Name: s.Set.Name,
		Group: group}
}

// What the spec asks for may not exist: until GitHub has moved the set, its jobs are those of its former group.
func TestAMisspeltGroupChangesNothing(t *testing.T) {
	s := newScene(t, newSet("docker"))
	s.registered("Default")
	s.claim("docker", "22222")
	s.Set.Spec.RunnerGroup = "pord"
	d := s.plan(1)
	if got := names(d, "docker"); deleted(d) != "" || len(got) != 1 || got[0] != "linux-docker-22222" {
		t.Errorf("deleted %q, leased %v", deleted(d), got)
	}
	made := s.claim("docker", "44444").Labels[v1alpha1.LabelVolumeClaimScope]
	if s.Set.Spec.RunnerGroup = ""; made != volumeclaims.Scope(s.Set) {
		t.Error("a new claim is not of the group whose jobs fill it")
	}
}

// A claim that another group has filled serves nobody, and stays while the set may go back to that group.
func TestClaimsOfAFormerGroupGoWhenTheSetIsWhereItShouldBe(t *testing.T) {
	s := newScene(t, newSet("docker"))
	s.registered("Default")
	s.claim("docker", "22222")
	s.registered("prod")
	d := s.plan(1)
	if got := names(d, "docker"); deleted(d) != "" || got[0] == "linux-docker-22222" {
		t.Errorf("deleted %q, leased %v", deleted(d), got)
	}
	s.Set.Spec.RunnerGroup = "Prod"
	if got := deleted(s.plan(0)); got != "linux-docker-22222 OtherScope" {
		t.Errorf("deleted %q", got)
	}
}

// A runner that waits for a job, its container up or not, would show a job of the new group what the old one has left.
func TestRunnersWithClaimsOfAFormerGroupGiveWay(t *testing.T) {
	s := newScene(t, newSet("docker"))
	s.registered("Default")
	s.claim("docker", "22222")
	s.claim("docker", "44444")
	s.runner("up", "22222").Up = true
	s.runner("starting", "44444")
	if got := replaced(s.plan(0)); got != "" {
		t.Errorf("%q give way in their own group", got)
	}
	s.registered("prod")
	s.Set.Spec.RunnerGroup = "prod"
	d := s.plan(0)
	if got := replaced(d); got != "up starting " || deleted(d) != "" {
		t.Errorf("%q give way, deleted %q", got, deleted(d))
	}
	s.Runners[0].Deleting, s.Runners[1].Deleting = true, true
	if got := replaced(s.plan(0)); got != "" {
		t.Errorf("%q give way, and are being deleted", got)
	}
}

// What may not be passed on goes although the set is of another group by now, as its own claims do.
func TestClaimsBelongToTheirSetWhateverTheirContent(t *testing.T) {
	s := newScene(t, newSet("docker"))
	s.Set.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.VolumeClaimRetentionPolicy{
		WhenDeleted: v1alpha1.RetainVolumeClaims}
	claim := s.claim("docker", "22222")
	s.Set.Spec.RunnerGroup = "prod"
	if _, ours := volumeclaims.ClaimOf(s.Set, claim); ours || !volumeclaims.Belongs(s.Set, claim) {
		t.Errorf("of the pool: %t, the set's: %t", ours, volumeclaims.Belongs(s.Set, claim))
	}
	other := claim.DeepCopy()
	other.Labels[v1alpha1.LabelScaleSetName] = "windows"
	if volumeclaims.Belongs(s.Set, other) || volumeclaims.Belongs(s.Set, &corev1.PersistentVolumeClaim{}) {
		t.Error("a claim of somebody else is the set's")
	}
}
