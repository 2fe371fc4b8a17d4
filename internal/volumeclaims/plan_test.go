package volumeclaims_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// deleted returns the claims that a decision deletes, and why, sorted.
func deleted(d volumeclaims.Decision) string {
	var found []string
	for _, deletion := range d.Deletions {
		found = append(found, deletion.Name+" "+string(deletion.Why))
		if !strings.Contains(deletion.Message, deletion.Name) || deletion.UID == "" {
			found = append(found, "a deletion without its claim: "+deletion.Message)
		}
	}
	slices.Sort(found)
	return strings.Join(found, ", ")
}

func both(why string) string { return "linux-docker-22222 " + why + ", linux-go-22222 " + why }

func pool(s *scene) *v1alpha1.VolumeClaimPool { return s.Set.Spec.VolumeClaimPool }

// goings are worlds with a bundle 22222, and which claims go in them.
var goings = map[string]struct {
	world func(*scene)
	want  string
}{
	"none":                        {func(*scene) {}, ""},
	"none within idleTTL":         {func(s *scene) { s.after(167 * time.Hour) }, ""},
	"one not used for idleTTL":    {func(s *scene) { s.after(168 * time.Hour) }, both("Unused")},
	"none without idleTTL":        {func(s *scene) { pool(s).IdleTTL = duration(0); s.after(10_000 * time.Hour) }, ""},
	"none that is in use":         {func(s *scene) { s.runner("r", "22222"); s.after(200 * time.Hour) }, ""},
	"none that was in use before": {func(s *scene) { s.runner("r", "22222"); s.after(200 * time.Hour); s.plan(0); s.Runners = nil }, ""},
	"one older than maxAge":       {func(s *scene) { pool(s).MaxAge = duration(time.Hour); s.after(time.Hour) }, both("TooOld")},
	"none older that is in use":   {func(s *scene) { pool(s).MaxAge = duration(time.Hour); s.after(time.Hour); s.runner("r", "22222") }, ""},
	"of a bundle, the claim whose template is gone": {func(s *scene) {
		s.Set.Spec.VolumeClaimTemplates = s.Set.Spec.VolumeClaimTemplates[:1]
	}, "linux-go-22222 TemplateGone"},
	"the same while the bundle is in use without it": {func(s *scene) {
		s.Set.Spec.VolumeClaimTemplates = s.Set.Spec.VolumeClaimTemplates[:1]
		s.runner("r", "22222")
	}, "linux-go-22222 TemplateGone"},
	"not while a runner has it": {func(s *scene) {
		s.runner("r", "22222")
		s.Set.Spec.VolumeClaimTemplates = s.Set.Spec.VolumeClaimTemplates[:1]
	}, ""},
	"the whole bundle if a volume is gone": {func(s *scene) { s.pvcs["linux-go-22222"].Status.Phase = "Lost" }, both("VolumeLost")},
	"one of another address":               {func(s *scene) { s.Set.Spec.GitHubConfigUrl = "https://github.com/other" }, both("OtherScope")},
	"not one of another address, if they stay": {func(s *scene) {
		s.Set.Spec.GitHubConfigUrl = "https://github.com/other"
		s.Set.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.VolumeClaimRetentionPolicy{
			WhenDeleted: v1alpha1.RetainVolumeClaims}
	}, ""},
	"the coldest that is too many": {func(s *scene) {
		pool(s).Max = new(1)
		s.after(time.Minute)
		s.claim("docker", "44444")
		s.claim("go", "44444")
		s.runner("r", "44444")
		s.plan(0)
		s.after(time.Minute)
		s.Runners = nil
	}, both("TooMany")},
	"none that would be too many but is in use": {func(s *scene) {
		pool(s).Max = new(1)
		s.claim("docker", "44444")
		s.runner("r", "44444")
		s.runner("q", "22222")
	}, ""},
	"one whose last job's event is not among those named": {func(s *scene) {
		pool(s).KeepAfter = &v1alpha1.KeepClaimsAfter{Events: []string{"push"}}
		r := s.runner("r", "22222")
		r.Done, r.Started, r.Job.Event = true, true, "pull_request"
	}, both("NotKept")},
	"none whose job runs": {func(s *scene) {
		pool(s).KeepAfter = &v1alpha1.KeepClaimsAfter{Events: []string{"push"}}
		s.runner("r", "22222").Started = true
	}, ""},
	"one that two runners could not use": {func(s *scene) {
		s.pvcs["linux-go-22222"].Annotations[v1alpha1.AnnotationVolumeClaimFailures] = "a@2026-03-01T00:00:00Z " +
			"b@2026-03-01T01:00:00Z"
	}, both("Discarded")},
	"none for what nobody can read": {func(s *scene) {
		s.pvcs["linux-go-22222"].Annotations[v1alpha1.AnnotationVolumeClaimFailures] = "a b@c @ 2026-03-01T01:00:00Z"
		s.pvcs["linux-go-22222"].Annotations[v1alpha1.AnnotationVolumeClaimUsedAt] = "yesterday"
	}, ""},
	"a copy that nobody used, since its source waits for it": {func(s *scene) {
		pool(s).SeedFrom = &v1alpha1.VolumeClaimSeed{PersistentVolumeClaim: "linux-docker-22222"}
		s.claim("docker", "44444").Status.Phase = "Pending"
		s.plan(0)
		s.after(5 * time.Minute)
	}, "linux-docker-44444 NeverBound"},
	"of a bundle, the claim that got no volume before its template was corrected": {func(s *scene) {
		s.pvcs["linux-go-22222"].Status.Phase, s.pvcs["linux-go-22222"].Spec.StorageClassName = "Pending", new("fsat")
		s.Set.Spec.VolumeClaimTemplates[1].Spec.StorageClassName = new("fast")
	}, "linux-go-22222 Outdated"},
	"one without a volume whose seed was corrected": {func(s *scene) {
		pool(s).SeedFrom = &v1alpha1.VolumeClaimSeed{VolumeSnapshot: "golden"}
		s.pvcs["linux-go-22222"].Status.Phase = "Pending"
	}, "linux-go-22222 Outdated"},
	"none that has a volume of another class": {func(s *scene) { s.Set.Spec.VolumeClaimTemplates[1].Spec.StorageClassName = new("fast") }, ""},
	"none before the API server was asked":    {func(s *scene) { s.Listed = false; s.after(1000 * time.Hour) }, ""},
}

