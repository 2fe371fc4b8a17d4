package fakegithub_test

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/internal/fakegithub"
)

func labelNames(set scaleSet) []string {
	names := []string{}
	for _, l := range set.Labels {
		names = append(names, l.Type+"/"+l.Name)
	}
	return names
}

func TestLabels(t *testing.T) {
	tests := map[string]struct {
		multi bool
		want  []string
	}{
		"with multi-label":    {true, []string{"System/linux", "System/gpu"}},
		"without multi-label": {false, []string{"System/linux"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, fakegithub.Options{Rules: fakegithub.Rules{MultiLabel: tt.multi}})
			if diff := cmp.Diff(tt.want, labelNames(c.createSet("linux", "gpu"))); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScaleSetLookups(t *testing.T) {
	c := newClient(t, fakegithub.Options{RunnerGroups: []string{"Big One"}})
	set := c.createSet("linux x")
	var found struct {
		Count int
		Value []scaleSet
	}
	lookups := map[string]int{
		"?runnerGroupId=1&name=linux+x": 1, "?runnerGroupId=1&name=other": 0,
		"?runnerGroupId=2&name=linux+x": 0, "?runnerGroupId=1": 1, "": 1,
	}
	for query, want := range lookups {
		c.want(200, c.call("GET", setsPath+query, nil), &found)
		if found.Count != want || len(found.Value) != want {
			t.Errorf("%q: found %d (%d), want %d", query, found.Count, len(found.Value), want)
		}
	}
	var got scaleSet
	c.want(200, c.call("GET", setsPath+"/"+strconv.Itoa(set.ID), nil), &got)
	if got.Name != "linux x" || got.Statistics == nil || !got.RunnerSetting.DisableUpdate ||
		got.RunnerGroupName != "Default" {
		t.Errorf("got %+v", got)
	}
	c.wantException(404, "RunnerScaleSetNotFoundException", c.call("GET", setsPath+"/99", nil))

	var groups struct {
		Count int
		Value []struct {
			ID             int
			Name           string
			IsDefaultGroup bool
		}
	}
	c.want(200, c.call("GET", "_apis/runtime/runnergroups/?groupName=big+one", nil), &groups)
	if groups.Count != 1 || groups.Value[0].ID != 2 || groups.Value[0].IsDefaultGroup {
		t.Errorf("groups %+v", groups)
	}
	c.want(200, c.call("GET", "_apis/runtime/runnergroups/?groupName=none", nil), &groups)
	if groups.Count != 0 {
		t.Errorf("groups %+v", groups)
	}
}

func TestScaleSetNameIsUniquePerGroup(t *testing.T) {
	c := newClient(t, fakegithub.Options{RunnerGroups: []string{"second"}})
	c.createSet("linux")
	c.wantException(400, "RunnerScaleSetExistsException", c.call("POST", setsPath, map[string]any{"name": "Linux"}))
	c.want(200, c.call("POST", setsPath, map[string]any{"name": "linux", "runnerGroupId": 2}), nil)
	c.want(400, c.call("POST", setsPath, map[string]any{"runnerGroupId": 1}), nil)
	c.want(400, c.call("POST", setsPath, map[string]any{"name": "x", "runnerGroupId": 9}), nil)
}

// The Go client's zero values must change nothing.
func TestUpdateChangesOnlyWhatIsGiven(t *testing.T) {
	c := newClient(t, fakegithub.Options{RunnerGroups: []string{"second"}})
	set := c.createSet("linux")
	path := setsPath + "/" + strconv.Itoa(set.ID)
	zero := func(field string, value any) map[string]any {
		return map[string]any{"RunnerSetting": map[string]any{}, "createdOn": "0001-01-01T00:00:00Z", field: value}
	}
	var got scaleSet
	c.want(200, c.call("PATCH", path, zero("runnerGroupId", 2)), &got)
	if got.Name != "linux" || got.RunnerGroupID != 2 || got.RunnerGroupName != "second" ||
		!got.RunnerSetting.DisableUpdate || len(got.Labels) != 1 {
		t.Errorf("after a change of the group: %+v", got)
	}
	c.want(200, c.call("PATCH", path, zero("name", "other")), &got)
	if got.Name != "other" || got.RunnerGroupID != 2 {
		t.Errorf("after a change of the name: %+v", got)
	}
	c.wantException(404, "RunnerScaleSetNotFoundException", c.call("PATCH", setsPath+"/99", zero("name", "x")))
}

func TestDeleteScaleSet(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	set := c.createSet("linux")
	s := c.openSession(set.ID)
	path := setsPath + "/" + strconv.Itoa(set.ID)
	c.want(204, c.call("DELETE", path, nil), nil)
	c.wantException(404, "RunnerScaleSetNotFoundException", c.call("DELETE", path, nil))
	c.want(401, s.poll(0, 1), nil)
	c.wantException(404, "RunnerScaleSetNotFoundException", c.call("PATCH", sessionsPath(set.ID)+"/"+s.SessionID, nil))
}

// A server that is somebody's own has whatever its owner likes; ids that are given after that are none of those.
func TestInventedScaleSets(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	for id, name := range map[int]string{7: "theirs", 3: "another's"} {
		if err := c.server.InventScaleSet(c.base+"/acme", id, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.server.InventScaleSet(c.base+"/acme", 7, "renamed"); err != nil {
		t.Fatal(err)
	}
	var got scaleSet
	if c.want(200, c.call("GET", setsPath+"/7", nil), &got); got.ID != 7 || got.Name != "renamed" {
		t.Errorf("got %+v", got)
	}
	if created := c.createSet("linux"); created.ID != 8 {
		t.Errorf("the next one has id %d", created.ID)
	}
}
