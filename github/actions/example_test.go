package actions_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

// The life of a scale set: find or create it, open its queue, take a message, provide a runner, clean up.
func Example() {
	github := httptest.NewServer(http.HandlerFunc(playGitHub))
	defer github.Close()

	// Against the real thing: https://github.com/acme and a token from a safe place.
	client, err := actions.NewClient(github.URL+"/acme", actions.Credentials{Token: "example"}, actions.Options{
		UserAgent: actions.UserAgent{System: "example", Version: "1.0.0"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := serveOneMessage(context.Background(), client); err != nil {
		fmt.Println(err)
	}
	// Output:
	// scale set 7 is new
	// job 11 is on offer
	// acquired [11]
	// runner web-1 has id 5
	// removed
}

func serveOneMessage(ctx context.Context, client *actions.Client) error {
	const defaultGroup = 1
	set, err := client.GetRunnerScaleSet(ctx, defaultGroup, "web")
	if errors.Is(err, actions.ErrScaleSetNotFound) {
		set, err = client.CreateRunnerScaleSet(ctx, &actions.RunnerScaleSet{Name: "web", RunnerGroupID: defaultGroup})
	}
	if err != nil {
		return err
	}
	fmt.Println("scale set", set.ID, "is new")

	session, err := client.CreateSession(ctx, set.ID, "example")
	if err != nil {
		return err // with actions.ErrSessionConflict: wait, an abandoned session frees itself
	}
	defer session.Close(context.WithoutCancel(ctx))

	message, err := session.GetMessage(ctx, 0, 10)
	if err != nil || message == nil { // no message: poll again with what was known before
		return err
	}
	var offered []int64
	for _, job := range message.JobsAvailable {
		fmt.Println("job", job.RunnerRequestID, "is on offer")
		offered = append(offered, job.RunnerRequestID)
	}
	acquired, err := session.AcquireJobs(ctx, offered)
	if err != nil {
		return err
	}
	fmt.Println("acquired", acquired)
	if err := session.DeleteMessage(ctx, message.ID); err != nil {
		return err
	}
	return provideRunner(ctx, client, set.ID)
}

func provideRunner(ctx context.Context, client *actions.Client, scaleSetID int) error {
	config, err := client.GenerateJITConfig(ctx, scaleSetID, actions.JITConfigRequest{Name: "web-1"})
	if err != nil {
		return err
	}
	fmt.Println("runner", config.Runner.Name, "has id", config.Runner.ID)
	// Here a runner would start with config.EncodedJITConfig and do the job.
	if err := client.RemoveRunner(ctx, config.Runner.ID); err != nil {
		return err // with actions.ErrJobStillRunning: leave it alone
	}
	fmt.Println("removed")
	return client.DeleteRunnerScaleSet(ctx, scaleSetID)
}

// playGitHub answers like GitHub with one job on offer.
func playGitHub(w http.ResponseWriter, r *http.Request) {
	address := "http://" + r.Host
	const sets = "/service/_apis/runtime/runnerscalesets"
	switch r.Method + " " + strings.TrimPrefix(r.URL.Path, sets) {
	case "POST /api/v3/orgs/acme/actions/runners/registration-token":
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"token":"registration"}`)
	case "POST /api/v3/actions/runner-registration":
		fmt.Fprintf(w, `{"url":"%s/service/","token":"admin"}`, address)
	case "GET ":
		fmt.Fprint(w, `{"count":0,"value":[]}`)
	case "POST ":
		fmt.Fprint(w, `{"id":7,"name":"web"}`)
	case "POST /7/sessions":
		fmt.Fprintf(
			w, `{"sessionId":"s","messageQueueUrl":"%s/queue?s=1","messageQueueAccessToken":"queue","statistics":{}}`,
			address,
		)
	case "GET /queue":
		fmt.Fprint(w, `{"messageId":1,"messageType":"RunnerScaleSetJobMessages","statistics":{"totalAvailableJobs":1},`+
			`"body":"[{\"messageType\":\"JobAvailable\",\"runnerRequestId\":11}]"}`)
	case "POST /7/acquirejobs":
		fmt.Fprint(w, `{"count":1,"value":[11]}`)
	case "POST /7/generatejitconfig":
		fmt.Fprint(w, `{"runner":{"id":5,"name":"web-1","runnerScaleSetId":7},"encodedJITConfig":"secret"}`)
	default: // all that is left are deletions
		w.WriteHeader(http.StatusNoContent)
	}
}

// What a failure means is known by its type, never by its text; when to try again, by one call.
func ExampleRetryAt() {
	limited := &actions.RateLimitedError{Until: time.Date(2026, time.May, 1, 12, 0, 0, 0, time.UTC)}
	now := limited.Until.Add(-time.Minute)
	for _, err := range []error{
		fmt.Errorf("create the scale set: %w", limited), fmt.Errorf("find the scale set: %w", actions.ErrScaleSetNotFound),
	} {
		fmt.Println(errors.Is(err, actions.ErrScaleSetNotFound), actions.RetryAt(err, now).Sub(now))
	}
	// Output:
	// false 1m0s
	// true 0s
}

// An address as people write it becomes an organization, a repository or an enterprise, or an error that says what to
// write instead.
func ExampleParseConfigURL() {
	_, err := actions.ParseConfigURL("https://github.com/acme/web/settings/actions")
	fmt.Println(errors.As(err, new(*actions.InvalidConfigURLError)))
	// Output: true
}