func TestWhichClaimsGo(t *testing.T) {
	for name, test := range goings {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, newSet("docker", "go"))
			s.claim("docker", "22222")
			s.claim("go", "22222")
			s.plan(0)
			test.world(s)
			if got := deleted(s.plan(0)); got != test.want {
				t.Errorf("deleted %q, want %q", got, test.want)
			}
			if got := deleted(s.plan(0)); got != "" {
				t.Errorf("deleted again: %q", got)
			}
		})
	}
}

func TestAFewClaimsGoAMinute(t *testing.T) {
	s := newScene(t, newSet("docker"))
	for i := range 30 {
		s.claim("docker", "222"+string("bcdfghjklmnpqrstvwxz2456789bcd"[i])+string("bcdfghjklmnpqrstvwxz2456789cdf"[i]))
	}
	total := len(s.pvcs)
	s.after(300 * time.Hour)
	for minute := range 4 {
		d := s.plan(0)
		if len(d.Deletions) > 10 || len(s.plan(0).Deletions) != 0 {
			t.Fatalf("minute %d: %d deletions, and more in the next pass", minute, len(d.Deletions))
		}
		for _, deletion := range d.Deletions {
			delete(s.pvcs, deletion.Name)
		}
		if len(s.pvcs) > 0 && !d.RequeueAt.Equal(s.Now.Add(time.Minute)) {
			t.Errorf("goes on at %s", d.RequeueAt)
		}
		s.after(time.Minute)
	}
	if len(s.pvcs) != 0 {
		t.Errorf("%d of %d are left", len(s.pvcs), total)
	}
}

// What is not recorded is at most a quarter of idleTTL old, so a process that has just started waits for so much
// longer, and a claim that is used all the time costs one request in that time.
func TestARestartMakesAnIdleClaimStayLittleLonger(t *testing.T) {
	s := newScene(t, newSet("docker"))
	claim := s.claim("docker", "22222")
	writes := 0
	for range 10 * 24 { // ten days of jobs, one an hour
		s.Runners = nil
		s.runner("r", "22222")
		for _, record := range s.plan(0).Records {
			writes++
			claim.Annotations[record.Key] = record.Value
		}
		s.after(time.Hour)
	}
	if writes == 0 || writes > 10*24/42+1 {
		t.Errorf("%d writes in ten days, want one in 42 h", writes)
	}
	s.Runners = nil
	s.plan(0)
	lastUse := s.Now
	s.memory = volumeclaims.NewMemory("linux")
	for deleted(s.plan(0)) == "" {
		s.after(time.Hour)
	}
	if idle := s.Now.Sub(lastUse); idle < 167*time.Hour || idle > 211*time.Hour {
		t.Errorf("after a restart the claim stayed for %s", idle)
	}
}

func TestOwnersFollowThePolicy(t *testing.T) {
	s := newScene(t, newSet("docker"))
	s.claim("docker", "22222")
	s.Set.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.VolumeClaimRetentionPolicy{
		WhenDeleted: v1alpha1.RetainVolumeClaims}
	d := s.plan(0)
	if len(d.Records) != 1 || d.Records[0].Key != volumeclaims.OwnersKey || len(s.plan(0).Records) != 0 {
		t.Errorf("records %v", d.Records)
	}
}
