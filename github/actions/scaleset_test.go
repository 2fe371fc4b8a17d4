package actions_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/github/actions"
)

// Names in queries are escaped.
func TestNamesAreEscaped(t *testing.T) {
	const name = "a b&c=d#e+f%20/ü"
	s := newServer(t)
	s.on("GET "+scaleSetsURL, reply{body: `{"count":1,"value":[{"id":7,"name":"` + name + `"}]}`})
	s.on("GET /tenant/_apis/runtime/runnergroups/", reply{body: `{"count":1,"value":[{"id":3,"name":"` + name +
		`","size":2,"isDefaultGroup":true}]}`})
	s.on("GET "+runnersURL, reply{body: `{"count":1,"value":[{"id":5,"name":"` + name + `","runnerScaleSetId":7}]}`})
	client := s.client()
	if _, err := client.GetRunnerScaleSet(t.Context(), 3, name); err != nil {
		t.Fatal(err)
	}
	if _, err := client.GetRunnerByName(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	group, err := client.GetRunnerGroupByName(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if want := (actions.RunnerGroup{ID: 3, Name: name}); *group != want {
		t.Errorf("got %+v, want %+v", *group, want)
	}
	for call, want := range map[string]map[string][]string{
		"GET " + scaleSetsURL: {"runnerGroupId": {"3"}, "name": {name}, "api-version": {"6.0-preview"}},
		"GET " + runnersURL:   {"agentName": {name}, "api-version": {"6.0-preview"}},
		// The slash before the question mark belongs to the path.
		"GET /tenant/_apis/runtime/runnergroups/": {"groupName": {name}, "api-version": {"6.0-preview"}},
	} {
		if diff := cmp.Diff(want, map[string][]string(s.only(call).query)); diff != "" {
			t.Errorf("%s: query (-want +got):\n%s", call, diff)
		}
	}
}

// Whatever a service does with the filter, only a scale set with the name is found: a stranger's would be changed, then
// deleted.
func TestWhatALookUpFinds(t *testing.T) {
	const missing, broken = 0, -1
	answers := map[string]int{
		``:                           missing,
		`{"id":1,"name":"stranger"}`: missing,
		`{"id":1}`:                   missing,
		`{"name":"big"}`:             missing,
		`{"id":1,"name":"stranger"},{"id":2,"name":"Big"}`: 2,
		`{"id":1,"name":"big"},{"id":2,"name":"big"}`:      broken,
	}
	for name, test := range map[string]struct {
		call    string
		missing error
		find    func(*actions.Client) (int, error)
	}{
		"scale set": {"GET " + scaleSetsURL, actions.ErrScaleSetNotFound, func(c *actions.Client) (int, error) {
			found, err := c.GetRunnerScaleSet(t.Context(), 1, "big")
			if err != nil {
				return 0, err
			}
			return found.ID, nil
		}},
		"runner group": {
			"GET /tenant/_apis/runtime/runnergroups/", actions.ErrRunnerGroupNotFound,
			func(c *actions.Client) (int, error) {
				found, err := c.GetRunnerGroupByName(t.Context(), "big")
				if err != nil {
					return 0, err
				}
				return found.ID, nil
			},
		},
	} {
		s := newServer(t)
		client := s.client()
		for things, want := range answers {
			s.on(test.call, reply{body: `{"count":3,"value":[` + things + `]}`})
			id, err := test.find(client)
			var unexpected *actions.UnexpectedResponseError
			switch {
			case want == missing && errors.Is(err, test.missing) && errors.Is(err, actions.ErrNotFound):
			case want == broken && errors.As(err, &unexpected):
			case want > 0 && err == nil && id == want:
			default:
				t.Errorf("%s in [%s]: got id %d, %v", name, things, id, err)
			}
		}
	}
}

// Only fields that are set are sent. Labels have the type System, and the name is the first by default.
func TestRequestBodies(t *testing.T) {
	full := &actions.RunnerScaleSet{
		ID: 9, Name: "big", RunnerGroupID: 3, Labels: []actions.Label{{Name: "big"}, {Name: "gpu", Type: "System"}},
		RunnerSetting:      actions.RunnerSetting{DisableUpdate: true},
		CreatedOn:          epoch,
		RunnerJITConfigURL: "https://x",
		Statistics:         &actions.Statistics{},
	}
	for name, test := range map[string]struct {
		set            *actions.RunnerScaleSet
		create, update string
	}{
		"name only": {
			&actions.RunnerScaleSet{Name: "big"}, `{"name":"big","labels":[{"type":"System","name":"big"}]}`, `{"name":"big"}`,
		},
		"group only": {&actions.RunnerScaleSet{RunnerGroupID: 3}, "", `{"runnerGroupId":3}`},
		"all": {full, `{"name":"big","runnerGroupId":3,"labels":[{"type":"System","name":"big"},{"type":"System",` +
			`"name":"gpu"}],"RunnerSetting":{"disableUpdate":true}}`,
			`{"name":"big","runnerGroupId":3,"labels":[{"type":"System","name":"big"},{"type":"System",` +
				`"name":"gpu"}],"RunnerSetting":{"disableUpdate":true}}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.on("POST "+scaleSetsURL, reply{body: `{"id":7}`})
			s.on("PATCH "+scaleSetsURL+"/7", reply{body: `{"id":7}`})
			client := s.client()
			if _, err := client.UpdateRunnerScaleSet(t.Context(), 7, test.set); err != nil {
				t.Fatal(err)
			}
			if got := s.only("PATCH " + scaleSetsURL + "/7").body; got != test.update+"\n" {
				t.Errorf("update sends %s, want %s", got, test.update)
			}
			_, err := client.CreateRunnerScaleSet(t.Context(), test.set)
			if (err == nil) != (test.create != "") {
				t.Fatalf("create: %v", err)
			}
			if test.create != "" && s.only("POST "+scaleSetsURL).body != test.create+"\n" {
				t.Errorf("create sends %s, want %s", s.only("POST "+scaleSetsURL).body, test.create)
			}
		})
	}
	if full.Labels[0].Type != "" || full.ID != 9 {
		t.Error("the caller's scale set was changed")
	}
}

func TestScaleSetIsReadWhole(t *testing.T) {
	s := newServer(t)
	s.on(getSetCall, reply{body: `{"id":7,"name":"big","runnerGroupId":3,"runnerGroupName":"g",
		"labels":[{"id":1,"name":"big","type":"System"}],"runnerSetting":{"disableUpdate":true,"new":1},
		"createdOn":"2026-03-01T12:00:00.1234567Z","runnerJitConfigUrl":"https://jit",
		"statistics":{"totalAvailableJobs":1,"totalAcquiredJobs":2,"totalAssignedJobs":3,"totalRunningJobs":4,
		"totalRegisteredRunners":5,"totalBusyRunners":6,"totalIdleRunners":7}}`})
	got, err := s.client().GetRunnerScaleSetByID(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	want := &actions.RunnerScaleSet{
		ID: 7, Name: "big", RunnerGroupID: 3, RunnerGroupName: "g", Labels: []actions.Label{{Type: "System", Name: "big"}},
		RunnerSetting:      actions.RunnerSetting{DisableUpdate: true},
		CreatedOn:          epoch.Add(123456700 * time.Nanosecond),
		RunnerJITConfigURL: "https://jit",
		Statistics:         &actions.Statistics{1, 2, 3, 4, 5, 6, 7},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDeletingAScaleSetThatIsGone(t *testing.T) {
	call := "DELETE " + scaleSetsURL + "/7"
	for name, test := range map[string]struct {
		reply reply
		fails bool
	}{
		"deleted":      {reply{status: 204}, false},
		"gone":         {reply{status: 404, body: exception("RunnerScaleSetNotFoundException", "gone")}, false},
		"plain 404":    {reply{status: 404}, false},
		"other tenant": {reply{status: 404, body: exception("HostDoesNotExistException", "moved")}, true},
		"refused":      {reply{status: 400, body: exception("ArgumentException", "no")}, true},
	} {
		s := newServer(t)
		s.on(call, test.reply)
		if err := s.client().DeleteRunnerScaleSet(t.Context(), 7); (err != nil) != test.fails {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// GitHub answers 400 if the name is taken.
func TestTakenScaleSetName(t *testing.T) {
	s := newServer(t)
	s.on("POST "+scaleSetsURL, reply{status: 400, body: exception("RunnerScaleSetExistsException", "taken")})
	if _, err := s.client().CreateRunnerScaleSet(t.Context(), &actions.RunnerScaleSet{
		Name: "big",
	}); !errors.Is(err, actions.ErrScaleSetExists) {
		t.Errorf("got %v, want ErrScaleSetExists", err)
	}
}

func TestScaleSetWithoutIDIsAnError(t *testing.T) {
	for _, answer := range []reply{{body: `{}`}, {status: 204}, {body: ``}, {body: `{"id":"seven"}`}} {
		s := newServer(t)
		s.on(getSetCall, answer)
		var broken *actions.UnexpectedResponseError
		if _, err := s.client().GetRunnerScaleSetByID(t.Context(), 7); !errors.As(err, &broken) {
			t.Errorf("%q: got %v, want *UnexpectedResponseError", answer.body, err)
		}
	}
}

// All scale sets are asked for without a name; what has no id is none.
func TestAllScaleSets(t *testing.T) {
	s := newServer(t)
	s.on("GET "+scaleSetsURL, reply{body: `{"count":3,"value":[{"id":2,"name":"a"},{"name":"none"},{"id":1,"name":"b"}]}`})
	found, err := s.client().ListRunnerScaleSets(t.Context())
	if err != nil || len(found) != 2 || found[0].Name != "a" || found[1].ID != 1 {
		t.Errorf("found %+v, %v", found, err)
	}
	want := map[string][]string{"api-version": {"6.0-preview"}}
	if diff := cmp.Diff(want, map[string][]string(s.only("GET "+scaleSetsURL).query)); diff != "" {
		t.Errorf("query (-want +got):\n%s", diff)
	}
}
