package tenant

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// Team a's GitHub App. Its id is public: every check run names it.
const (
	appID, installationID = "12", "7"
	appSecret             = "app"
)

// Sets whose feedback is written as check runs.
const (
	tellingSet   = "telling"
	spendingSets = 2
	spendingName = "spending"
)

// newKey makes a key of the App: the Secret's content with it, and what a GitHub needs to know it.
func (c *contest) newKey() (map[string][]byte, fakegithub.App) {
	c.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		c.Fatal(err)
	}
	encoded := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return map[string][]byte{
		"github_app_id": []byte(appID), "github_app_installation_id": []byte(installationID),
		"github_app_private_key": encoded,
	}, fakegithub.App{ID: appID, PublicKey: &key.PublicKey}
}

// keepBudgets has team b spend all that App 12 may write, at team b's own server by sets at team a's address. Team a's
// check runs are written meanwhile as fast as without.
func (c *contest) keepBudgets() {
	c.Helper()
	defer c.deleteSpenders()
	c.create(c.victim.client, c.telling(c.victims(tellingSet, tellingSet, "https://"+securedHost+"/acme")))
	for i := range spendingSets {
		set := c.set(fmt.Sprint(spendingName, i), func(set *v1alpha1.AutoscalingRunnerSet) {
			reach(set, "https://"+securedHost+"/acme", c.proxies.attackers, "ca")
		})
		c.create(c.attacker.client, c.telling(set))
	}
	c.tell() // until the set is installed
	usual := c.tell()
	for i := range spendingSets {
		c.spend(fmt.Sprint(spendingName, i))
	}
	c.await("team b has spent what it may", func() []string {
		// Should both have one budget, team a has spent some of it.
		if written := len(c.forger.CheckRuns()); written+len(c.rig.GitHub.CheckRuns()) < mostWrites {
			return []string{fmt.Sprintf("it has written %d check runs", written)}
		}
		return nil
	})
	// Whoever shares team b's budget may write again after a minute, six times what it usually takes.
	if took := c.tell(); took > slower*usual {
		c.Errorf("team a's check run took %s, %s when team b had not spent anything", took, usual)
	}
}

// tell has a job of team a wait until there is a check run about it, and returns how long that took.
func (c *contest) tell() time.Duration {
	c.Helper()
	began, told := time.Now(), len(c.rig.GitHub.CheckRuns())
	c.rig.QueueJobsFor(tellingSet, 1, 0)
	c.await("team a's job waits, and is told of", func() []string {
		if len(c.rig.GitHub.CheckRuns()) > told {
			return nil
		}
		return []string{"there is no check run about it"}
	})
	return time.Since(began)
}

// mostWrites is the number of check runs that may be written in a minute.
const mostWrites = 64

// telling has a set tell of its jobs, none of which gets a runner that starts.
func (c *contest) telling(set *v1alpha1.AutoscalingRunnerSet) *v1alpha1.AutoscalingRunnerSet {
	set.Spec.GitHubConfigSecret = appSecret
	set.Spec.Feedback = &v1alpha1.Feedback{Checks: true, CheckAfter: &metav1.Duration{Duration: time.Second}}
	set.Spec.Template.Spec.SchedulingGates = held
	return set
}

// spend has a set of team b wait for as many jobs as a status may list.
func (c *contest) spend(name string) {
	c.Helper()
	const most = 50
	var sets []v1alpha1.EphemeralRunnerSet
	c.await(name+" is listened to", func() []string {
		if err := c.listening(name); err != nil {
			return []string{err.Error()}
		}
		var err error
		if sets, err = c.runnerSets(name); err != nil || len(sets) != 1 {
			return []string{fmt.Sprintf("%d runner sets: %v", len(sets), err)}
		}
		return nil
	})
	if len(sets) != 1 {
		return
	}
	var waiting []v1alpha1.WaitingJob
	for range most {
		request := fakegithub.JobRequest{ScaleSet: "nobody's", Owner: "acme", Repository: "app"}
		if _, err := c.forger.QueueJobs(request); err != nil {
			c.Fatal(err)
		}
		jobs := c.forger.Jobs("")
		waiting = append(waiting, v1alpha1.WaitingJob{
			Repository: "acme/app", RunID: jobs[len(jobs)-1].RunID, Name: "test", AssignedAt: metav1.Now(),
		})
	}
	c.update(c.attacker.client, &sets[0], map[string]any{"status": map[string]any{
		"listener": map[string]any{"state": v1alpha1.ListenerStateListening, "waiting": waiting},
	}}, "status")
}

// deleteSpenders ends what keepBudgets has begun. Nobody takes the jobs any more.
func (c *contest) deleteSpenders() {
	c.Helper()
	for _, job := range c.rig.GitHub.Jobs("") {
		if job.State != "completed" {
			if err := c.rig.GitHub.CancelJob(job.RequestID); err != nil {
				c.Error(err)
			}
		}
	}
	c.delete(c.victim, tellingSet)
	for i := range spendingSets {
		c.delete(c.attacker, fmt.Sprint(spendingName, i))
	}
}

// Team a's token expires later than team b's, and has more requests left.
const (
	fewRequests          = 500
	expiresSoon, expires = 100 * 24 * time.Hour, 200 * 24 * time.Hour
)

// ofCredentials finds series about what credentials may still do.
var ofCredentials = regexp.MustCompile(`^gha_controller_(github_rate_limit_remaining|` +
	`credential_expiry_timestamp_seconds)\{(.*)\} (.*)$`)

// keepFigures checks that the figures of credentials that the manager shows are of team b's server only where they are
// of team b's sets.
func (c *contest) keepFigures() {
	c.Helper()
	var wrong []string
	genuine := 0
	for _, content := range c.metrics() {
		for line := range strings.Lines(content) {
			found := ofCredentials.FindStringSubmatch(strings.TrimSpace(line))
			if found == nil || strings.Contains(found[2], fmt.Sprintf("namespace=%q", c.attacker.namespace)) {
				continue
			}
			var value float64
			if _, err := fmt.Sscan(found[3], &value); err != nil {
				c.Fatal(err)
			}
			soon := time.Now().Add((expiresSoon + expires) / 2).Unix()
			if value <= fewRequests || (value > 1e9 && value < float64(soon)) {
				wrong = append(wrong, "team b's figure, and not as team b's: "+line)
			} else {
				genuine++
			}
		}
	}
	if genuine == 0 {
		wrong = append(wrong, "none is of team a's GitHub")
	}
	report(c.T, "figures of credentials", wrong)
}

// appSecretOf is a team's Secret of the App.
func appSecretOf(namespace string, content map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: appSecret}, Data: content}
}
